"""What the report of `egrl reproduce shard` says beside results.json: scores, medians and gaps.

    python -m egrl_shard.paper.report plugins/shard/docs/results/data/shard.json.xz

prints the report of results that ship. The sentences are in `report.md.j2`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from egrl.reproduction import render, shipped
from egrl.runs.text import percent_up
from egrl_shard.paper.plan import EXACT
from egrl_shard.paper.published import CORES, TEAMS

Results = Mapping[str, Any]


def report(results: Results) -> str:
    """The report as Markdown; its figure is beside it in figures/."""
    public = _public(results)
    gaps = {name: _gap(entry) for name, entry in results["instances"].items()}
    known = [gap["gap"] for name in public if (gap := gaps[name]) is not None]
    return render(
        Path(__file__).with_name("report.md.j2"),
        **results,
        EXACT=EXACT,
        CORES=CORES,
        TEAMS=TEAMS,
        public=public,
        totals={method: _totals(results, method) for method in results["plan"]["methods"]},
        teams={
            team: sum(score(entry, entry["published"]["teams"][at]) for entry in public.values())
            for at, team in enumerate(TEAMS)
        },
        score=score,
        scores=lambda entry, method: [score(entry, run["cost"]) for run in entry["methods"][method]["runs"]],
        costs=_costs,
        refused=[
            (name, method, own["refused"])
            for name, entry in results["instances"].items()
            for method, own in entry["methods"].items()
            if own["refused"] is not None
        ],
        gaps=gaps,
        median_gap=median(known) if known else None,
        percent_up=percent_up,
    )


def score(entry: Mapping[str, Any], cost: float | None) -> float:
    """Of a cost on an instance with a published best: that over the cost, above 1 where it is beaten; 0 for none."""
    return 0.0 if cost is None else float(entry["published"]["best"] / cost)


def _public(results: Results) -> dict[str, Mapping[str, Any]]:
    """Instances with published results."""
    return {name: entry for name, entry in results["instances"].items() if entry["published"] is not None}


def _totals(results: Results, method: str) -> dict[str, float] | None:
    """Sums of scores over the instances with published results: over seeds their mean, least and most, and the mean
    with each score at most 1. None where the method does not serve each instance.
    """
    entries = [(entry, entry["methods"][method]) for entry in _public(results).values()]
    if any(own["refused"] is not None for _, own in entries):
        return None
    seeds = range(results["plan"]["seeds" if method == EXACT else "rival_seeds"])
    scores = [[score(entry, own["runs"][seed]["cost"]) for entry, own in entries] for seed in seeds]
    sums = [sum(each) for each in scores]
    capped = [sum(min(1.0, value) for value in each) for each in scores]
    return {"mean": fmean(sums), "least": min(sums), "most": max(sums), "capped": fmean(capped)}


def _costs(runs: Sequence[Mapping[str, Any]]) -> list[float]:
    """The costs of the runs that ended with a valid choice."""
    return [run["cost"] for run in runs if run["cost"] is not None]


def _gap(entry: Mapping[str, Any]) -> dict[str, float] | None:
    """What `exact` proved on an instance: best cost, highest bound, the gap between them, and a run's median gap."""
    runs = entry["methods"].get(EXACT, {"runs": []})["runs"]
    bounds = [run["bound"] for run in runs if run["bound"] is not None]
    costs = _costs(runs)
    if not bounds or not costs:
        return None
    each = [run["cost"] / run["bound"] - 1 for run in runs if run["cost"] and run["bound"]]
    return {
        "cost": min(costs),
        "bound": max(bounds),
        "gap": min(costs) / max(bounds) - 1,
        "median_gap": median(each),
    }


if __name__ == "__main__":
    print(report(shipped(Path(sys.argv[1]))))
