"""Memories of an accelerator's tensors under the baseline and the best mapping (EGRL, Figure 6).

*Shifts* (top): where the tensors of each of the baseline's memories went. *Bands* (bottom): one bar per tensor in
execution order, the baseline's above the best.

Deviations: shares of bytes stand beside shares of tensors, since a few large tensors decide the latency, and each row
says how much it stands for. Beside each band stands how its bytes are spread over the memories, and its contiguity as
a number: the paper says that EGRL favours contiguity, and gives none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray

from analysis.style import legend_below, new_figure, text_on

MIB = 1 << 20


@dataclass(frozen=True)
class Shift:
    """Where the tensors of one head went, C memories to C memories.

    Attributes:
        head: name of the head.
        memories: C names.
        tensors: int64 [C, C], tensors that lay in the row's memory and lie in the column's, all runs together.
        sizes: int64 [C, C], their bytes.
        runs: how many runs the sums are of.
    """

    head: str
    memories: tuple[str, ...]
    tensors: NDArray[np.int64]
    sizes: NDArray[np.int64]
    runs: int

    @property
    def by_count(self) -> NDArray[np.float64]:
        """Row-stochastic float64 [C, C], shares of tensors; NaN in rows without tensors."""
        return _shares(self.tensors)

    @property
    def by_bytes(self) -> NDArray[np.float64]:
        """Row-stochastic float64 [C, C], shares of bytes; NaN in rows without tensors."""
        return _shares(self.sizes)


def _shares(matrix: NDArray[np.int64]) -> NDArray[np.float64]:
    rows = matrix.sum(axis=1, keepdims=True).astype(np.float64)
    return matrix / np.where(rows > 0, rows, np.nan)


def shifts(
    before: NDArray[np.integer],
    after: NDArray[np.integer],
    size_bytes: NDArray[np.integer],
    heads: Sequence[str],
    memories: Sequence[Sequence[str]],
) -> list[Shift]:
    """The numbers behind the figure, one shift per head.

    Only decisions that are live (of a size) and lie in a memory both before and after count.

    Args:
        before: [N, H], the compiler's choices.
        after: [R, N, H], the best mapping of each of R runs.
        size_bytes: [N, H].
        heads: H names.
        memories: for each head the names of its choices.
    """
    found = []
    for head, (name, labels) in enumerate(zip(heads, memories, strict=True)):
        tensors, sizes = np.zeros((2, len(labels), len(labels)), np.int64)
        for mapping in after:
            left, right, size = before[:, head], mapping[:, head], size_bytes[:, head]
            live = (size > 0) & (left >= 0) & (right >= 0)
            np.add.at(tensors, (left[live], right[live]), 1)
            np.add.at(sizes, (left[live], right[live]), size[live])
        found.append(Shift(name, tuple(labels), tensors, sizes, len(after)))
    return found


def shift_figure(found: Sequence[Shift], title: str, baseline_name: str = "the baseline") -> Figure:
    """A column of two matrices a head: shares of tensors above, of bytes below; each row adds up to one."""
    most = max(len(shift.memories) for shift in found)
    cell_in = 0.62 if most <= 4 else 0.5
    side = cell_in * most
    figure = new_figure(max(5.0, len(found) * (side + 1.7)), 2 * (side + 0.75) + 0.6, title)
    panels = figure.subplots(2, len(found), squeeze=False)
    for column, shift in enumerate(found):
        counts, sizes = shift.tensors.sum(axis=1) // shift.runs, shift.sizes.sum(axis=1) / shift.runs
        amounts = [f"{n} tensor" + "s" * (n != 1) for n in counts.tolist()]
        _matrix(panels[0, column], shift.by_count, shift.memories, amounts)
        _matrix(panels[1, column], shift.by_bytes, shift.memories, [mib(size) for size in sizes.tolist()])
        panels[0, column].set_title(f"{shift.head}, by count", fontsize=9)
        panels[1, column].set_title(f"{shift.head}, by bytes", fontsize=9)
    figure.supxlabel("memory in the best mapping", fontsize=9)
    figure.supylabel(f"memory in {baseline_name}'s map", fontsize=9)
    return figure


def mib(size_bytes: float) -> str:
    """A size for people, in MiB: three digits where it is small, "0 MiB" only for nothing."""
    size = size_bytes / MIB
    if 0 < size < 0.001:
        return "<0.001 MiB"
    return f"{size:.3g} MiB" if size < 100 else f"{size:.0f} MiB"


def percent(share: float) -> str:
    """A share for people: whole percents, "0%" and "100%" only where that is exact; "-" for NaN."""
    if np.isnan(share):
        return "-"
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def _matrix(axes: Axes, shares: NDArray[np.float64], memories: Sequence[str], amounts: Sequence[str]) -> None:
    """One panel: shares [C, C] by luminance and as text, rows without tensors hatched."""
    count = len(memories)
    size = 9 if count <= 4 else 7
    shades = colormaps["Blues"](0.95 * np.nan_to_num(shares))
    axes.imshow(shades, aspect="equal")
    for row in range(count):
        if np.isnan(shares[row]).all():
            place = (-0.5, row - 0.5)
            axes.add_patch(Rectangle(place, count, 1, facecolor="white", edgecolor="0.85", hatch="///", lw=0))
        for column in range(count):
            share = float(shares[row, column])
            colour = "0.4" if np.isnan(share) or share == 0 else text_on(*shades[row, column, :3])
            axes.text(column, row, percent(share), ha="center", va="center", color=colour, fontsize=size)
    axes.set_xticks(range(count), memories, fontsize=size - 1)
    names = [f"{memory}\n{amount}" for memory, amount in zip(memories, amounts, strict=True)]
    axes.set_yticks(range(count), names, fontsize=size - 1)
    axes.set_xticks(np.arange(count + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(count + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="0.75", linewidth=0.8)
    axes.tick_params(which="both", length=0)


DARKEST, LIGHTEST = 0.0, 0.9
"""Part of the colour map that memories take: its end would be too near to the white of dead decisions."""
FLAT = 4
"""With more memories, neighbours look alike in thin greyscale bars: there they grow with the memory's number."""
NAMED_OPS = 9
"""About as many ops are named below the bands."""
LONGEST_NAME = 22
"""Letters of an op's name; of longer ones the end is kept, where the names of neighbours differ."""


@dataclass(frozen=True)
class Band:
    """The tensors of one head in one mapping.

    Attributes:
        head: name of the head.
        memories: C names.
        choices: int64 [N] in execution order; -1 where there is no tensor.
        contiguity: share of neighbouring tensors that lie in the same memory; NaN for fewer than two.
        byte_share: float64 [C], share of the head's bytes in each memory; NaN where it has none.
    """

    head: str
    memories: tuple[str, ...]
    choices: NDArray[np.int64]
    contiguity: float
    byte_share: NDArray[np.float64]


def bands(
    mapping: NDArray[np.integer],
    size_bytes: NDArray[np.integer],
    heads: Sequence[str],
    memories: Sequence[Sequence[str]],
) -> list[Band]:
    """The numbers behind the figure for one mapping [N, H], one band per head.

    Args:
        mapping: [N, H], choices; those of decisions without size are ignored.
        size_bytes: [N, H].
        heads: H names.
        memories: for each head the names of its choices.
    """
    found = []
    for head, (name, labels) in enumerate(zip(heads, memories, strict=True)):
        size = size_bytes[:, head]
        choices = np.where(size > 0, mapping[:, head], -1).astype(np.int64)
        live = choices >= 0
        held = np.bincount(choices[live], weights=size[live], minlength=len(labels))
        share = held / held.sum() if live.any() else np.full(len(labels), np.nan)
        found.append(Band(name, tuple(labels), choices, contiguity(choices[live]), share))
    return found


def contiguity(choices: NDArray[np.int64]) -> float:
    """Share of neighbours in [M] that are equal; NaN for fewer than two."""
    return float(np.mean(choices[1:] == choices[:-1])) if len(choices) > 1 else float("nan")


def memory_colours(count: int) -> list[tuple[float, float, float]]:
    """Colours of `count` memories, slowest first and darkest; they differ in luminance, and none is white."""
    places = np.linspace(DARKEST, LIGHTEST, count) if count > 1 else np.array([DARKEST])
    return [to_rgb(colormaps["cividis"](float(place))) for place in places]


def band_figure(found: Mapping[str, Sequence[Band]], nodes: Sequence[str], title: str) -> Figure:
    """A band for each head of each mapping (name -> its bands), those of one head below each other.

    `nodes` are the names of the N ops.
    """
    rows = [(name, parts[head]) for head in range(_heads(found)) for name, parts in found.items()]
    figure = new_figure(9.0, 1.55 + 0.62 * len(rows), title)
    grid = figure.subplots(len(rows), 2, squeeze=False, width_ratios=[7.5, 1.5], sharex="col")
    for (left, right), (name, band) in zip(grid, rows, strict=True):
        _bars(left, band)
        left.set_ylabel(f"{band.head}\n{name}", rotation=0, ha="right", va="center", fontsize=8)
        shown = "–" if np.isnan(band.contiguity) else f"{band.contiguity:.0%}"
        words = f"{shown} lie where the next one lies"
        left.text(1.0, 1.02, words, transform=left.transAxes, ha="right", va="bottom", fontsize=7)
        _share(right, band)
    grid[0, 1].set_title("share of bytes", fontsize=8)
    _name_ops(grid[-1, 0], nodes)
    _legend(figure, [band for _, band in rows])
    return figure


def _heads(found: Mapping[str, Sequence[Band]]) -> int:
    numbers = {len(parts) for parts in found.values()}
    if len(numbers) != 1:
        raise ValueError(f"found: expected mappings of equally many heads, received {sorted(numbers)}")
    return numbers.pop()


def _bars(axes: Axes, band: Band) -> None:
    """One bar per tensor, white where there is none."""
    memories, count = len(band.memories), len(band.choices)
    palette = np.array([*memory_colours(memories), (1.0, 1.0, 1.0)])
    levels = np.arange(memories)[::-1, None] if memories > FLAT else np.zeros((1, 1), np.int64)
    drawn = np.where(levels <= band.choices, band.choices, -1)
    extent = (-0.5, count - 0.5, 0.0, 1.0)
    axes.imshow(palette[drawn], aspect="auto", interpolation="nearest", extent=extent)
    axes.set_yticks([])
    axes.tick_params(labelbottom=False, length=0)


def _share(axes: Axes, band: Band) -> None:
    """Bytes by memory, slowest first, as one bar; larger parts say how much."""
    left = 0.0
    for share, colour in zip(np.nan_to_num(band.byte_share), memory_colours(len(band.memories)), strict=True):
        axes.barh(0.5, share, height=1.0, left=left, color=colour, linewidth=0)
        if share >= 0.2:
            shown, text = f"{share:.0%}", text_on(*colour)
            axes.text(left + share / 2, 0.5, shown, ha="center", va="center", color=text, fontsize=7)
        left += float(share)
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])


def _name_ops(axes: Axes, nodes: Sequence[str]) -> None:
    count = len(nodes)
    ops = np.unique(np.linspace(0, count - 1, min(NAMED_OPS, count)).round().astype(int)).tolist()
    names = [nodes[op] if len(nodes[op]) <= LONGEST_NAME else "…" + nodes[op][-LONGEST_NAME:] for op in ops]
    axes.set_xticks(ops, [f"{op} {name}" for op, name in zip(ops, names, strict=True)])
    axes.tick_params(axis="x", labelbottom=True, length=3, labelsize=7, labelrotation=25)
    for text in axes.get_xticklabels():
        text.set(ha="right", rotation_mode="anchor", parse_math=False)
    axes.set_xlabel("op, in execution order", fontsize=8)


def _legend(figure: Figure, rows: Sequence[Band]) -> None:
    """Memories by colour; more than one line of them only where heads differ in their memories."""
    handles = []
    sets = list(dict.fromkeys(band.memories for band in rows))
    for memories in sets:
        heads = "" if len(sets) == 1 else f" ({next(b.head for b in rows if b.memories == memories)})"
        handles += [
            Patch(facecolor=colour, edgecolor="0.3", linewidth=0.5, label=memory + heads)
            for memory, colour in zip(memories, memory_colours(len(memories)), strict=True)
        ]
    handles.append(Patch(facecolor="white", edgecolor="0.3", linewidth=0.5, label="no tensor"))
    legend_below(figure, handles)
