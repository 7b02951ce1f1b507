"""Best reward so far against seconds, one panel per program (MMapGame, Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from analysis.style import COLOURS, LINES, legend_below, line_of, panel_grid

GRID = 200
"""Instants at which repetitions are compared."""
COLUMNS = 2
DECADE = 10
"""From the first reward to the last: shorter stretches have a linear axis, whose labels can be read."""
FEW_DECADES = 300
"""Stretches shorter than this have labels between powers of ten."""


@dataclass(frozen=True)
class RewardCurve:
    """One run.

    Attributes:
        label: runs of equal label are repetitions of one another.
        seconds: float64 [T], rising, since the run began.
        reward: float64 [T], best so far; NaN until there was one.
    """

    label: str
    seconds: NDArray[np.float64]
    reward: NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """One program: its runs, and rewards that are drawn as level lines by their names."""

    title: str
    curves: Sequence[RewardCurve]
    levels: Mapping[str, float]


@dataclass(frozen=True)
class RewardBand:
    """Repetitions of one label on common instants.

    Attributes:
        label: of the runs.
        runs: how many.
        seconds: float64 [G].
        mean, low, high: float64 [G], of the best rewards at these instants; NaN before every run has one.
    """

    label: str
    runs: int
    seconds: NDArray[np.float64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def reward_at(curve: RewardCurve, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """The best reward known at each instant, float64 [G]; NaN before the first."""
    at = np.searchsorted(curve.seconds, seconds, side="right") - 1
    return np.where(at >= 0, curve.reward[np.maximum(at, 0)], np.nan)


def reward_bands(curves: Sequence[RewardCurve]) -> list[RewardBand]:
    """One band per label in the order of first appearance; a run that ended early keeps what it had to the end of the
    longest. ValueError where there is no curve or an empty one.
    """
    if not curves or any(not len(curve.seconds) for curve in curves):
        raise ValueError("curves: expected at least one, none of them empty")
    first = min(float(curve.seconds[0]) for curve in curves)
    last = max(float(curve.seconds[-1]) for curve in curves)
    grid = np.geomspace(max(first, 1e-3), max(last, first, 2e-3), GRID)
    grid[-1] = max(grid[-1], last)
    found = []
    for label in dict.fromkeys(curve.label for curve in curves):
        rows = np.stack([reward_at(curve, grid) for curve in curves if curve.label == label])
        found.append(
            RewardBand(label, len(rows), grid, rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0))
        )
    return found


def reward_figure(panels: Sequence[Panel]) -> Figure:
    """Means over runs of equal label, from the lowest to the highest of them, against seconds."""
    figure, grid = panel_grid(len(panels), COLUMNS, 2.8, "seconds of searching", "reward (share of the most)")
    labels = list(dict.fromkeys(curve.label for panel in panels for curve in panel.curves))
    names = list(dict.fromkeys(name for panel in panels for name in panel.levels))
    for axes, panel in zip(grid, panels, strict=True):
        _draw(axes, panel, labels, names)
    handles = [Line2D([], [], label=label, **_look(at)) for at, label in enumerate(labels)]
    handles += [Line2D([], [], label=name, **_level_look(at)) for at, name in enumerate(names)]
    legend_below(figure, handles, handlelength=4.0)
    return figure


def _look(at: int) -> dict[str, Any]:
    return {**line_of(at), "linewidth": 1.8, "markersize": 4}


def _level_look(at: int) -> dict[str, Any]:
    return {"color": "0.35", "linestyle": LINES[(at + 1) % len(LINES)], "linewidth": 1.0}


def _draw(axes: Axes, panel: Panel, labels: Sequence[str], names: Sequence[str]) -> None:
    for band in reward_bands(panel.curves):
        at = labels.index(band.label)
        axes.plot(band.seconds, band.mean, drawstyle="steps-post", markevery=(at * 7 % 40, 40), **_look(at))
        axes.plot(band.seconds[-1:], band.mean[-1:], **_look(at))  # seen even where it is all there is
        if band.runs > 1:
            axes.fill_between(
                band.seconds, band.low, band.high, step="post", color=COLOURS[at % len(COLOURS)], alpha=0.18
            )
    for name, value in panel.levels.items():
        axes.axhline(value, zorder=1, **_level_look(names.index(name)))
    first = max(min(float(curve.seconds[0]) for curve in panel.curves), 1e-3)
    reach = max(float(curve.seconds[-1]) for curve in panel.curves) / first
    if reach >= DECADE:
        axes.set_xscale("log")
        steps = (1.0, 2.0, 5.0) if reach < FEW_DECADES else (1.0,)
        axes.xaxis.set_major_locator(LogLocator(subs=steps))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(panel.title, parse_math=False, fontsize=9)
    axes.grid(color="0.9")
    axes.margins(x=0.01)
