"""The report of `egrl reproduce tag`: what the paper states beside what was measured here.

Source of the published statements: TAG (de Mesmay et al., ICML 2009), abstract, sections 1 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

Results = Mapping[str, Any]
Entry = Mapping[str, Any]

ALLOWANCE = 0.02
"""A plan counts as as good as another up to this share of its cost: less than measurements differ by."""
MANY = 500
"""Measurements of dynamic programming from which on its search is called long."""
ORDER = 10.0
"""What "an order of magnitude" is held to mean."""


def report(results: Results) -> str:
    """The report as Markdown; figures are beside it in figures/."""
    parts = [
        _head(results),
        _claims(results),
        _time(results),
        _quality(results),
        _outside(results),
        _figures(),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _head(results: Results) -> str:
    plan = results["plan"]
    return f"""# Threshold ascent on graphs, reproduced

*Bandit-based optimization on graphs with application to library performance tuning* (de Mesmay, Rimmel, Voronenko,
Püschel, ICML 2009). Made by `egrl reproduce tag`.

**What was run.** Plans of complex DFTs of {len(plan["budgets"])} sizes on one core of this machine; methods
{", ".join(f"`{m}`" for m in plan["methods"])}; {_seconds(plan)} s of searching or {plan["evaluations"]:,}
evaluations a run, dynamic programming up to {plan["first_pass_seconds"]:g} s for its first pass; seeds 0 to
{plan["seeds"] - 1}, each run from nothing in a process of its own, {results["at_once"]} at once. Search time is
without the making of codelets, since the paper's library was compiled before. `printed` is the paper's algorithm,
`tag` the same with completions that learn (docs/tag.md), which `uct` has, too, with its own bandits; `dp` keeps one
plan a size in its first pass and twice as many in each that follows; `random` completes the empty plan uniformly. A
run's plan is the winner of a race of its best few.

**What can be compared.** The paper's library is Spiral's, parallel and on hardware of 2009; its grammar is not printed
in full. Ours is this package's (`hwsim/fft`), on one core. Numbers cannot agree; what can are the statements."""


def _seconds(plan: Mapping[str, Any]) -> str:
    found = sorted({seconds for _, seconds in plan["budgets"]})
    return f"{found[0]:g}" if len(found) == 1 else f"{found[0]:g} (small sizes) to {found[-1]:g}"


def target_of(entry: Entry, run: Entry) -> float | None:
    """Seconds of the plan that dynamic programming's first pass ends with, None where it did not end."""
    within = [text for _, count, text in run["steps"] if run["first_pass"] and count <= run["first_pass"]]
    return median(entry["race"][within[-1]]) if within else None


def reached(entry: Entry, run: Entry, target_s: float) -> tuple[float, int] | None:
    """Search time and evaluations from which on a run's best plan was as fast, the allowance included; None: never."""
    found: tuple[float, int] | None = None
    for seconds, count, text in run["steps"]:
        if median(entry["race"][text]) > target_s * (1 + ALLOWANCE):
            found = None
        elif found is None:
            found = float(seconds), int(count)
    return found


def _never(values: Sequence[float | None]) -> float:
    """The median, runs that never got there counted as infinite."""
    return median(float("inf") if value is None else value for value in values)


def compared(entry: Entry, label: str) -> dict[str, Any] | None:
    """A method against dynamic programming: medians over runs of time and evaluations to DP's quality.

    None where no first pass of dynamic programming ended. Each seed is held against the median of DP's results.
    """
    ended = {n: at for n, run in enumerate(entry["methods"].get("dp", [])) if (at := target_of(entry, run))}
    if not ended or label not in entry["methods"]:
        return None
    first, target = [entry["methods"]["dp"][n] for n in ended], median(ended.values())
    dp_s = median(run["first_pass_seconds"] for run in first)
    found = [reached(entry, run, target) for run in entry["methods"][label]]
    seconds = _never([None if hit is None else hit[0] for hit in found])
    return {
        "measurements": median(run["first_pass"] for run in first),
        "dp_seconds": dp_s,
        "seconds": seconds,
        "evaluations": _never([None if hit is None else hit[1] for hit in found]),
        "runs": sum(hit is not None for hit in found),
        "of": len(found),
        "less": dp_s / seconds,
    }


def _claims(results: Results) -> str:
    lines = [
        "## What holds and what does not",
        "",
        "| published | here | holds here |",
        "|---|---|---|",
        _order_of_magnitude(results),
        _dramatic(results),
        _better(results),
        _anytime(results),
    ]
    return "\n".join(lines)


def _order_of_magnitude(results: Results) -> str:
    told = "TAG finds as good a plan as dynamic programming in an order of magnitude less search time"
    found = {size: compared(entry, "tag") for size, entry in results["sizes"].items()}
    many = {size: hit for size, hit in found.items() if hit and hit["measurements"] >= MANY}
    if not many:
        return f"| {told} | no size at which DP needed {MANY} measurements and ended | not tested |"
    held = [size for size, hit in many.items() if hit["less"] >= ORDER]
    detail = "; ".join(f"{size}: {_times(hit)}" for size, hit in many.items())
    return f"| {told} | where DP needs {MANY} measurements or more: {detail} | {_verdict(len(held), len(many))} |"


def _times(hit: Mapping[str, Any]) -> str:
    if hit["less"] == 0:
        return f"not reached by the median run ({hit['runs']} of {hit['of']} reached it)"
    return f"{hit['less']:.1f}x less"


def _verdict(held: int, of: int) -> str:
    return "yes" if held == of else f"at {held} of {of} sizes" if held else "no"


def _dramatic(results: Results) -> str:
    told = "good plans are found much faster than by dynamic programming"
    found = [hit for entry in results["sizes"].values() if (hit := compared(entry, "tag"))]
    if not found:
        return f"| {told} | dynamic programming never ended | not tested |"
    held = sum(hit["less"] > 1 for hit in found)
    return f"| {told} | in less time at {held} of {len(found)} sizes (median run) | {_verdict(held, len(found))} |"


def _better(results: Results) -> str:
    told = "in some cases TAG's plan is better, by up to 10%"
    ratios = {size: _against_dp(entry) for size, entry in results["sizes"].items()}
    found = {size: ratio for size, ratio in ratios.items() if ratio}
    if not found:
        return f"| {told} | no pair to compare | not tested |"
    better = [size for size, (_, low, _) in found.items() if low > 1]
    worse = [size for size, (_, _, high) in found.items() if high < 1]
    best = max(ratio[0] for ratio in found.values())
    return (
        f"| {told} | surely better at {len(better)}, surely worse at {len(worse)} of {len(found)} sizes; at most"
        f" {best - 1:+.1%} | {'yes' if better else 'no'} |"
    )


def _against_dp(entry: Entry) -> tuple[float, float, float] | None:
    """DP's time over TAG's: median over the rounds of the race, and the quartiles; runs of a method by their median."""
    rounds = {}
    for label in ("tag", "dp"):
        plans = [run["plan"] for run in entry["methods"].get(label, []) if run["plan"]]
        if not plans:
            return None
        taken = [entry["race"][plan] for plan in plans]
        rounds[label] = [median(samples) for samples in zip(*taken, strict=True)]
    ratios = sorted(dp / tag for tag, dp in zip(rounds["tag"], rounds["dp"], strict=True))
    return median(ratios), ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]


def _anytime(results: Results) -> str:
    told = "TAG is an anytime algorithm"
    first: dict[str, list[int]] = {
        label: [
            run["steps"][0][1]
            for entry in results["sizes"].values()
            for run in entry["methods"].get(label, [])
            if run["steps"]
        ]
        for label in ("tag", "dp")
    }
    if not first["tag"] or not first["dp"]:
        return f"| {told} | a method found nothing | not tested |"
    dp = f"{min(first['dp'])} to {max(first['dp'])}"
    here = f"its first whole plan comes after {max(first['tag'])} evaluation, DP's after {dp}"
    return f"| {told} | {here} | {'yes' if max(first['tag']) < min(first['dp']) else 'no'} |"


def _time(results: Results) -> str:
    others = [label for label in results["plan"]["methods"] if label != "dp"]
    lines = [
        "## Search time to the quality of dynamic programming",
        "",
        "Dynamic programming's quality is that of the plan with which its first pass ends (median over seeds); another"
        f" method has reached it when its best plan is within {ALLOWANCE:.0%} of that and stays there. Each search"
        " names its best plan by its own measurements; how fast that plan is says the race at the end, in which every"
        " plan that was a run's best for a time takes part. Medians over runs; a run that never got there counts as"
        " infinite.",
        "",
        "| points | plans | DP: measurements, s | "
        + " | ".join(f"`{m}`: evaluations, s (runs)" for m in others)
        + " |",
        "|---" * (3 + len(others)) + "|",
    ]
    for size, entry in results["sizes"].items():
        hits = {label: compared(entry, label) for label in others}
        dp = next((hit for hit in hits.values() if hit), None)
        cells = [size, _count(entry["plans"])]
        cells.append("did not end" if dp is None else f"{dp['measurements']:,.0f}, {dp['dp_seconds']:.1f}")
        cells += [_reached(hit) for hit in hits.values()]
        lines.append("| " + " | ".join(cells) + " |")
    failed = sum(
        run["failed"]
        for entry in results["sizes"].values()
        for runs in entry["methods"].values()
        for run in runs
    )
    lines += ["", f"Evaluations that failed: {failed}."]
    return "\n".join(lines)


def _count(digits: str) -> str:
    return f"{int(digits):,}" if len(digits) < 10 else f"{digits[0]}.{digits[1]}e{len(digits) - 1}"


def _reached(hit: Mapping[str, Any] | None) -> str:
    if hit is None:
        return "-"
    if hit["seconds"] == float("inf"):
        return f"never ({hit['runs']} of {hit['of']})"
    return f"{hit['evaluations']:,.0f}, {hit['seconds']:.1f} ({hit['runs']} of {hit['of']})"


def _quality(results: Results) -> str:
    methods = results["plan"]["methods"]
    lines = [
        "## What the plans are worth",
        "",
        "All plans were timed again at the end, in turn with one another. Speedup over the default plan, which is found"
        " without measuring: median over runs, lowest to highest run in brackets; and DP's time over TAG's: median over"
        " rounds, quartiles in brackets.",
        "",
        "| points | " + " | ".join(f"`{m}`" for m in methods) + " | DP / TAG |",
        "|---" * (2 + len(methods)) + "|",
    ]
    for size, entry in results["sizes"].items():
        cells = [size]
        for label in methods:
            values = [speedup(entry, run["plan"]) for run in entry["methods"][label] if run["plan"]]
            cells.append(
                f"{median(values):.2f} [{min(values):.2f}, {max(values):.2f}]" if values else "nothing found"
            )
        ratio = _against_dp(entry)
        cells.append("-" if ratio is None else f"{ratio[0]:.3f} [{ratio[1]:.3f}, {ratio[2]:.3f}]")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def speedup(entry: Entry, plan: str) -> float:
    """Of a plan over the default plan, by the medians of the race."""
    return median(entry["race"][entry["default"]]) / median(entry["race"][plan])


def _outside(results: Results) -> str:
    names = ["numpy", "scipy", "pyfftw"]
    found = [name for name in names if all(name in entry["race"] for entry in results["sizes"].values())]
    lines = [
        "## Beside other libraries",
        "",
        "The fastest plan of all runs, its choice by the race that also times it; microseconds, medians of the rounds."
        + ("" if "pyfftw" in found else " pyFFTW (extra fftw) was not installed."),
        "",
        "| points | " + " | ".join(found) + " | default plan | best plan | over numpy | by | plan |",
        "|---" * (7 + len(found)) + "|",
    ]
    for size, entry in results["sizes"].items():
        by = {run["plan"]: label for label, runs in entry["methods"].items() for run in runs if run["plan"]}
        race = {name: median(samples) for name, samples in entry["race"].items()}
        best = min([*by, entry["default"]], key=lambda plan: race[plan])
        cells = [size, *(f"{race[name] * 1e6:.2f}" for name in found), f"{race[entry['default']] * 1e6:.2f}"]
        cells += [
            f"{race[best] * 1e6:.2f}",
            f"{race['numpy'] / race[best]:.2f}x",
            by.get(best, "default"),
            f"`{best}`",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _figures() -> str:
    return """## Search time

![Best plan against seconds of searching](figures/search-seconds.png)

![Best plan against evaluations](figures/search-evaluations.png)

Medians over seeds, from the best to the worst run. What was the best plan at a time is what the search had measured;
how fast it is says the race at the end, so that lines may rise where a search was misled by noise.

## Growth of the subgraph

![Vertices of the subgraph against evaluations](figures/growth.png)

Above the dotted line (one vertex an evaluation) are vertices that needed no measurement, since their plan was known.

## The plans

![The fastest plan of each method for the largest size](figures/plans.png)"""
