"""The numbers behind `egrl compare`: methods on one workload, repeated with the same seeds.

Source of the intervals: Student's t for paired samples, two-sided, 95%: the differences of final speedups, seed by
seed, against one reference method. They speak of these seeds' spread, not of other workloads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.intervals import Interval, interval_of
from egrl.runs.text import about_of, baseline_text, cost_text, start_word
from workloads.text import UNKNOWN, markdown_text, optional, table

REFERENCE = "egrl"


@dataclass(frozen=True)
class Run:
    """What one run ended with.

    Attributes:
        method, seed: which run; a method runs a seed once.
        speedup: of the champion over the compiler's map; 0 where nothing valid was found.
        cost: of the champion, in the problem's unit; None where there is none.
        source: who proposed the champion; None where there is none.
        deployable: final speedup of the deployable policy; None where the method has none.
        seconds: wall time of the search.
        evaluations: made.
        model_calls, model_seconds: as `egrl.core.method.ModelUse` counts them.
    """

    method: str
    seed: int
    speedup: float
    cost: float | None
    source: str | None
    deployable: float | None
    seconds: float
    evaluations: int
    model_calls: float = 0.0
    model_seconds: float = 0.0


@dataclass(frozen=True)
class Row:
    """One method on one workload, over its runs. None: undefined (one run, no bound, no policy, the reference).

    Attributes:
        method: its name.
        runs: how many ended.
        mean, deviation, best: of final speedups; the deviation is the sample's (n - 1).
        against: paired by seed with the reference method's runs.
        of_best_known, of_bound: mean over the runs of best known cost (bound) / cost, 1 being as good; a run without
            a valid mapping counts 0.
        seconds: mean.
        champions: source -> number of runs whose champion it proposed.
        deployable: mean final speedup of the deployable policy.
        group: the title under which it stands apart; "": none.
        evaluations, model_calls, model_seconds: means.
    """

    method: str
    runs: int
    mean: float
    deviation: float | None
    best: float
    against: Interval | None
    of_best_known: float | None
    of_bound: float | None
    seconds: float
    champions: Mapping[str, int]
    deployable: float | None
    group: str = ""
    evaluations: float = 0.0
    model_calls: float = 0.0
    model_seconds: float = 0.0


def run_of(summary: Mapping[str, Any], deployable: Sequence[float] | None) -> Run:
    """A run from its summary.json and the deployable policy's speedups, a generation each (None: no policy)."""
    best = summary["best"]
    known = [float(value) for value in deployable or () if np.isfinite(value)]
    return Run(
        method=summary["method"],
        seed=int(summary["seed"]),
        speedup=0.0 if best is None else float(best["speedup"]),
        cost=None if best is None else float(best["cost"]),
        source=None if best is None else str(best["source"]),
        deployable=known[-1] if known else None,
        seconds=float(summary["seconds"]),
        evaluations=int(summary["evaluations"]),
        model_calls=float(summary.get("model_calls", 0.0)),
        model_seconds=float(summary.get("model_seconds", 0.0)),
    )


def paired_interval(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Interval | None:
    """Mean and 95% interval of ours - theirs over the seeds that both have; None for fewer than two."""
    seeds = sorted(ours.keys() & theirs.keys())
    if len(seeds) < 2:
        return None
    difference = np.array([ours[seed] - theirs[seed] for seed in seeds])
    return interval_of(float(difference.mean()), float(difference.std(ddof=1)), len(seeds))


def best_known_cost(runs: Sequence[Run], shipped: float | None = None) -> float | None:
    """The least cost that the compared runs found, or of the mapping that ships; None where there is neither."""
    costs = [shipped, *(run.cost for run in runs)]
    return min((cost for cost in costs if cost is not None), default=None)


def reference_of(methods: Sequence[str]) -> str:
    """The method that the others are held against: egrl where it takes part, or the first."""
    return REFERENCE if REFERENCE in methods else methods[0]


def rows(
    runs: Sequence[Run],
    methods: Sequence[str],
    best_known: float | None,
    bound: float | None,
    groups: Mapping[str, str] | None = None,
) -> list[Row]:
    """A row for each method that has runs, in the order of `methods`; `groups` has the title of those set apart.

    ValueError where a run is there twice.
    """
    by_method: dict[str, dict[int, Run]] = {}
    for run in runs:
        seeds = by_method.setdefault(run.method, {})
        if run.seed in seeds:
            raise ValueError(
                f"runs: expected a seed once a method, received {run.method} seed {run.seed} twice"
            )
        seeds[run.seed] = run
    reference = reference_of(methods)
    held = {seed: run.speedup for seed, run in by_method.get(reference, {}).items()}
    found = []
    for method in methods:
        if method in by_method:
            own = by_method[method]
            against = None
            if method != reference:
                against = paired_interval({seed: run.speedup for seed, run in own.items()}, held)
            row = _row(method, list(own.values()), against, best_known, bound)
            found.append(replace(row, group=(groups or {}).get(method, "")))
    return found


def _row(
    method: str,
    runs: Sequence[Run],
    against: Interval | None,
    best_known: float | None,
    bound: float | None,
) -> Row:
    speedup = np.array([run.speedup for run in runs])
    policies = [run.deployable for run in runs if run.deployable is not None]
    return Row(
        method=method,
        runs=len(runs),
        mean=float(speedup.mean()),
        deviation=float(speedup.std(ddof=1)) if len(runs) > 1 else None,
        best=float(speedup.max()),
        against=against,
        of_best_known=_share(best_known, runs),
        of_bound=_share(bound, runs),
        seconds=float(np.mean([run.seconds for run in runs])),
        champions=dict(Counter(run.source for run in runs if run.source is not None).most_common()),
        deployable=float(np.mean(policies)) if policies else None,
        evaluations=float(np.mean([run.evaluations for run in runs])),
        model_calls=float(np.mean([run.model_calls for run in runs])),
        model_seconds=float(np.mean([run.model_seconds for run in runs])),
    )


def _share(least: float | None, runs: Sequence[Run]) -> float | None:
    if least is None:
        return None
    return float(np.mean([0.0 if run.cost is None else least / run.cost for run in runs]))


def markdown(document: Mapping[str, Any]) -> str:
    """The document of comparison.json for people: one table per workload."""
    lines: list[str] = []
    for entry in document["workloads"]:
        lines += [f"## {markdown_text(entry['workload'])} on {markdown_text(entry['chip'])}", ""]
        lines += [_setting_line(document, entry), ""]
        lines += _tables(entry)
        lines += [f"- {markdown_text(failure)}" for failure in entry["failed"]]
        lines += [""] if entry["failed"] else []
    return "\n".join(lines).rstrip() + "\n"


def _tables(entry: Mapping[str, Any]) -> list[str]:
    """A table of the methods that stand together, then one of each group that is set apart, under its title."""
    groups: dict[str, list[dict[str, str]]] = {"": []}
    for row in entry["rows"]:
        groups.setdefault(row.get("group", ""), []).append(_cells(row, entry["reference"]))
    lines: list[str] = []
    for title, cells in groups.items():
        lines += [f"{title}:", ""] if title else []
        if cells:
            rows = [list(row.values()) for row in cells]
            lines += [*table(list(cells[0]), rows, last_left=True), ""]
    return lines


def _setting_line(document: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    known, bound, unit = entry["best_known"], entry["bound"], entry["unit"]
    seeds = f"{document['seeds']} seed{'s' if document['seeds'] > 1 else ''}"
    spent = document.get("seconds")
    budget = f"{document['evaluations']} evaluations" if spent is None else f"{spent:g} s of searching"
    return (
        f"Speedup over {baseline_text(about_of(entry), entry.get('rule', ''))} ({cost_text(entry['baseline'], unit)});"
        f" {budget}, {seeds},"
        f" start {start_word(about_of(entry).baseline_name, document['start'])}. Best known: "
        + (UNKNOWN if known is None else cost_text(known, unit))
        + ("; no proven bound." if bound is None else f"; proven bound: {cost_text(bound, unit)}.")
    )


def _cells(row: Mapping[str, Any], reference: str) -> dict[str, str]:
    against = row["against"]
    return {
        "method": row["method"],
        "runs": str(row["runs"]),
        "mean": f"{row['mean']:.4f}",
        "s.d.": optional(row["deviation"], ".4f"),
        "best": f"{row['best']:.4f}",
        f"against {reference} (95%)": UNKNOWN
        if against is None
        else f"{against['mean']:+.4f} [{against['low']:+.4f}, {against['high']:+.4f}]",
        "of best known": optional(row["of_best_known"], ".2%"),
        "of bound": optional(row["of_bound"], ".2%"),
        "policy": optional(row["deployable"], ".4f"),
        "evaluations": f"{row.get('evaluations', 0.0):.0f}",
        "model calls": f"{row.get('model_calls', 0.0):.0f}",
        "seconds": f"{row['seconds']:.1f}",
        "model seconds": f"{row.get('model_seconds', 0.0):.1f}",
        "champions by": ", ".join(f"{name} {count}" for name, count in row["champions"].items()) or UNKNOWN,
    }
