"""What each memory holds over time against what it can hold: one panel per memory, one column per mapping.

Below them a strip says what limits the op that runs, if the problem explains its ops. Bytes of placed tensors are
counted; fragmentation and copies that are fetched ahead are not, and the figure says so.
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

from analysis.breakdown import cause_fills
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
        limits: T names of what limits each step; none where that is unknown.
    """

    label: str
    edges: NDArray[np.float64]
    by_head_bytes: NDArray[np.int64]
    limits: tuple[str, ...] = ()


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
    rows, strip = len(memories), all(schedule.limits for schedule in schedules)
    heights = [1.0] * rows + [0.3] * strip
    figure = new_figure(max(6.0, 1.2 + 3.4 * len(schedules)), 1.6 + 1.15 * sum(heights), title)
    grid = figure.subplots(
        len(heights), len(schedules), squeeze=False, sharex=True, sharey="row", height_ratios=heights
    )
    for row, memory in zip(grid[:rows], reversed(range(rows)), strict=True):
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
    causes = _limits(grid[-1], schedules, memories) if strip else []
    legend_of_heads(figure, heads, NOTE, causes)
    return figure


def _limits(row: Sequence[Axes], schedules: Sequence[Schedule], memories: Sequence[str]) -> list[Patch]:
    """A strip per schedule of what limits each step, with the shares of the time above it. Returns the legend."""
    met = {name for schedule in schedules for name in schedule.limits}
    causes = [*(name for name in memories if name in met), *sorted(met - set(memories))]
    fills = cause_fills(causes, memories)
    for axes, schedule in zip(row, schedules, strict=True):
        lasts = np.diff(schedule.edges)
        for cause, (colour, hatch) in zip(causes, fills, strict=True):
            on = np.array([name == cause for name in schedule.limits])
            axes.stairs(
                on, schedule.edges, fill=True, facecolor=colour, edgecolor="0.25", hatch=hatch, linewidth=0
            )
        spent = {c: float(lasts[[name == c for name in schedule.limits]].sum() / lasts.sum()) for c in causes}
        most = sorted(causes, key=lambda cause: -spent[cause])[:2]
        words = ", ".join(f"{share(spent[cause])} {cause}" for cause in most)
        axes.set_title(f"limited by: {words}", fontsize=8, loc="left", pad=3, parse_math=False)
        axes.set(ylim=(0, 1), yticks=[])
        axes.tick_params(labelsize=8)
        axes.margins(x=0)
    row[0].set_ylabel("limit", fontsize=9)
    return [
        Patch(facecolor=colour, hatch=hatch, edgecolor="0.25", linewidth=0.6, label=f"limited by {cause}")
        for cause, (colour, hatch) in zip(causes, fills, strict=True)
    ]


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


def legend_of_heads(figure: Figure, heads: Sequence[str], note: str = "", more: Sequence[Patch] = ()) -> None:
    """Below the axes: a patch for each head, the line of the capacity, `more` patches, and the note above them."""
    handles: list[Patch | Line2D] = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0, label=head)
        for head, (colour, hatch) in zip(heads, map(fill_of, range(len(heads))), strict=True)
    ]
    handles.append(Line2D([], [], color="black", linewidth=1.2, linestyle="--", label="capacity"))
    figure.legend(
        handles=[*handles, *more],
        loc="outside lower center",
        ncols=min(len(handles) + len(more), 5),
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
