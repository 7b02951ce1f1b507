"""Cost and proven bound against seconds, one panel per instance: how the two close in on each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from analysis.style import COLOURS, legend_below, panel_grid

COLUMNS = 2
ABOVE = 10.0
"""Costs that many times the best are above the frame, and so are bounds below a tenth below it."""
NARROW = 3.0
"""Frames that span no more than so many times have a linear axis, whose labels can be read."""


@dataclass(frozen=True)
class Progress:
    """One run.

    Attributes:
        label: runs of equal label are repetitions of one another.
        seconds: float64 [T], rising, since the run began.
        cost, bound: float64 [T], the best cost and what is proved so far; NaN where there is none.
    """

    label: str
    seconds: NDArray[np.float64]
    cost: NDArray[np.float64]
    bound: NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """One instance: its runs, and costs that are drawn as level lines by their names."""

    title: str
    runs: Sequence[Progress]
    levels: Mapping[str, float]


def least_cost(panel: Panel) -> float:
    """The lowest cost of a panel, runs and levels together; 1 where there is none."""
    costs = [float(cost) for run in panel.runs for cost in run.cost[np.isfinite(run.cost)]]
    return min([*costs, *panel.levels.values()], default=1.0)


def progress_figure(panels: Sequence[Panel]) -> Figure:
    """Costs and bounds over the lowest cost of a panel, each run a line; time is logarithmic.

    Raises:
        ValueError: there is no panel.
    """
    figure, grid = panel_grid(len(panels), COLUMNS, 2.5, "seconds of searching", "over the lowest cost")
    labels = list(dict.fromkeys(run.label for panel in panels for run in panel.runs))
    levels = list(dict.fromkeys(name for panel in panels for name in panel.levels))
    for axes, panel in zip(grid, panels, strict=True):
        _draw(axes, panel, labels)
    handles = [Line2D([], [], color=_colour(at), label=label) for at, label in enumerate(labels)]
    handles += [Line2D([], [], color="0.2", linestyle="--", label="proven bound")]
    handles += [Line2D([], [], color="0.35", linestyle=":", label=name) for name in levels]
    legend_below(figure, handles)
    return figure


def _draw(axes: Axes, panel: Panel, labels: Sequence[str]) -> None:
    unit, lowest, highest = least_cost(panel), 1.0, 1.0
    for run in panel.runs:
        colour = _colour(labels.index(run.label))
        for values, style in ((run.cost / unit, "-"), (run.bound / unit, "--")):
            known = np.isfinite(values) & (values > 0)
            if known.any():
                seconds = np.maximum(run.seconds[known], 1e-3)
                axes.plot(seconds, values[known], style, color=colour, linewidth=1.3, drawstyle="steps-post")
                axes.plot(seconds[-1:], values[known][-1:], ".", color=colour, markersize=5)
                lowest, highest = min(lowest, values[known].min()), max(highest, values[known].max())
    for value in panel.levels.values():
        axes.axhline(value / unit, color="0.35", linestyle=":", linewidth=1.0)
    axes.set_xscale("log")
    bottom, top = max(lowest, 1 / ABOVE), min(highest, ABOVE)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if top > NARROW * bottom:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    margin = 0.04 * max(top - bottom, 0.01)
    axes.set_ylim(bottom - margin * bottom, top + margin)
    axes.set_title(panel.title, parse_math=False, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(color="0.9")


def _colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]
