"""egrl plot: figures from run folders."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import parse_document

if TYPE_CHECKING:
    from analysis.curves import Curve

FIGURES = ("curves",)


@click.command(name="plot", short_help="draw figures from run folders")
@click.argument("figure", type=click.Choice(FIGURES))
@click.argument("runs", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="file to write: .png, .svg or .pdf")
def command(figure: str, runs: tuple[str, ...], output: str) -> int:
    """Draw a figure from one or more run folders.

    egrl plot curves runs/bert-egrl-s0-1 -o curve.png
    """
    from analysis import style
    from analysis.curves import learning_curves

    path = Path(output)
    if path.suffix not in style.FORMATS:
        raise InputError(f"--output {output}: expected a file ending in {', '.join(style.FORMATS)}")
    summaries = [read_summary(Path(run)) for run in runs]
    subjects = sorted({f"{s['workload']} on {s['chip']}" for s in summaries})
    if len(subjects) > 1:
        raise InputError(
            f"plot {figure}: expected runs of one workload and chip, found {', '.join(subjects)}"
        )
    curves = [read_curve(Path(run), summary) for run, summary in zip(runs, summaries, strict=True)]
    try:
        drawn = learning_curves(curves, f"{subjects[0]}: learning curve")
    except ValueError as error:
        raise InputError(f"plot {figure}: {error}") from error
    try:
        style.save(drawn, path)
    except OSError as error:
        raise InputError(
            f"--output {output}: expected a file that can be written: {error.strerror}"
        ) from error
    return 0


def read_summary(run: Path) -> dict[str, Any]:
    """summary.json of a run folder; InputError where there is none or it is damaged."""
    path = run / "summary.json"
    summary = parse_document(read_text(path, "the summary of a run"), str(path), "summary", 1)
    for key in ("workload", "chip", "method", "start"):
        if not isinstance(summary.get(key), str):
            raise InputError(f"{path}: {key}: expected a name, found {summary.get(key)!r}")
    return summary


def read_curve(run: Path, summary: dict[str, Any]) -> Curve:
    """The learning curve in metrics.csv; InputError where it is missing or damaged."""
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
    label = f"{summary['method']}, {summary['start']} start"
    return Curve(label, evaluations, best, np.array(policy) if len(policy) == len(rows) else None)
