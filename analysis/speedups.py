"""A speedup for each of many programs, as bars from the largest to the smallest (MMapGame paper, Figure 10)."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from analysis.style import COLOURS, new_figure

EQUAL = 5e-4
"""Speedups so near to 1 are neither gains nor losses."""


def speedup_figure(speedups: Mapping[str, float], over: str) -> Figure:
    """Bars to the right of 1 are gains, bars to the left losses; `over` is what speedups are over.

    ValueError where there is none.
    """
    if not speedups:
        raise ValueError("speedups: expected at least one, received none")
    ordered = sorted(speedups.items(), key=lambda entry: entry[1])
    figure = new_figure(7.0, 0.9 + 0.24 * len(ordered))
    axes = figure.subplots()
    values = [value for _, value in ordered]
    colours = [COLOURS[1] if value < 1 - EQUAL else COLOURS[0] for value in values]
    axes.barh(range(len(values)), [value - 1 for value in values], left=1.0, color=colours, height=0.72)
    axes.axvline(1.0, color="black", linewidth=1.0)
    reach = max(max(abs(value - 1) for value in values), 0.01)
    for row, value in enumerate(values):
        right = value >= 1
        axes.text(
            value + (0.01 if right else -0.01) * reach,
            row,
            f"{value:.3f}",
            va="center",
            ha="left" if right else "right",
            fontsize=7,
        )
    low, high = min(*values, 1.0), max(*values, 1.0)
    axes.set_xlim(low - 0.2 * reach, high + 0.2 * reach)
    axes.set_yticks(range(len(values)), [name for name, _ in ordered], fontsize=7)
    axes.set_ylim(-0.6, len(values) - 0.4)
    axes.set_xlabel(f"speedup over {over}", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    return figure
