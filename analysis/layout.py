"""Addresses over time: one panel per memory, one box per tensor, steps to the right, addresses upwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from analysis.style import new_figure
from analysis.utilisation import fill_of, legend_of_heads, memory_axis
from workloads.text import size_text

NARROWEST = 1 / 200
"""Share of the axis that a box is wide at least: a life of one step of thousands would be no pixel."""


@dataclass(frozen=True)
class Layout:
    """One memory and the M tensors in it.

    Attributes:
        memory: its name.
        capacity_bytes: what it can hold.
        first, end: int64 [M], steps, half-open.
        offset_bytes, size_bytes: int64 [M].
        head: int64 [M], the number of each tensor's head.
    """

    memory: str
    capacity_bytes: int
    first: NDArray[np.int64]
    end: NDArray[np.int64]
    offset_bytes: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    head: NDArray[np.int64]


@dataclass(frozen=True)
class Use:
    """How much of a memory a layout uses.

    Attributes:
        height_bytes: the highest end of a tensor.
        mean_share: of the bytes and steps below that height those that hold a tensor, 0..1; NaN where it is empty.
    """

    height_bytes: int
    mean_share: float


def use(layout: Layout, steps: int) -> Use:
    """The numbers behind one panel of `steps` steps.

    Raises:
        ValueError: arrays of different lengths, or a tensor that lives beyond the steps.
    """
    columns = (layout.first, layout.end, layout.offset_bytes, layout.size_bytes, layout.head)
    lengths = {len(column) for column in columns}
    if len(lengths) != 1 or (layout.first < 0).any() or (layout.end > steps).any():
        raise ValueError(
            f"layout of {layout.memory}: expected arrays of one length and lifetimes in 0..{steps}, received lengths"
            f" {sorted(lengths)} and lifetimes up to {int(layout.end.max(initial=0))}"
        )
    height = int((layout.offset_bytes + layout.size_bytes).max(initial=0))
    held = float(((layout.end - layout.first) * layout.size_bytes.astype(np.float64)).sum())
    return Use(height, held / (height * steps) if height else float("nan"))


def layout_figure(
    layouts: Sequence[Layout], heads: Sequence[str], steps: int, title: str, x_label: str
) -> Figure:
    """One panel per memory, the fastest on top. Short lives are drawn `NARROWEST` wide.

    Args:
        layouts: slowest memory first.
        heads: names; each has a colour and a hatch of its own.
        steps: what the x axis shows.
        title: names workload and chip.
        x_label: names the steps.
    """
    figure = new_figure(7.0, 1.3 + 2.0 * len(layouts), title)
    rows = figure.subplots(len(layouts), 1, squeeze=False, sharex=True)[:, 0]
    for axes, layout in zip(rows, reversed(layouts), strict=True):
        found = use(layout, steps)
        unit_bytes, unit = memory_axis(axes, layout.capacity_bytes, found.height_bytes)
        for number in range(len(heads)):
            colour, hatch = fill_of(number)
            axes.add_collection(
                PolyCollection(
                    list(_boxes(layout, number, unit_bytes, steps)),
                    facecolor=colour,
                    edgecolor="white",
                    hatch=hatch,
                    linewidth=0.3,
                )
            )
        words = (
            f"{layout.memory}: up to {size_text(found.height_bytes)} of {size_text(layout.capacity_bytes)}"
        )
        axes.set_title(words, fontsize=8, loc="left", pad=3, parse_math=False)
        axes.set_ylabel(f"address ({unit})", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.set_xlim(0, steps)
    rows[-1].set_xlabel(x_label, fontsize=8)
    legend_of_heads(figure, heads)
    return figure


def _boxes(layout: Layout, head: int, unit_bytes: float, steps: int) -> NDArray[np.float64]:
    """Corners float64 [K, 4, 2] of one head's tensors, in steps and units, the largest last, so that it is on top."""
    chosen = np.flatnonzero(layout.head == head)
    chosen = chosen[np.argsort(layout.size_bytes[chosen], kind="stable")]
    left, right = _seen(layout.first[chosen], layout.end[chosen], steps)
    bottom = layout.offset_bytes[chosen] / unit_bytes
    top = bottom + layout.size_bytes[chosen] / unit_bytes
    return corners(left, right, bottom, top)


def _seen(
    first: NDArray[np.int64], end: NDArray[np.int64], steps: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Left and right sides float64 [K], in steps, of boxes that are wide enough to be seen."""
    width = np.maximum(end - first, steps * NARROWEST)
    left = np.clip((first + end - width) / 2, 0.0, steps - width)
    return left, left + width


def corners(
    left: NDArray[Any], right: NDArray[Any], bottom: NDArray[Any], top: NDArray[Any]
) -> NDArray[np.float64]:
    """float64 [K, 4, 2], the corners of K boxes whose sides are given [K]."""
    around = [(left, bottom), (left, top), (right, top), (right, bottom)]
    return np.stack([np.stack(corner, axis=1).astype(np.float64) for corner in around], axis=1)
