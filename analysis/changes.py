"""Which ops of an inference became faster or slower, by how much, and what bounds them now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from analysis.style import COLOURS

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
    """A line an op (T names), of those that changed most, from its time before (hollow) to after (filled)."""
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
        axes.plot(
            was,
            place,
            "o",
            markersize=5,
            markerfacecolor="white",
            markeredgecolor=colour,
            zorder=3,
            clip_on=False,
        )
        axes.plot(now, place, "o", markersize=5, color=colour, zorder=4, clip_on=False)
        left, right = before.bound_by[op], after.bound_by[op]
        cause = left if left == right else f"{left} → {right}"
        axes.annotate(
            f"{_signed((now - was) / 1e6)} µs  {cause}",
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            annotation_clip=False,
            parse_math=False,
        )
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
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=4,
        frameon=False,
        fontsize=7,
        borderpad=0.1,
    )


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
