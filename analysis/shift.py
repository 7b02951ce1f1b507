"""Memory map shifts: where the tensors of each of the compiler's memories went (EGRL, Figure 6, top).

Deviations: shares of bytes are shown beside shares of tensors, since a few large tensors decide the latency; each row
says how much it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from analysis.style import new_figure, text_on

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


def shift_figure(found: Sequence[Shift], title: str, baseline_name: str = "the compiler") -> Figure:
    """A column of two matrices a head: shares of tensors above, of bytes below; each row adds up to one."""
    most = max(len(shift.memories) for shift in found)
    cell_in = 0.62 if most <= 4 else 0.5
    side = cell_in * most
    figure = new_figure(max(5.0, len(found) * (side + 1.7)), 2 * (side + 0.75) + 0.6)
    panels = figure.subplots(2, len(found), squeeze=False)
    for column, shift in enumerate(found):
        counts, sizes = shift.tensors.sum(axis=1) // shift.runs, shift.sizes.sum(axis=1) / shift.runs
        amounts = [f"{n} tensor" + "s" * (n != 1) for n in counts.tolist()]
        _matrix(panels[0, column], shift.by_count, shift.memories, amounts)
        _matrix(panels[1, column], shift.by_bytes, shift.memories, [mib(size) for size in sizes.tolist()])
        panels[0, column].set_title(f"{shift.head}, by count", fontsize=9)
        panels[1, column].set_title(f"{shift.head}, by bytes", fontsize=9)
    figure.suptitle(title, fontsize=11, parse_math=False)
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
