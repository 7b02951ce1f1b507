"""Predicted against measured costs, one panel per predictor, one colour per network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter
from numpy.typing import NDArray

from analysis.style import legend_below, mark_of, new_figure

DECADES = 1.0
"""Costs that span more are drawn with logarithmic axes."""


@dataclass(frozen=True)
class Predicted:
    """What one predictor says of M measurements.

    Attributes:
        title: of the panel.
        measured_s, predicted_s: float64 [M].
    """

    title: str
    measured_s: NDArray[np.float64]
    predicted_s: NDArray[np.float64]

    def error(self) -> float:
        """Root mean square of the logarithm of predicted / measured."""
        return float(np.sqrt(np.mean(np.log(self.predicted_s / self.measured_s) ** 2)))


def calibration_figure(
    panels: Sequence[Predicted], network: NDArray[np.int64], names: Sequence[str]
) -> Figure:
    """The panels beside each other, with the same axes.

    Args:
        panels: of the same M measurements.
        network: int64 [M], the network that each is of.
        names: of the networks.

    Raises:
        ValueError: no panels.
    """
    if not panels:
        raise ValueError("panels: expected at least one, received none")
    figure = new_figure(3.4 * len(panels) + 0.2, 4.4)
    grid = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    everything = 1e6 * np.concatenate([part for p in panels for part in (p.measured_s, p.predicted_s)])
    low, high = everything.min() / 1.08, everything.max() * 1.08
    for axes, panel in zip(grid, panels, strict=True):
        _panel(axes, panel, network, len(names), (low, high))
    grid[0].set_ylabel("predicted (µs)", fontsize=8)
    handles = [Line2D([], [], linestyle="", label=name, **mark_of(k)) for k, name in enumerate(names)]
    legend_below(figure, handles)
    return figure


def _panel(
    axes: Axes, panel: Predicted, network: NDArray[np.int64], networks: int, limits: tuple[float, float]
) -> None:
    """One predictor's points, and the line that they would lie on; `limits` are those of both axes, in microseconds."""
    low, high = limits
    axes.plot([low, high], [low, high], color="0.6", linewidth=0.8, zorder=1)
    for number in range(networks):
        rows = network == number
        axes.scatter(
            1e6 * panel.measured_s[rows],
            1e6 * panel.predicted_s[rows],
            s=14,
            alpha=0.7,
            linewidth=0,
            zorder=2,
            **mark_of(number),
        )
    axes.set_title(f"{panel.title}\nerror {panel.error():.1%}", fontsize=9, parse_math=False)
    axes.set_xlabel("measured (µs)", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    if np.log10(high / low) > DECADES:
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_locator(NullLocator())
    axes.set_aspect("equal")
