"""What bounds the ops of an inference, before and after: the latency by cause, and the ops whose time changed most.

An op counts wholly, its launch included, for the one thing that bound it (the largest term of its roofline).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Text
from numpy.typing import NDArray

from analysis.memories import memory_colours
from analysis.style import COLOURS, beside, lay_out, legend_above, new_figure
from hwsim.explanation import CAUSES, cause_text

MOST = 8
"""Ops that are named for having become faster, and as many for slower."""
LONGEST_NAME = 34
"""Letters of an op's name; of longer ones both ends are kept."""
FASTER, SLOWER = COLOURS[0], COLOURS[1]


@dataclass(frozen=True)
class Inference:
    """One inference of T ops.

    Attributes:
        label: the mapping's, for people.
        duration_s: float64 [T].
        bound_by: T causes, what set each op's time.
    """

    label: str
    duration_s: NDArray[np.float64]
    bound_by: tuple[str, ...]


def largest_changes(change_s: NDArray[np.float64], most: int = MOST) -> NDArray[np.int64]:
    """Numbers of up to `most` ops that became faster and as many that became slower, from most gained to most lost.

    Of equal ones the earlier; ops whose time is the same are in neither.
    """
    order = np.argsort(change_s, kind="stable")
    faster = [op for op in order if change_s[op] < 0][:most]
    back = np.argsort(-change_s, kind="stable")
    slower = [op for op in back if change_s[op] > 0][:most]
    return np.array([*faster, *reversed(slower)], np.int64)


def changes_panel(axes: Axes, before: Inference, after: Inference, ops: Sequence[str]) -> None:
    """One line per op (T names), of those that changed most, from its time before (hollow) to after (filled)."""
    change_s = after.duration_s - before.duration_s
    shown = largest_changes(change_s)
    axes.set_xlabel(f"time of an op (µs)\n{_not_shown(change_s, shown)}", fontsize=8, linespacing=1.6)
    if not len(shown):
        axes.text(0.5, 0.5, "no op's time changed", transform=axes.transAxes, ha="center", fontsize=9)
        axes.set(xticks=[], yticks=[])
        return
    for place, op in enumerate(shown):
        was, now = before.duration_s[op] * 1e6, after.duration_s[op] * 1e6
        colour, line = (FASTER, "-") if now < was else (SLOWER, (0, (2, 1)))
        axes.plot([was, now], [place, place], color=colour, linewidth=1.8, linestyle=line, zorder=2)
        for time, face in ((was, "white"), (now, colour)):
            marker = axes.plot(time, place, "o", color=colour, markersize=5, zorder=3, clip_on=False)[0]
            marker.set_markerfacecolor(face)
        left, right = (cause_text(run.bound_by[op]) for run in (before, after))
        cause = left if left == right else f"{left} → {right}"
        change = f"{_signed((now - was) / 1e6)} µs  {cause}"
        beside(axes, place, change, room_pt=6, fontsize=7, parse_math=False)
    axes.set_yticks(range(len(shown)), [_short(ops[op]) for op in shown])
    for text in axes.get_yticklabels():
        text.set_parse_math(False)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.tick_params(labelsize=7)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    handles = [
        Line2D([], [], color="0.3", marker="o", markerfacecolor="white", linestyle="", label=before.label),
        Line2D([], [], color="0.3", marker="o", linestyle="", label=after.label),
        Line2D([], [], color=FASTER, linewidth=1.8, label="faster"),
        Line2D([], [], color=SLOWER, linewidth=1.8, linestyle=(0, (2, 1)), label="slower"),
    ]
    legend_above(axes, handles, columns=4, fontsize=7)


def _not_shown(change_s: NDArray[np.float64], shown: NDArray[np.int64]) -> str:
    """What the other ops did, in one line."""
    rest = np.delete(change_s, shown)
    parts = [
        f"{len(some)} {word} ({_signed(some.sum())} µs together)"
        for some, word in ((rest[rest < 0], "faster"), (rest[rest > 0], "slower"))
        if len(some)
    ]
    same = int((rest == 0).sum())
    if same:
        parts.append(f"{same} as before")
    return f"Not shown: {', '.join(parts)}." if parts else "All ops are shown."


def micro(seconds: float) -> str:
    """Seconds as microseconds, about four digits of them, without a power of ten."""
    value = seconds * 1e6
    digits = next((d for d, least in enumerate((1000, 100, 10, 1)) if abs(value) >= least), None)
    return f"{value:.3g}" if digits is None else f"{value:.{digits}f}"


def _signed(seconds: float) -> str:
    return ("+" if seconds > 0 else "−") + micro(abs(seconds))


def _short(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    half = LONGEST_NAME // 2
    return f"{name[:half]}…{name[-half:]}"


ENGINES = (("white", "////"), ("white", "...."), ("0.85", "xxxx"), ("white", "----"), ("0.85", "\\\\\\\\"))
"""Face and hatch of the causes that are no memories: those of `CAUSES` in its order, then others."""
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
    figure = new_figure(8.6, 2.9 + legend_in + 0.21 * rows, title)
    upper, lower = figure.subplots(2, 1, height_ratios=[1.3, 0.8 + 0.21 * rows])
    fills = cause_fills(found.causes, memories)
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
    _drop_what_does_not_fit(figure, parts)
    return figure


def _by_cause(run: Inference, causes: Sequence[str]) -> NDArray[np.float64]:
    cause = np.array([causes.index(name) for name in run.bound_by], np.int64)
    return np.bincount(cause, weights=run.duration_s, minlength=len(causes)).astype(np.float64)


def cause_fills(causes: Sequence[str], memories: Sequence[str]) -> list[Fill]:
    """Colour and hatch of each cause, by its name or in words; all have those that they have in other figures."""
    plain = dict(zip(memories, memory_colours(len(memories)), strict=True))
    words = [cause_text(name) for name in causes if name not in plain]
    order = list(dict.fromkeys((*CAUSES.values(), *words)))
    return [
        (plain[name], None) if name in plain else ENGINES[order.index(cause_text(name)) % len(ENGINES)]
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
            f"{cause_text(cause)} {part / total:.0%}",
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
            label=f"{cause_text(cause)}: {micro(was)} → {micro(now)} µs",
        )
        for cause, was, now, (colour, hatch) in zip(
            found.causes, found.before_s, found.after_s, fills, strict=True
        )
    ]
    legend_above(axes, handles, LEGEND_COLUMNS, fontsize=8)


def _drop_what_does_not_fit(figure: Figure, parts: Sequence[tuple[Text, Rectangle]]) -> None:
    """Words that are wider than their part of the bar go; the legend has them, too."""
    lay_out(figure)
    for words, bar in parts:
        if words.get_window_extent().width + ROOM_PX > bar.get_window_extent().width:
            words.remove()
