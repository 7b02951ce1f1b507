"""Several runs of one problem beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egrl.figures.repetitions import check_comparable, labels, to_plot
from egrl.report import searching
from egrl.report.story import headline
from egrl.runs.past import PastRun
from egrl.runs.words import about_of
from hwsim.sections import Cell, Section, Table


def compared(runs: Sequence[PastRun]) -> tuple[PastRun, str, list[Section]]:
    """The fastest run, a sentence of all, and their table and curves. InputError where they are not of one problem."""
    given = [to_plot(run) for run in runs]
    check_comparable(given)
    speedups = [float((run.summary["best"] or {"speedup": 0.0})["speedup"]) for run in runs]
    best = max(range(len(runs)), key=speedups.__getitem__)
    names = [f"{label}, seed {run.seed}" for label, run in zip(labels(given), given, strict=True)]
    rows: list[list[Cell]] = []
    for run, name, speedup in zip(runs, names, speedups, strict=True):
        s = run.summary
        found = s["best"] or {"cost": None, "source": None}
        gap = s.get("gap")
        rows.append(
            [
                name,
                round(speedup, 6),
                found["cost"],
                None if gap is None else round(100 * gap, 3),
                s["evaluations"],
                round(float(s.get("seconds", 0.0)), 1),
                found["source"],
                run.path.name,
            ]
        )
    unit = (runs[best].summary["best"] or {}).get("unit", "s")
    columns = [
        ("run", ""), ("speedup", ""), ("best", unit if unit == "s" else ""), ("within % of the best possible", ""),
        ("evaluations", ""), ("time of the search, s", ""), ("found by", ""), ("folder", ""),
    ]  # fmt: skip
    rival = about_of(runs[best].summary).rival
    sentence = (
        f"The fastest of {len(runs)} runs, {names[best]}, has {headline(runs[best].summary)} {rival}; the slowest has"
        f" {min(speedups):.4f}x. What follows the comparison is the fastest."
    )
    table = Table("The runs", "", columns, rows)
    curves = replace(searching.curves(list(runs), names), title="The searches")
    return runs[best], sentence, [table, curves]
