"""What fills a memory at its fullest step: a bar per tensor, by what it is held for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.style import new_figure
from analysis.utilisation import fill_of
from workloads.text import size_text

MOST = 12
"""Bars of a memory; smaller tensors share one."""


@dataclass(frozen=True)
class Held:
    """A memory at one step.

    Attributes:
        title: what stands above the panel.
        names, size_bytes, uses: of each tensor, the largest first; a use is the number of one of the figure's.
    """

    title: str
    names: Sequence[str]
    size_bytes: Sequence[int]
    uses: Sequence[int]


def peak_figure(memories: Sequence[Held], uses: Sequence[str], title: str) -> Figure:
    """One panel per memory, the last on top. `uses` are the words of the legend."""
    rows = [min(len(memory.names), MOST + 1) for memory in memories]
    figure = new_figure(7.0, 1.2 + sum(0.55 + 0.2 * count for count in rows), title)
    grid = figure.subplots(
        len(memories), 1, squeeze=False, height_ratios=[count + 2 for count in reversed(rows)]
    )
    for axes, memory in zip(grid[:, 0], reversed(memories), strict=True):
        rest = sum(memory.size_bytes[MOST:])
        names = [*memory.names[:MOST], *([f"{len(memory.names) - MOST} smaller ones"] if rest else [])]
        sizes = [*memory.size_bytes[:MOST], *([rest] if rest else [])]
        for row, size in enumerate(sizes):
            colour, hatch = fill_of(memory.uses[row]) if row < MOST else ("0.8", "")
            axes.barh(row, size, color=colour, hatch=hatch, edgecolor="white")
            axes.text(size, row, f" {size_text(size)}", va="center", fontsize=7)
        axes.set_yticks(range(len(names)), names, fontsize=7, parse_math=False)
        axes.invert_yaxis()
        axes.set_xlim(0, max(sizes) * 1.2)
        axes.set_xticks([])
        axes.set_title(memory.title, fontsize=8, loc="left", pad=3, parse_math=False)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    patches = []
    for number, use in enumerate(uses):
        colour, hatch = fill_of(number)
        patches.append(Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=use))
    figure.legend(handles=patches, loc="outside lower center", ncols=len(uses), fontsize=8, frameon=False)
    return figure
