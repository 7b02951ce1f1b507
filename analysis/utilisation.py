"""What each memory holds over time against what it can hold: one panel per memory, one column per mapping.

Bytes of placed tensors are counted; fragmentation and copies that are fetched ahead are not, and the figure says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from analysis.style import COLOURS, new_figure
from workloads.text import size_text, unit_for

NOTE = "Bytes of placed tensors; fragmentation and copies that are fetched ahead are not counted."
FAR = 0.25
"""A memory whose fullest step is below this share of its capacity gets a scale of its own."""
HEADS = (
    (COLOURS[0], None),
    (COLOURS[5], "////"),
    (COLOURS[2], "...."),
    (COLOURS[3], "\\\\\\\\"),
    (COLOURS[4], "xxxx"),
    (COLOURS[1], "----"),
)
"""Colour and hatch of a head's area; neighbours differ in luminance."""


@dataclass(frozen=True)
class Schedule:
    """What L memories hold during T steps under one mapping with H heads.

    Attributes:
        label: the mapping's, for people.
        edges: float64 [T + 1], not falling; step t lasts from edges[t] to edges[t + 1].
        by_head_bytes: int64 [T, L, H].
    """

    label: str
    edges: NDArray[np.float64]
    by_head_bytes: NDArray[np.int64]


@dataclass(frozen=True)
class Utilisation:
    """How full L memories are.

    Attributes:
        occupied_bytes: int64 [T, L], all heads together.
        mean_share: float64 [L], of the capacity, 0..1: mean over what the edges measure (time, say).
        peak_share: float64 [L], at the fullest step.
    """

    occupied_bytes: NDArray[np.int64]
    mean_share: NDArray[np.float64]
    peak_share: NDArray[np.float64]


def utilisation(schedule: Schedule, capacity_bytes: NDArray[np.int64]) -> Utilisation:
    """The numbers behind one column; `capacity_bytes` is int64 [L].

    Raises:
        ValueError: shapes that do not agree, or steps that last no time at all.
    """
    steps, levels, _ = schedule.by_head_bytes.shape
    width = np.diff(schedule.edges)
    if len(width) != steps or len(capacity_bytes) != levels:
        raise ValueError(
            f"schedule: expected {steps + 1} edges and {levels} capacities, received {len(schedule.edges)} and"
            f" {len(capacity_bytes)}"
        )
    if not (width >= 0).all() or width.sum() <= 0:
        raise ValueError("schedule: expected edges that rise, received others")
    occupied = schedule.by_head_bytes.sum(axis=2)
    mean = (width @ occupied) / width.sum()
    return Utilisation(occupied, mean / capacity_bytes, occupied.max(axis=0) / capacity_bytes)


def utilisation_figure(
    schedules: Sequence[Schedule],
    memories: Sequence[str],
    heads: Sequence[str],
    capacity_bytes: NDArray[np.int64],
    title: str,
    x_label: str,
) -> Figure:
    """One column per schedule, one row per memory (fastest on top), areas stacked by head.

    Args:
        schedules: on one x axis, which `x_label` names with its unit.
        memories: L names, slowest first.
        heads: H names.
        capacity_bytes: int64 [L].
        title: names workload and chip.
    """
    found = [utilisation(schedule, capacity_bytes) for schedule in schedules]
    rows = len(memories)
    figure = new_figure(max(6.0, 1.2 + 3.4 * len(schedules)), 1.6 + 1.15 * rows, title)
    grid = figure.subplots(rows, len(schedules), squeeze=False, sharex=True, sharey="row")
    for row, memory in zip(grid, reversed(range(rows)), strict=True):
        capacity = int(capacity_bytes[memory])
        peak = max(int(column.occupied_bytes[:, memory].max()) for column in found)
        for axes, schedule, column in zip(row, schedules, found, strict=True):
            axes.yaxis.set_major_locator(MaxNLocator(4))
            unit_bytes, unit = memory_axis(axes, capacity, peak)
            _areas(axes, schedule, memory, unit_bytes)
            mean, fullest = share(column.mean_share[memory]), share(column.peak_share[memory])
            axes.set_title(
                f"mean {mean}, peak {fullest} of {size_text(capacity)}", fontsize=8, loc="left", pad=3
            )
            axes.tick_params(labelsize=8)
            axes.margins(x=0)
        row[0].set_ylabel(f"{memories[memory]}\n({unit})", fontsize=9)
    for axes, schedule in zip(grid[0], schedules, strict=True):
        _column_title(axes, schedule.label)
    for axes in grid[-1]:
        axes.set_xlabel(x_label, fontsize=8)
    legend_of_heads(figure, heads, NOTE)
    return figure


def _column_title(axes: Axes, text: str) -> None:
    """A schedule's label above its topmost panel, which has a title of its own."""
    axes.annotate(
        text,
        (0.5, 1.0),
        xycoords="axes fraction",
        xytext=(0, 16),
        textcoords="offset points",
        ha="center",
        fontsize=10,
        fontweight="bold",
        parse_math=False,
    )


def legend_of_heads(figure: Figure, heads: Sequence[str], note: str = "") -> None:
    """Below the axes: a patch for each head, the line of the capacity, and the note above them."""
    handles: list[Patch | Line2D] = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0, label=head)
        for head, (colour, hatch) in zip(heads, map(fill_of, range(len(heads))), strict=True)
    ]
    handles.append(Line2D([], [], color="black", linewidth=1.2, linestyle="--", label="capacity"))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(len(handles), 7),
        frameon=False,
        fontsize=8,
        title=note or None,
        title_fontsize=8,
    )


def share(value: float) -> str:
    """A share as people read it: two digits where it is small."""
    if 0 < value < 1e-5:
        return "<0.001%"
    return f"{value:.0%}" if value >= 0.1 or value == 0 else f"{100 * value:.2g}%"


def _areas(axes: Axes, schedule: Schedule, memory: int, unit_bytes: float) -> None:
    top = np.zeros(len(schedule.by_head_bytes))
    for head in range(schedule.by_head_bytes.shape[2]):
        bottom, top = top, top + schedule.by_head_bytes[:, memory, head] / unit_bytes
        colour, hatch = fill_of(head)
        axes.stairs(
            top,
            schedule.edges,
            baseline=bottom,
            fill=True,
            facecolor=colour,
            edgecolor="white",
            hatch=hatch,
            linewidth=0,
        )
    axes.stairs(top, schedule.edges, baseline=None, color="0.2", linewidth=0.7)


def memory_axis(axes: Axes, capacity_bytes: int, peak_bytes: int) -> tuple[float, str]:
    """Scale the y axis to a memory of which at most the peak is used. Returns its unit in bytes, and as a word.

    The dashed line is the capacity, which must not be crossed; a word stands for it where it is far above the frame.
    """
    near = peak_bytes >= FAR * capacity_bytes
    top = max(peak_bytes, capacity_bytes if near else 0)
    unit_bytes, unit = unit_for(top, "B")
    if near:
        axes.axhline(capacity_bytes / unit_bytes, color="black", linewidth=1.2, linestyle="--")
        axes.set_ylim(0, 1.08 * top / unit_bytes)
        return unit_bytes, unit
    axes.set_ylim(0, 1.4 * top / unit_bytes if top else 1.0)
    if not top:
        axes.set_yticks([0])
    words = "capacity far above \N{UPWARDS ARROW}" if top else "holds nothing"
    axes.text(0.99, 0.94, words, transform=axes.transAxes, ha="right", va="top", fontsize=7, color="0.35")
    return unit_bytes, unit


def fill_of(head: int) -> tuple[str, str | None]:
    """Colour and hatch of a head."""
    return HEADS[head % len(HEADS)]


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
