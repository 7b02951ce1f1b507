"""The report of `egrl reproduce tag`: what the paper states beside what was measured here.

`tag_claims.py` judges the statements, `tag_numbers.py` has what the tables say.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from egrl.reproduce.tag.claims import claims
from egrl.reproduce.tag.numbers import (
    ALLOWANCE,
    Results,
    SizeResults,
    against_dp,
    mean_speedup,
    medians_against_dp,
    quality,
    speedup,
)

AFTER = (30, 100, 300, 1000)
"""Numbers of evaluations at which methods are compared."""


def report(results: Results) -> str:
    """The report as Markdown; figures are beside it in figures/."""
    parts = [
        _head(results),
        claims(results),
        _time(results),
        _equal_time(results),
        _equal_evaluations(results),
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
evaluations a run{_longer(plan)}; dynamic programming up to {plan["first_pass_seconds"]:g} s for its first pass; seeds
0 to {plan["seeds"] - 1}, each run from nothing in a process of its own, {results["at_once"]} at once. Search time is
without the making of codelets, since the paper's library was compiled before. `printed` is the paper's algorithm,
`tag` the same with completions that learn (docs/explanations/tag.md), which `uct` has, too, with its own bandits; `dp`
keeps one plan a size in its first pass and twice as many in each that follows; `random` completes the empty plan
uniformly. A run's plan is the winner of a race of its best few.

**What can be compared.** The paper's library is Spiral's, parallel and on hardware of 2009; its grammar is not printed
in full. Ours is this package's (`hwsim/fft`), on one core. Numbers cannot agree; what can are the statements."""


def _seconds(plan: Mapping[str, Any]) -> str:
    found = sorted({seconds for _, seconds in plan["budgets"]})
    return f"{found[0]:g}" if len(found) == 1 else f"{found[0]:g} (small sizes) to {found[-1]:g}"


def _longer(plan: Mapping[str, Any]) -> str:
    own = [f"{seconds:g} s at {size}" for size, seconds in plan["long_budgets"]]
    methods = " and ".join(f"`{label}`" for label in plan["long"])
    return f" ({methods}: {', '.join(own)}, about what dynamic programming took there)" if own else ""


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
        "| points | plans | codelets of a run | DP: measurements, s | "
        + " | ".join(f"`{m}`: evaluations, s (runs)" for m in others)
        + " |",
        "|---" * (4 + len(others)) + "|",
    ]
    for size, entry in results["sizes"].items():
        hits = {label: medians_against_dp(entry, label) for label in others}
        dp = next((hit for hit in hits.values() if hit), None)
        cells = [size, _count(entry["plans"]), _codelets(entry)]
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


def _codelets(entry: SizeResults) -> str:
    """How many codelets a run of TAG and of dynamic programming made, medians."""
    made = {label: [run["codelets"] for run in entry["methods"].get(label, [])] for label in ("tag", "dp")}
    return ", ".join(f"{label} {median(counts):.0f}" for label, counts in made.items() if counts)


def _count(digits: str) -> str:
    if len(digits) < 10:
        return f"{int(digits):,}"
    mantissa, exponent = f"{float(digits):.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _reached(hit: Mapping[str, Any] | None) -> str:
    if hit is None:
        return "-"
    if hit["seconds"] == float("inf"):
        return f"never ({hit['runs']} of {hit['of']})"
    return f"{hit['evaluations']:,.0f}, {hit['seconds']:.1f} ({hit['runs']} of {hit['of']})"


def _equal_time(results: Results) -> str:
    others = [label for label in results["plan"]["methods"] if label != "dp"]
    lines = [
        "## At equal search time",
        "",
        "Speedup over the default plan of the best plan after a tenth of the time of dynamic programming's first pass,"
        " and after all of it or at the end of the run, if that came before; median over runs.",
        "",
        "| points | DP: s | `dp` then | " + " | ".join(f"`{m}`: a tenth, all" for m in others) + " |",
        "|---" * (3 + len(others)) + "|",
    ]
    for size, entry in results["sizes"].items():
        hit = next((hit for label in others if (hit := medians_against_dp(entry, label))), None)
        if hit is None:
            continue
        dp_s = hit["dp_seconds"]
        cells = [size, f"{dp_s:.1f}", f"{median(entry['race'][entry['default']]) / hit['target_s']:.2f}"]
        limits = dp_s / 10, dp_s
        cells += [", ".join(_speed(quality(entry, label, limit, 0)) for limit in limits) for label in others]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _equal_evaluations(results: Results) -> str:
    methods = results["plan"]["methods"]
    lines = [
        "## At equal evaluations",
        "",
        f"The same after {', '.join(str(count) for count in AFTER)} evaluations;"
        " a dash: a run has no plan of the whole yet.",
        "",
        "| points | " + " | ".join(f"`{m}`" for m in methods) + " |",
        "|---" * (1 + len(methods)) + "|",
    ]
    for size, entry in results["sizes"].items():
        cells = [", ".join(_speed(quality(entry, label, count, 1)) for count in AFTER) for label in methods]
        lines.append("| " + " | ".join([size, *cells]) + " |")
    return "\n".join(lines)


def _speed(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


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
        ratio = against_dp(entry, "tag")
        cells.append("-" if ratio is None else f"{ratio[0]:.3f} [{ratio[1]:.3f}, {ratio[2]:.3f}]")
        lines.append("| " + " | ".join(cells) + " |")
    means = [_speed(mean_speedup(results, label)) for label in methods]
    lines.append("| geometric mean | " + " | ".join(means) + " | |")
    return "\n".join(lines)


def _outside(results: Results) -> str:
    names = ["numpy", "scipy", "pyfftw"]
    found = [name for name in names if all(name in entry["race"] for entry in results["sizes"].values())]
    lines = [
        "## Beside other libraries",
        "",
        "The fastest plan of all runs, its choice by the race that also times it; microseconds, medians of the rounds;"
        " what Python takes to call numpy, scipy and ours is in it."
        + (
            " pyFFTW runs a plan of FFTW_MEASURE on its own arrays without a check."
            if "pyfftw" in found
            else ""
        )
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

![Vertices of the subgraph for each evaluation](figures/growth.png)

The root aside; above the dotted line are vertices that needed no measurement, since their completion was a plan that
had been measured. Small sizes end when every plan has been.

## The plans

![The fastest plan of each method for the largest size](figures/plans.png)"""
