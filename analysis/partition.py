"""How a partition loads the chips and links of a package: busy times above, memory below, a column per partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from analysis.style import new_figure
from workloads.text import unit_for

CHIP, LINK, SLOWEST = "#4477AA", "#CCBB44", "#AA3377"
WEIGHTS, REST = "#228833", "#BBBBBB"


@dataclass(frozen=True)
class Split:
    """A partition over C chips.

    Attributes:
        label: whose it is, for people.
        chip_s, link_s: float64 [C], seconds per sample that chips and links (to the next chip) are busy.
        nodes: int64 [C].
        weight_bytes, peak_bytes: int64 [C]; the peak holds the weights.
        capacity_bytes: of a chip.
        cost_s: seconds per sample, those of the slowest.
        unit: what the times are in.
    """

    label: str
    chip_s: NDArray[np.float64]
    link_s: NDArray[np.float64]
    nodes: NDArray[np.int64]
    weight_bytes: NDArray[np.int64]
    peak_bytes: NDArray[np.int64]
    capacity_bytes: int
    cost_s: float
    unit: str = "s"

    @property
    def utilisation(self) -> float:
        """The share of all chips' time that they are busy, 0..1."""
        return float(self.chip_s.sum() / (len(self.chip_s) * self.cost_s))


def split_figure(splits: Sequence[Split], title: str) -> Figure:
    """One column per partition, all over the same chips: busy times of chips and links above, memory below."""
    figure = new_figure(7.2 if len(splits) == 1 else 11.0, 5.6, title)
    grid = figure.subplots(2, len(splits), squeeze=False, sharex="col", sharey="row")
    slowest = max(split.cost_s for split in splits)
    unit_s, time_unit = (1e-6, "us") if slowest < 1e-3 else (1e-3, "ms") if slowest < 1 else (1.0, "s")
    if splits[0].unit != "s":
        unit_s, time_unit = 1.0, splits[0].unit
    most = max(max(split.capacity_bytes, int(split.peak_bytes.max())) for split in splits)
    unit_bytes, unit = unit_for(most, "B")
    for (above, below), split in zip(grid.T, splits, strict=True):
        _draw_times(above, split, unit_s)
        _draw_memory(below, split, unit_bytes)
        used = int((split.nodes > 0).sum())
        text = f"{used} of {len(split.nodes)} chips, busy {split.utilisation:.0%} of the time"
        above.set_title(f"{split.label}\n{text}", fontsize=8, loc="left", pad=3, parse_math=False)
        below.set_xlabel("chip", fontsize=8)
        for axes in (above, below):
            axes.tick_params(labelsize=8)
            axes.set_xlim(-0.6, len(split.nodes) - 0.4)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    grid[0, 0].set_ylabel(f"busy time per sample ({time_unit})", fontsize=8)
    grid[1, 0].set_ylabel(f"memory ({unit})", fontsize=8)
    for axes in grid[:, 0]:
        axes.set_ylim(0, axes.get_ylim()[1] * 1.18)
        axes.legend(fontsize=7, loc="upper right", ncols=3, frameon=False)
    return figure


def _draw_times(axes: Axes, split: Split, unit_s: float) -> None:
    at = np.arange(len(split.nodes))
    axes.bar(at - 0.2, split.chip_s / unit_s, 0.38, color=CHIP, label="chip")
    axes.bar(at + 0.2, split.link_s / unit_s, 0.38, color=LINK, label="link to the next")
    axes.axhline(split.cost_s / unit_s, color=SLOWEST, linewidth=1.0, linestyle="--", label="a sample")


def _draw_memory(axes: Axes, split: Split, unit_bytes: float) -> None:
    at = np.arange(len(split.nodes))
    axes.bar(at, split.peak_bytes / unit_bytes, 0.76, color=REST, label="peak on the device model")
    axes.bar(at, split.weight_bytes / unit_bytes, 0.76, color=WEIGHTS, label="weights of it")
    axes.axhline(
        split.capacity_bytes / unit_bytes, color="black", linewidth=1.0, linestyle="--", label="SRAM"
    )
