"""egrl plot: figures from run folders."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from egrl.commands.plot_runs import (
    PlottedRun,
    check_comparable,
    common_start,
    distinct,
    labels,
    read_run,
)
from workloads.errors import InputError
from workloads.files import read_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from analysis.curves import Curve

FIGURES = ("curves",)


@click.command(name="plot", short_help="draw figures from run folders")
@click.argument("figure", type=click.Choice(FIGURES))
@click.argument("runs", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="file to write: .png, .svg or .pdf")
def command(figure: str, runs: tuple[str, ...], output: str) -> int:
    """Draw a figure from one or more run folders.

    Repetitions (runs that differ in nothing but seed and budget) become one curve with a band.

    egrl plot curves runs/bert-egrl-s0-1 -o curve.png
    """
    from analysis import style

    path = Path(output)
    if path.suffix not in style.FORMATS:
        raise InputError(f"--output {output}: expected a file ending in {', '.join(style.FORMATS)}")
    drawn, remarks = curves_figure([read_run(Path(run)) for run in runs])
    try:
        style.save(drawn, path)
    except OSError as error:
        raise InputError(
            f"--output {output}: expected a file that can be written: {error.strerror}"
        ) from error
    for remark in remarks:
        click.echo(f"egrl plot: {remark}", err=True)
    return 0


def curves_figure(given: Sequence[PlottedRun]) -> tuple[Figure, list[str]]:
    """The learning curves of runs, and a line about each run of which something is not shown.

    InputError where the runs cannot stand in one figure.
    """
    from analysis.curves import learning_curves

    check_comparable(given)
    runs, remarks = distinct(given)
    curves = [
        read_curve(run.path, dict(run.summary), label) for run, label in zip(runs, labels(runs), strict=True)
    ]
    remarks += cut(curves, [run.path for run in runs])
    start = common_start(runs)
    title = f"{runs[0].summary['workload']} on {runs[0].summary['chip']}"
    bound = min((run.bound for run in runs if run.bound is not None), default=None)
    try:
        figure = learning_curves(curves, title + (f", {start} start" if start else ""), bound)
    except ValueError as error:
        raise InputError(f"plot: {error}") from error
    return figure, remarks


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


def read_curve(run: Path, summary: dict[str, Any], label: str | None = None) -> Curve:
    """The learning curve in metrics.csv; InputError where it is missing or damaged.

    Its label is by default the method and the start.
    """
    from analysis.curves import Curve

    path = run / "metrics.csv"
    text = read_text(path, "the metrics of a run")
    try:
        rows = list(csv.DictReader(text.splitlines()))
        evaluations = np.array([int(row["evaluations"]) for row in rows], dtype=np.int64)
        best = np.array([float(row["best_speedup"]) for row in rows])
        policy = [float(row["deployable_speedup"]) for row in rows if "deployable_speedup" in row]
    except (ValueError, KeyError, TypeError, OverflowError, csv.Error) as error:
        raise InputError(f"{path}: damaged metrics: {error}") from error
    if not np.isfinite(best).all():
        raise InputError(f"{path}: damaged metrics: expected finite speedups")
    if not rows:
        raise InputError(f"{path}: expected at least one generation, found none")
    if label is None:
        label = f"{summary['method']}, {summary['start']} start"
    return Curve(label, evaluations, best, np.array(policy) if len(policy) == len(rows) else None)
