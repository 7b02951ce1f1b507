"""The report of `egrl reproduce shard`: the teams' costs beside ours, everything made of results.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from egrl.reproduce.shard.plan import EXACT
from egrl.reproduce.shard.published import CORES, TEAMS
from egrl.runs.summary import percent_up

Results = Mapping[str, Any]


def report(results: Results) -> str:
    """The report as Markdown; its figure is beside it in figures/."""
    parts = [_head(results), _totals(results), _scores(results), _costs(results), _gaps(results)]
    parts += [_figure(), _refused(results), _instances(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def score(entry: Mapping[str, Any], cost: float | None) -> float:
    """Of a cost on an instance with a published best: that over the cost, above 1 where it is beaten; 0 for none."""
    return 0.0 if cost is None else float(entry["published"]["best"] / cost)


def _head(results: Results) -> str:
    plan = results["plan"]
    share = (
        "the contest's seconds" if plan["share"] == 1 else f"{plan['share']:g} times the contest's seconds"
    )
    return f"""# The sharding contest

The contest on intra-operator parallelism of ASPLOS / EuroSys 2025. Made by `egrl reproduce shard --instances FOLDER`.

**What was run.** Each method on each instance in {share} of searching. `{EXACT}` has two threads and
{_counted(plan["seeds"])}, the others one thread and {_counted(plan["rival_seeds"])}. The contest ran each
entry on {CORES} cores. Reading a file and building the problem come before the search, as reading did
in the contest. One program with its default settings; nothing of it knows an instance.

**Scores** are the best cost of all twenty teams / the cost, 0 where nothing valid was found. Ours may be above 1: the
contest's could not. Costs are the judge's, in exact whole numbers; *valid* is its word, too."""


def _counted(seeds: int) -> str:
    return "seed 0" if seeds == 1 else f"seeds 0 to {seeds - 1}"


def _public(results: Results) -> dict[str, Mapping[str, Any]]:
    """Instances with published results."""
    return {name: entry for name, entry in results["instances"].items() if entry["published"] is not None}


def _ours(results: Results, seed: int, method: str, cap: float = float("inf")) -> float | None:
    """The sum of scores over the instances with published results; None where one was refused."""
    total = 0.0
    for entry in _public(results).values():
        found = entry["methods"][method]
        if found["refused"] is not None:
            return None
        total += min(cap, score(entry, found["runs"][seed]["cost"]))
    return total


def _totals(results: Results) -> str:
    public, plan = _public(results), results["plan"]
    if not public:
        return ""
    lines = [
        f"## Scores over {len(public)} instance{'s' if len(public) > 1 else ''}",
        "",
        "| | sum of scores, mean over seeds | least and most | each score at most 1 |",
        "|---|---:|---:|---:|",
    ]
    for method in plan["methods"]:
        seeds = range(plan["seeds" if method == EXACT else "rival_seeds"])
        sums = [_ours(results, seed, method) for seed in seeds]
        capped = [_ours(results, seed, method, 1.0) for seed in seeds]
        if None in sums:
            lines.append(f"| `{method}` | it does not serve every instance | - | - |")
            continue
        reached, most_1 = [s for s in sums if s is not None], [s for s in capped if s is not None]
        span = f"{min(reached):.3f} to {max(reached):.3f}"
        lines.append(f"| `{method}` | {fmean(reached):.3f} | {span} | {fmean(most_1):.3f} |")
    for at, team in enumerate(TEAMS):
        total = sum(score(entry, entry["published"]["teams"][at]) for entry in public.values())
        lines.append(f"| {team} of the contest | {total:.3f} | - | {total:.3f} |")
    return "\n".join(lines)


def _scores(results: Results) -> str:
    public, methods = _public(results), results["plan"]["methods"]
    if not public:
        return ""
    lines = [
        "## Score by score",
        "",
        "Means over seeds, and the least; published scores of the first three teams.",
        "",
    ]
    lines += [_row("instance", "seconds", *(f"`{m}`" for m in methods), *TEAMS)]
    lines += ["|---" + "|---:" * (1 + len(methods) + len(TEAMS)) + "|"]
    for name, entry in public.items():
        cells = []
        for method in methods:
            scores = [score(entry, run["cost"]) for run in entry["methods"][method]["runs"]]
            cells.append(f"{fmean(scores):.4f} ({min(scores):.4f})" if scores else "-")
        teams = [f"{score(entry, cost):.4f}" for cost in entry["published"]["teams"]]
        lines.append(_row(name, f"{entry['seconds']:g}", *cells, *teams))
    return "\n".join(lines)


def _costs(results: Results) -> str:
    methods = results["plan"]["methods"]
    lines = ["## Costs", "", "The median over seeds, and in how many of them what was found is valid.", ""]
    lines += [_row("instance", "baseline", *(f"`{m}`, valid" for m in methods), "best of the teams")]
    lines += ["|---" + "|---:" * (2 + len(methods)) + "|"]
    for name, entry in results["instances"].items():
        cells = [_median(entry["methods"][method]["runs"]) for method in methods]
        baseline = f"{entry['baseline']['cost']:.0f}{'' if entry['baseline']['valid'] else ' (not valid)'}"
        best = "-" if entry["published"] is None else f"{entry['published']['best']}"
        lines.append(_row(name, baseline, *cells, best))
    return "\n".join(lines)


def _median(runs: Sequence[Mapping[str, Any]]) -> str:
    costs = [run["cost"] for run in runs if run["cost"] is not None]
    if not runs:
        return "-"
    return f"{median(costs):.0f}, {len(costs)} of {len(runs)}" if costs else f"none, 0 of {len(runs)}"


def _gaps(results: Results) -> str:
    """What `exact` proved."""
    rows, gaps = list[str](), list[float]()
    for name, entry in results["instances"].items():
        found = entry["methods"].get(EXACT, {"runs": []})["runs"]
        bounds = [run["bound"] for run in found if run["bound"] is not None]
        costs = [run["cost"] for run in found if run["cost"] is not None]
        if bounds and costs:
            gap = min(costs) / max(bounds) - 1
            gaps.append(gap)
            each = [run["cost"] / run["bound"] - 1 for run in found if run["cost"] and run["bound"]]
            cells = [f"{min(costs)}", f"{max(bounds):.0f}", percent_up(gap), percent_up(median(each))]
            rows.append(_row(name, *cells))
        else:
            rows.append(_row(name, "-", "-", "-", "-"))
    if not gaps:
        return ""
    return "\n".join(
        [
            "## Proven gaps",
            "",
            f"No choice costs less than the bound: `{EXACT}` proves that while it searches. The median over instances"
            f" of the least gap is {percent_up(median(gaps))}.",
            "",
            _row("instance", "best cost", "highest bound", "gap", "median gap of a run"),
            "|---|---:|---:|---:|---:|",
            *rows,
        ]
    )


def _figure() -> str:
    return """## Cost and bound over time

![Cost and bound against seconds, a panel an instance](figures/progress.png)

Each run is a line, costs solid and bounds dashed, over the lowest cost of the panel. What costs more than ten times
that is above the frame."""


def _refused(results: Results) -> str:
    lines = list(_reasons(results))
    return "\n".join(["## What was not run", "", *lines]) if lines else ""


def _reasons(results: Results) -> Iterator[str]:
    for name, entry in results["instances"].items():
        for method, found in entry["methods"].items():
            if found["refused"] is not None:
                yield f"- `{method}` on {name}: {found['refused']}."


def _instances(results: Results) -> str:
    lines = [
        "## Instances",
        "",
        _row("instance", "nodes", "edges", "strategies", "seconds to read and build"),
    ]
    lines += ["|---|---:|---:|---:|---:|"]
    for name, entry in results["instances"].items():
        sizes = [f"{entry[key]:,}" for key in ("nodes", "edges", "strategies")]
        lines.append(_row(name, *sizes, f"{entry['reading_seconds']:.1f}"))
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
