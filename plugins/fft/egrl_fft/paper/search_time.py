"""The best cost known against what was spent on searching, one panel per problem; and how a subgraph grows (TAG)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from analysis.style import COLOURS, legend_below, line_of, new_figure, panel_grid

GRID = 200
"""Points at which repetitions are compared."""
COLUMNS, MANY_COLUMNS = 2, 4
"""Panels side by side; of more than eight panels."""


@dataclass(frozen=True)
class SearchCurve:
    """One run.

    Attributes:
        label: runs of equal label are repetitions of one another.
        spent: [T], rising and above 0, when a better one was found.
        cost: [T], microseconds.
        end: how much was spent in all.
    """

    label: str
    spent: Sequence[float]
    cost: Sequence[float]
    end: float


@dataclass(frozen=True)
class Growth:
    """The number of vertices after each evaluation [E] of one search."""

    label: str
    vertices: Sequence[float]


def medians(
    curves: Sequence[SearchCurve],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Grid float64 [G] of what was spent, and the median, least and largest best cost of the runs there.

    Infinite where a run has nothing yet; up to the end of the longest run, the others staying at what they reached.
    ValueError where there is no curve or an empty one.
    """
    if not curves or any(not len(curve.spent) for curve in curves):
        raise ValueError("curves: expected at least one, none of them empty")
    grid = np.geomspace(min(c.spent[0] for c in curves), max(c.end for c in curves), GRID)
    rows = []
    for curve in curves:
        at = np.searchsorted(curve.spent, grid * (1 + 1e-9), side="right") - 1
        rows.append(np.where(at >= 0, np.asarray(curve.cost)[np.maximum(at, 0)], np.inf))
    stacked = np.stack(rows)
    middle = np.sort(stacked, axis=0)[len(rows) // 2]
    if len(rows) % 2 == 0:
        middle = (middle + np.sort(stacked, axis=0)[len(rows) // 2 - 1]) / 2
    return grid, middle, stacked.min(axis=0), stacked.max(axis=0)


def search_figure(panels: Mapping[str, Sequence[SearchCurve]], spent: str) -> Figure:
    """Medians over runs of equal label, from the least to the largest of them; `spent` names the axis."""
    columns = COLUMNS if len(panels) <= 8 else MANY_COLUMNS
    figure, grid = panel_grid(len(panels), columns, 2.7, spent, "best DFT known (us)")
    labels = list(dict.fromkeys(curve.label for curves in panels.values() for curve in curves))
    for axes, (title, curves) in zip(grid, panels.items(), strict=True):
        for at, label in enumerate(labels):
            chosen = [curve for curve in curves if curve.label == label]
            if chosen:
                _draw(axes, chosen, at)
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_title(title, fontsize=9)
        axes.grid(color="0.9")
    handles = [Line2D([], [], label=label, **_look(at)) for at, label in enumerate(labels)]
    legend_below(figure, handles, handlelength=4.0)
    return figure


def _look(at: int) -> dict[str, Any]:
    return {**line_of(at), "linewidth": 1.6, "markersize": 4}


def _draw(axes: Axes, curves: Sequence[SearchCurve], at: int) -> None:
    grid, middle, low, high = medians(curves)
    known = np.isfinite(middle)
    axes.plot(grid[known], middle[known], drawstyle="steps-post", markevery=(at * 7 % 40, 40), **_look(at))
    both = known & np.isfinite(high)
    if len(curves) > 1 and both.any():
        axes.fill_between(
            grid[both], low[both], high[both], step="post", color=COLOURS[at % len(COLOURS)], alpha=0.15
        )


def growth_figure(searches: Sequence[Growth]) -> Figure:
    """Vertices of the subgraph, the root aside, for each evaluation; what is above 1 needed none of its own."""
    if not searches:
        raise ValueError("searches: expected at least one, received none")
    figure = new_figure()
    axes = figure.subplots()
    for at, grown in enumerate(searches):
        count = np.arange(1, len(grown.vertices) + 1)
        share = (np.asarray(grown.vertices) - 1) / count
        axes.plot(count, share, **{**_look(at), "marker": ""})
    axes.axhline(1.0, color="0.5", linestyle=":", linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("evaluations")
    axes.set_ylabel("vertices for each evaluation")
    axes.grid(color="0.9")
    handles = [Line2D([], [], label=g.label, **{**_look(at), "marker": ""}) for at, g in enumerate(searches)]
    legend_below(figure, handles, handlelength=4.0)
    return figure
