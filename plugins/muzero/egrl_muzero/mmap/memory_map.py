"""Addresses over time in one fast memory, and its copy engine: one column per layout, one box per allocation.

Boxes of one colour are one tensor, and the hatched part of a box is the window in which a copy carries it in or out.
Below is the time that each step leaves for copies, and what copies take of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from analysis.layout import corners
from analysis.style import legend_below, new_figure
from workloads.text import size_text, unit_for

HIGHLIGHT, COPIES, SPARE = "#000000", "#444444", "#D4D4D4"
PALE = 0.3
"""How far colours go towards white where a tensor is highlighted."""
BINS = 250
"""The strip has means of neighbouring steps, so that there are at most this many."""
LEGIBLE = 1 / 64
"""Share of the capacity from which on a box can be seen well."""
NARROW = 1 / 160
"""Share of the steps below which a box has a hairline for an edge and a window is not hatched: all would be black."""


@dataclass(frozen=True)
class MemoryMap:
    """M allocations over T steps. Steps are half-open, (-1, -1) is none.

    Attributes:
        label: whose layout it is, for people.
        capacity_bytes: of the memory.
        tensor: int64 [M], the number of the tensor.
        first, end: int64 [M].
        offset_bytes, size_bytes: int64 [M].
        copy_first, copy_end: int64 [M], the window in which a copy carries it.
        supply_s, used_s: float64 [T], seconds that steps leave for copies, and those that copies take.
    """

    label: str
    capacity_bytes: int
    tensor: NDArray[np.int64]
    first: NDArray[np.int64]
    end: NDArray[np.int64]
    offset_bytes: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    copy_first: NDArray[np.int64]
    copy_end: NDArray[np.int64]
    supply_s: NDArray[np.float64]
    used_s: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Raises ValueError where arrays differ in length, or a step is not one of T."""
        ends = (self.first, self.end, self.copy_first, self.copy_end)
        lengths = {len(column) for column in (*ends, self.tensor, self.offset_bytes, self.size_bytes)}
        latest = int(max((column.max(initial=0) for column in ends), default=0))
        if len(lengths) != 1 or len(self.supply_s) != len(self.used_s) or latest > len(self.supply_s):
            raise ValueError(
                f"memory map {self.label}: expected arrays of one length and steps up to {len(self.supply_s)},"
                f" received lengths {sorted(lengths)}, {len(self.used_s)} steps of copies, steps up to {latest}"
            )


@dataclass(frozen=True)
class MapUse:
    """How much of the memory and of the copy engine a layout uses.

    Attributes:
        held_bytes: int64 [T], bytes of the memory that are taken at each step; shared ones count once.
        height_bytes: the highest end of an allocation.
        mean_share: of the capacity, over steps, 0..1.
        copies: how many allocations a copy carries.
        copied_bytes: all that they carry.
        copy_share: of the seconds for copies those that are taken, 0..1; NaN where there are none.
    """

    held_bytes: NDArray[np.int64]
    height_bytes: int
    mean_share: float
    copies: int
    copied_bytes: int
    copy_share: float


def map_use(shown: MemoryMap) -> MapUse:
    """The numbers behind a column."""
    held = np.zeros(len(shown.supply_s), np.int64)
    order = np.argsort(shown.offset_bytes, kind="stable")
    top = np.zeros(len(held), np.int64)
    for n in order.tolist():
        span = slice(shown.first[n], shown.end[n])
        end = shown.offset_bytes[n] + shown.size_bytes[n]
        held[span] += np.maximum(end - np.maximum(top[span], shown.offset_bytes[n]), 0)
        top[span] = np.maximum(top[span], end)
    carried = shown.copy_first >= 0
    supply = float(shown.supply_s.sum())
    return MapUse(
        held_bytes=held,
        height_bytes=int(top.max(initial=0)),
        mean_share=float(held.mean() / shown.capacity_bytes) if len(held) else 0.0,
        copies=int(carried.sum()),
        copied_bytes=int(shown.size_bytes[carried].sum()),
        copy_share=float(shown.used_s.sum()) / supply if supply else float("nan"),
    )


def allocations(shown: MemoryMap, tensor: int) -> list[tuple[int, int, int]]:
    """(first, end, offset in bytes) of each stretch, half-open, in which a tensor is there without a pause.

    Boxes at one offset that meet or overlap in time are one stretch, unless the later one is copied in anew.
    """
    mine = np.flatnonzero(shown.tensor == tensor)
    found: list[tuple[int, int, int]] = []
    for n in mine[np.lexsort((shown.end[mine], shown.first[mine]))].tolist():
        first, end, offset = int(shown.first[n]), int(shown.end[n]), int(shown.offset_bytes[n])
        anew = shown.copy_first[n] >= 0 and shown.copy_first[n] == first
        if found and not anew and found[-1][2] == offset and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end), offset)
        else:
            found.append((first, end, offset))
    return found


def visits(shown: MemoryMap, tensor: int) -> int:
    """How often a tensor comes to fast memory after steps in which it was not there, the first time included."""
    count, latest = 0, -1
    for first, end, _ in allocations(shown, tensor):
        count += first > latest
        latest = max(latest, end)
    return count


def most_visits(maps: Sequence[MemoryMap]) -> int | None:
    """The tensor that occurs most often in one of the layouts, then the largest; None if none occurs twice.

    Only if no tensor of `LEGIBLE` of the capacity comes twice, smaller ones count.
    """
    best, chosen = (False, 1, 0), None
    for shown in maps:
        for tensor in np.unique(shown.tensor).tolist():
            size = int(shown.size_bytes[shown.tensor == tensor].max())
            count = visits(shown, tensor)
            rank = (size >= LEGIBLE * shown.capacity_bytes, count, size)
            if count > 1 and rank > best:
                best, chosen = rank, tensor
    return chosen


def memory_map_figure(
    maps: Sequence[MemoryMap],
    colours: NDArray[np.float64],
    title: str,
    highlight: tuple[int, str] | None = None,
) -> Figure:
    """One column per layout, all of one program on one chip.

    Args:
        maps: at least one.
        colours: float64 [U, 3], red, green and blue (0..1) of each tensor.
        title: names workload and chip.
        highlight: a tensor that is drawn in black and marked T, and its name; or None.
    """
    figure = new_figure(7.2 if len(maps) == 1 else 11.0, 5.6)
    grid = figure.subplots(
        2, len(maps), squeeze=False, sharex="col", sharey="row", gridspec_kw={"height_ratios": (4, 1)}
    )
    uses = [map_use(shown) for shown in maps]
    most = max(use.height_bytes for use in uses)
    unit_bytes, unit = unit_for(max(most, maps[0].capacity_bytes), "B")
    for (above, below), shown, use in zip(grid.T, maps, uses, strict=True):
        _draw_boxes(above, shown, colours, unit_bytes, None if highlight is None else highlight[0])
        above.axhline(shown.capacity_bytes / unit_bytes, color="black", linewidth=1.2, linestyle="--")
        above.set_ylim(0, 1.03 * maps[0].capacity_bytes / unit_bytes)
        above.set_xlim(0, len(shown.supply_s))
        filled = f"up to {size_text(use.height_bytes)}, {use.mean_share:.0%} filled, {use.copies:,} copies"
        above.set_title(f"{shown.label}\n{filled}", fontsize=8, loc="left", pad=3, parse_math=False)
        _draw_copies(below, shown)
        below.set_xlabel("step", fontsize=8)
        for axes in (above, below):
            axes.tick_params(labelsize=8)
    grid[0, 0].set_ylabel(f"offset ({unit})", fontsize=8)
    grid[1, 0].set_ylabel("copy time (ms a step)", fontsize=8)
    figure.suptitle(title, fontsize=11, parse_math=False)
    handles = [
        Patch(facecolor="white", edgecolor="black", linewidth=0.5, label="a buffer (one colour per tensor)"),
        Patch(facecolor="white", edgecolor="black", linewidth=0.5, hatch="/////", label="being copied"),
        Patch(facecolor=COPIES, label="taken by copies"),
        Patch(facecolor=SPARE, label="left for copies"),
    ]
    if highlight is not None:
        handles.insert(2, Patch(facecolor=HIGHLIGHT, label=f"T: {highlight[1]}"))
    legend_below(figure, handles)
    return figure


def _draw_boxes(
    axes: Axes, shown: MemoryMap, colours: NDArray[np.float64], unit_bytes: float, highlight: int | None
) -> None:
    bottom, top = shown.offset_bytes / unit_bytes, (shown.offset_bytes + shown.size_bytes) / unit_bytes
    fill = colours[shown.tensor]
    if highlight is not None:
        fill = np.where((shown.tensor == highlight)[:, None], 0.0, fill + (1 - fill) * PALE)
    narrow = NARROW * len(shown.supply_s)
    width = np.where(shown.end - shown.first < narrow, 0.1, 0.4)
    boxes = corners(shown.first, shown.end, bottom, top)
    axes.add_collection(PolyCollection(list(boxes), facecolor=fill, edgecolor="black", linewidth=width))
    carried = (shown.copy_end - shown.copy_first >= max(narrow, 1)) & (shown.tensor != highlight)
    boxes = corners(shown.copy_first, shown.copy_end, bottom, top)[carried]
    axes.add_collection(
        PolyCollection(list(boxes), facecolor="none", edgecolor="black", linewidth=0.0, hatch="/////")
    )
    if highlight is None:
        return
    for first, end, offset in allocations(shown, highlight):
        size = int(shown.size_bytes[shown.tensor == highlight].max())
        axes.annotate(
            "T",
            ((first + end) / 2, (offset + size) / unit_bytes),
            (0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            fontweight="bold",
        )


def _draw_copies(axes: Axes, shown: MemoryMap) -> None:
    steps = len(shown.supply_s)
    edges = np.unique(np.linspace(0, steps, min(steps, BINS) + 1).astype(np.int64))
    supply, used = (
        1e3 * np.add.reduceat(part, edges[:-1]) / np.diff(edges) for part in (shown.supply_s, shown.used_s)
    )
    axes.stairs(supply, edges, fill=True, color=SPARE)
    axes.stairs(used, edges, fill=True, color=COPIES)
    axes.set_ylim(bottom=0)
