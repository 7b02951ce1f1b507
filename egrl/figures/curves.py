"""Learning curves of run folders: one curve per run, a band for repetitions.

Speedup over the compiler of the best mapping so far, against evaluations. Runs that differ only in seed and budget
are one curve, their mean, in a band; thin lines are the deployable policies', the dashed line is the bound.

Numbers: `bound` (no higher speedup is possible), and a curve for each label with `mean`, `deviation` (of the sample)
and `deployable` (the policy's) by `evaluations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.curves import Curve, bands, learning_curves
from egrl.figures.drawing import Drawing, plain
from egrl.figures.repetitions import (
    PlottedRun,
    check_comparable,
    common_start,
    distinct,
    labels,
    to_plot,
)
from egrl.runs.past_run import PastRun, course_of
from egrl.runs.text import about_of, start_word
from workloads.errors import InputError


def draw(runs: Sequence[PastRun]) -> Drawing:
    """The learning curves of runs, and a remark about each run of which something is not shown.

    InputError where the runs cannot stand in one figure.
    """
    given = [to_plot(run) for run in runs]
    check_comparable(given)
    kept, remarks = distinct(given)
    curves = [read_curve(run.path, run.summary, label) for run, label in zip(kept, labels(kept), strict=True)]
    remarks += cut(curves, [run.path for run in kept])
    remarks += unconfirmed(curves, kept)
    start = common_start(kept)
    title = f"{kept[0].summary['workload']} on {kept[0].summary['chip']}"
    bound = min((run.bound for run in kept if run.bound is not None), default=None)
    try:
        named = title + (f", {start} start" if start else "")
        about = about_of(kept[0].summary)
        figure = learning_curves(curves, named, bound, about.baseline_name, about.evaluated)
        numbers = {"bound": bound, "curves": bands(curves)}
    except ValueError as error:
        raise InputError(f"plot: {error}") from error
    return Drawing(figure, plain(numbers), remarks)


def cut(curves: Sequence[Curve], paths: Sequence[Path]) -> list[str]:
    """A line about each run that goes on beyond what all its repetitions have, which is as far as a band goes."""
    found = []
    for curve, path in zip(curves, paths, strict=True):
        end = min(int(other.evaluations[-1]) for other in curves if other.label == curve.label)
        if curve.evaluations[-1] > end:
            found.append(
                f"{path} has {curve.evaluations[-1]} evaluations; shown are the {end} that all runs of"
                f" {curve.label!r} have"
            )
    return found


def unconfirmed(curves: Sequence[Curve], runs: Sequence[PlottedRun]) -> list[str]:
    """A line about each run on a noisy board whose best was not measured again as it went."""
    return [
        f"{run.path}: the best single measurement, which noise flatters: nothing was measured again"
        for curve, run in zip(curves, runs, strict=True)
        if curve.low is None and (run.summary.get("evaluator") or {}).get("noise")
    ]


def read_curve(run: Path, summary: Mapping[str, Any], label: str | None = None) -> Curve:
    """The learning curve in metrics.csv: of a run on a noisy board, what holds of the best, with its interval.

    Its label is by default the method and the start. InputError where the file is missing or damaged.
    """
    if label is None:
        label = f"{summary['method']}, {start_word(about_of(summary).baseline_name, summary['start'])} start"
    course = course_of(run, summary)
    if course.confirmed is None:
        return Curve(label, course.evaluations, course.best, course.policy)
    value, low, high = course.confirmed.T
    # The policy's best is as it was measured: beside what holds, its luck would look like merit.
    return Curve(label, course.evaluations, value, None, low, high)
