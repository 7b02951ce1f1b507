"""What bounds the ops of an inference, before and after: the latency by cause, and the ops whose time changed most.

An op counts wholly, its launch included, for the one thing that bound it (the largest term of its roofline).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Text
from numpy.typing import NDArray

from analysis.bands import memory_colours
from analysis.changes import Inference, changes_panel, largest_changes, micro
from analysis.style import lay_out, new_figure

ENGINES = (("white", "////"), ("white", "...."), ("0.85", "xxxx"), ("white", "----"), ("0.85", "\\\\\\\\"))
"""Face and hatch of the causes that are no memories."""
LEGEND_COLUMNS = 3
ROOM_PX = 8.0
"""That words leave free of their part of a bar, both sides together."""

Fill = tuple[str | tuple[float, float, float], str | None]


@dataclass(frozen=True)
class Breakdown:
    """Where the time went before and after.

    Attributes:
        causes: C names that bound an op in either.
        before_s, after_s: float64 [C], seconds of the ops that each cause bound.
        change_s: float64 [T], of each op, after less before; below 0 = faster.
    """

    causes: tuple[str, ...]
    before_s: NDArray[np.float64]
    after_s: NDArray[np.float64]
    change_s: NDArray[np.float64]


def breakdown(before: Inference, after: Inference, memories: Sequence[str]) -> Breakdown:
    """The numbers behind the figure; memories come first among the causes, in their order, then the others by name.

    Raises:
        ValueError: inferences of different numbers of ops.
    """
    counts = {len(part) for run in (before, after) for part in (run.duration_s, run.bound_by)}
    if len(counts) != 1:
        raise ValueError(f"inferences: expected as many ops in both, received {sorted(counts)}")
    met = {*before.bound_by, *after.bound_by}
    causes = (*(name for name in memories if name in met), *sorted(met - set(memories)))
    return Breakdown(
        causes, _by_cause(before, causes), _by_cause(after, causes), after.duration_s - before.duration_s
    )


def breakdown_figure(
    before: Inference, after: Inference, ops: Sequence[str], memories: Sequence[str], title: str
) -> Figure:
    """Two bars of the latency by cause; below them, before and after, the ops whose time changed most.

    `ops` are T names, `memories` names from the slowest; `title` names workload and chip.
    """
    found = breakdown(before, after, memories)
    rows = max(len(largest_changes(found.change_s)), 2)
    legend_in = 0.2 * -(-len(found.causes) // LEGEND_COLUMNS)
    figure = new_figure(8.6, 2.9 + legend_in + 0.21 * rows)
    upper, lower = figure.subplots(2, 1, height_ratios=[1.3, 0.8 + 0.21 * rows])
    fills = _fills(found.causes, memories)
    parts = []
    for place, seconds in enumerate((found.before_s, found.after_s)):
        parts += _bar(upper, place, seconds, found.causes, fills)
    upper.set_yticks([0, 1], [before.label, after.label])
    upper.set_ylim(1.5, -0.5)
    upper.set_xlim(0, 1.12e6 * max(found.before_s.sum(), found.after_s.sum()))
    upper.set_xlabel("time of the ops by what bound them (µs), their launches included", fontsize=8)
    upper.tick_params(labelsize=8)
    upper.spines[["top", "right"]].set_visible(False)
    _legend(upper, found, fills)
    changes_panel(lower, before, after, ops)
    figure.suptitle(title, fontsize=11, parse_math=False)
    _drop_what_does_not_fit(figure, parts)
    return figure


def _by_cause(run: Inference, causes: Sequence[str]) -> NDArray[np.float64]:
    cause = np.array([causes.index(name) for name in run.bound_by], np.int64)
    return np.bincount(cause, weights=run.duration_s, minlength=len(causes)).astype(np.float64)


def _fills(causes: Sequence[str], memories: Sequence[str]) -> list[Fill]:
    """Colour and hatch of each cause; a memory has the one that it has in other figures."""
    plain = dict(zip(memories, memory_colours(len(memories)), strict=True))
    others = [name for name in causes if name not in plain]
    return [
        (plain[name], None) if name in plain else ENGINES[others.index(name) % len(ENGINES)]
        for name in causes
    ]


def _bar(
    axes: Axes, place: int, seconds: NDArray[np.float64], causes: Sequence[str], fills: Sequence[Fill]
) -> list[tuple[Text, Rectangle]]:
    """One stacked bar with its total; its parts, each with the words on it."""
    found = []
    left, total = 0.0, float(seconds.sum())
    for cause, part, (colour, hatch) in zip(causes, seconds, fills, strict=True):
        if not part:
            continue
        width = float(part) * 1e6
        (bar,) = axes.barh(
            place, width, 0.62, left, color=colour, hatch=hatch, edgecolor="0.25", linewidth=0.6
        )
        words = axes.text(
            left + width / 2,
            place,
            f"{cause} {part / total:.0%}",
            ha="center",
            va="center",
            fontsize=7,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
            parse_math=False,
        )
        found.append((words, bar))
        left += width
    axes.annotate(
        f"{micro(total)} µs",
        (left, place),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        fontweight="bold",
    )
    return found


def _legend(axes: Axes, found: Breakdown, fills: Sequence[Fill]) -> None:
    handles = [
        Patch(
            facecolor=colour,
            hatch=hatch,
            edgecolor="0.25",
            linewidth=0.6,
            label=f"{cause}: {micro(was)} → {micro(now)} µs",
        )
        for cause, was, now, (colour, hatch) in zip(
            found.causes, found.before_s, found.after_s, fills, strict=True
        )
    ]
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=min(len(handles), LEGEND_COLUMNS),
        frameon=False,
        fontsize=8,
        borderpad=0.1,
    )


def _drop_what_does_not_fit(figure: Figure, parts: Sequence[tuple[Text, Rectangle]]) -> None:
    """Words that are wider than their part of the bar go; the legend has them, too."""
    lay_out(figure)
    for words, bar in parts:
        if words.get_window_extent().width + ROOM_PX > bar.get_window_extent().width:
            words.remove()
