"""Memory maps as bands: one bar per tensor in execution order, the compiler's above the best (EGRL, Figure 6, bottom).

Deviations: beside each band stands how its bytes are spread over the memories, and its contiguity as a number; the
paper says that EGRL favours contiguity, and gives none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from analysis.style import legend_below, new_figure, text_on

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
    figure = new_figure(9.0, 1.55 + 0.62 * len(rows))
    grid = figure.subplots(len(rows), 2, squeeze=False, width_ratios=[7.5, 1.5], sharex="col")
    for (left, right), (name, band) in zip(grid, rows, strict=True):
        _bars(left, band)
        left.set_ylabel(f"{band.head}\n{name}", rotation=0, ha="right", va="center", fontsize=8)
        shown = "–" if np.isnan(band.contiguity) else f"{band.contiguity:.0%}"
        left.text(
            1.0, 1.02, f"contiguity {shown}", transform=left.transAxes, ha="right", va="bottom", fontsize=7
        )
        _share(right, band)
    grid[0, 1].set_title("share of bytes", fontsize=8)
    _name_ops(grid[-1, 0], nodes)
    figure.suptitle(title, fontsize=11, parse_math=False)
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
