"""Cost over a grid of chips: a band between proven bound and best found; of two parameters a map with contours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from analysis.style import COLOURS, legend_below, panel_grid

WIDE = 16.0
"""Values whose largest is so many times their smallest have a logarithmic axis."""
LEVELS = 8


@dataclass(frozen=True)
class Axis:
    """One parameter.

    Attributes:
        label: with its unit.
        values: float64 [P], ascending, in that unit.
        own: the chip's own value.
    """

    label: str
    values: NDArray[np.float64]
    own: float


@dataclass(frozen=True)
class Surface:
    """One workload on the grid; arrays are [P] or [P0, P1], NaN where the chip cannot be.

    Attributes:
        name: of the workload.
        cost, bound, baseline: best found, proved, and of the baseline, all in one unit.
    """

    name: str
    cost: NDArray[np.float64]
    bound: NDArray[np.float64]
    baseline: NDArray[np.float64]


def explore_figure(
    surfaces: Sequence[Surface], axes_of: Sequence[Axis], cost_label: str, baseline_name: str, title: str
) -> Figure:
    """A panel per workload. ValueError unless there are one or two parameters and a workload."""
    if len(axes_of) not in (1, 2):
        raise ValueError(f"axes_of: expected 1 or 2 parameters, received {len(axes_of)}")
    one = len(axes_of) == 1
    y_label = cost_label if one else axes_of[1].label
    figure, panels = panel_grid(len(surfaces), 2, 3.2, axes_of[0].label, y_label, title)
    for panel, surface in zip(panels, surfaces, strict=True):
        panel.set_title(_title(surface, one), fontsize=9, parse_math=False)
        _scale(panel, axes_of)
        if one:
            _band(panel, surface, axes_of[0])
        else:
            _map(figure, panel, surface, axes_of, cost_label)
    own = Line2D([], [], color="0.4", linestyle=":", label="the chip itself")
    if one:
        handles = [
            Line2D([], [], color=COLOURS[0], marker="o", markersize=4, label="best found"),
            Patch(color=COLOURS[0], alpha=0.25, label="down to the proven bound"),
            Line2D([], [], color=COLOURS[1], linestyle="--", label=baseline_name.removeprefix("the ")),
            own,
        ]
    else:
        own.set(linestyle="", marker="*", markersize=10, color="black")
        handles = [own, Line2D([], [], color="black", linewidth=0.8, label=f"equal {cost_label}, best found")]
    legend_below(figure, handles)
    return figure


def _title(surface: Surface, one: bool) -> str:
    """The workload; above a map also the largest gap, since a map has no band."""
    there = np.isfinite(surface.cost)
    if one or not there.any() or not (surface.bound[there] > 0).all():
        return surface.name
    most = float((surface.cost[there] / surface.bound[there]).max()) - 1
    return f"{surface.name}, within {most:.1%} of the proven bound"


def _scale(panel: Axes, axes_of: Sequence[Axis]) -> None:
    for axis, put in zip(axes_of, (panel.set_xscale, panel.set_yscale), strict=False):
        if axis.values[-1] >= WIDE * axis.values[0]:
            put("log")


def _band(panel: Axes, surface: Surface, axis: Axis) -> None:
    panel.fill_between(axis.values, surface.bound, surface.cost, color=COLOURS[0], alpha=0.25, linewidth=0)
    panel.plot(axis.values, surface.bound, color=COLOURS[0], linewidth=0.6)
    panel.plot(axis.values, surface.cost, color=COLOURS[0], marker="o", markersize=3, linewidth=1.4)
    panel.plot(axis.values, surface.baseline, color=COLOURS[1], linestyle="--", linewidth=1.1)
    if axis.values[0] <= axis.own <= axis.values[-1]:
        panel.axvline(axis.own, color="0.4", linestyle=":", linewidth=1.0)
    panel.grid(color="0.92")


def _map(figure: Figure, panel: Axes, surface: Surface, axes_of: Sequence[Axis], cost_label: str) -> None:
    x, y = axes_of[0].values, axes_of[1].values
    cost = np.ma.masked_invalid(surface.cost.T)
    mesh = panel.pcolormesh(x, y, cost, cmap="viridis_r", shading="nearest")
    figure.colorbar(mesh, ax=panel, label=cost_label)
    low, high = float(cost.min()), float(cost.max())
    if min(cost.shape) >= 2 and high > low:
        lines = panel.contour(x, y, cost, levels=LEVELS, colors="black", linewidths=0.8)
        panel.clabel(lines, fontsize=7)
    inside = all(axis.values[0] <= axis.own <= axis.values[-1] for axis in axes_of)
    if inside:
        panel.plot(axes_of[0].own, axes_of[1].own, marker="*", markersize=10, color="black")
