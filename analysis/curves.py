"""Learning curves: best speedup so far, and the deployable policy's, against evaluations (EGRL, Figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from analysis.style import COLOURS, LINES, new_figure


@dataclass(frozen=True)
class Curve:
    """One run.

    Attributes:
        label: runs of equal label are repetitions of one another.
        evaluations: int64 [T], cumulative.
        best: float64 [T], best speedup so far; 0 until something valid was found.
        deployable: float64 [T] of the top-ranked policy, NaN where unknown; or None.
    """

    label: str
    evaluations: NDArray[np.int64]
    best: NDArray[np.float64]
    deployable: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Band:
    """Repetitions of one label, on their common evaluations [T]: mean, and standard deviation over the runs."""

    label: str
    runs: int
    evaluations: NDArray[np.int64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    deployable: NDArray[np.float64] | None


def bands(curves: Sequence[Curve]) -> list[Band]:
    """The numbers behind the figure, a band a label in the order of first appearance.

    Raises:
        ValueError: no curve, or repetitions without a common evaluation.
    """
    if not curves:
        raise ValueError("curves: expected at least one, received none")
    found = []
    for label in dict.fromkeys(curve.label for curve in curves):
        runs = [curve for curve in curves if curve.label == label]
        common = runs[0].evaluations
        for run in runs[1:]:
            common = np.intersect1d(common, run.evaluations)
        if not len(common):
            raise ValueError(f"curves: expected common evaluations of the runs of {label!r}, received none")
        rows = [np.isin(run.evaluations, common) for run in runs]
        best = np.stack([run.best[row] for run, row in zip(runs, rows, strict=True)])
        policies = [
            run.deployable[row] for run, row in zip(runs, rows, strict=True) if run.deployable is not None
        ]
        deployable = np.mean(policies, axis=0) if len(policies) == len(runs) else None
        found.append(Band(label, len(runs), common, best.mean(axis=0), best.std(axis=0), deployable))
    return found


def learning_curves(curves: Sequence[Curve], title: str) -> Figure:
    """Best speedup so far (thick) and deployable policy (thin), mean over runs of equal label +- one deviation."""
    figure = new_figure()
    axes = figure.add_subplot()
    axes.axhline(1.0, color="0.45", linewidth=1.0, zorder=1)
    axes.annotate(
        "compiler",
        (1.0, 1.0),
        xycoords=("axes fraction", "data"),
        xytext=(-4, 3),
        color="0.35",
        textcoords="offset points",
        ha="right",
        fontsize=8,
    )
    for number, band in enumerate(bands(curves)):
        colour, line = COLOURS[number % len(COLOURS)], LINES[number % len(LINES)]
        label = band.label if band.runs == 1 else f"{band.label} (mean of {band.runs} runs ± 1 s.d.)"
        axes.plot(band.evaluations, band.mean, color=colour, linestyle=line, linewidth=2.0, label=label)
        if band.runs > 1:
            low, high = band.mean - band.deviation, band.mean + band.deviation
            axes.fill_between(band.evaluations, low, high, color=colour, alpha=0.18, linewidth=0)
        if band.deployable is not None and np.isfinite(band.deployable).any():
            axes.plot(
                band.evaluations,
                band.deployable,
                color=colour,
                linewidth=0.7,
                alpha=0.7,
                label=f"{band.label}: deployable policy",
            )
    axes.set_xlabel("evaluations (inferences measured)")
    axes.set_ylabel("speedup over the compiler")
    axes.set_title(title, parse_math=False)
    axes.margins(x=0.01)
    axes.grid(color="0.9")
    axes.legend(frameon=False, fontsize=8)
    return figure
