"""Reward against latency of layouts from different stages of a run, and the speedup on each of many programs (MMapGame
paper, Figures 6 and 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from analysis.style import COLOURS, new_figure, text_on

COLUMNS = 3
COLOUR_MAP = "viridis"
LEAST = 3
"""Points from which on a correlation says something."""
EQUAL = 5e-4
"""Speedups so near to 1 are neither gains nor losses."""


@dataclass(frozen=True)
class Sample:
    """Layouts of one program.

    Attributes:
        title: of the panel.
        reward: float64 [M], in the order in which they were found.
        latency_s: float64 [M].
    """

    title: str
    reward: NDArray[np.float64]
    latency_s: NDArray[np.float64]


def stages(reward: NDArray[np.float64], latency_s: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The best-rewarded layout that ran of each of `count` equal parts of a run, int64 [<= count], in order.

    Args:
        reward, latency_s: float64 [M], in the order in which they were found; NaN where nothing ran.
        count: of parts; fewer layouts than that are all taken.
    """
    ran = np.flatnonzero(np.isfinite(reward) & np.isfinite(latency_s))
    parts = np.array_split(ran, max(1, min(count, len(ran))))
    return np.array([part[int(np.argmax(reward[part]))] for part in parts if len(part)], np.int64)


def pearson(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Pearson's correlation of two arrays [M]; None of fewer than `LEAST` points or where one does not vary."""
    if len(first) < LEAST or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def correlation_figure(samples: Sequence[Sample]) -> Figure:
    """One panel per sample, three per row; points carry the number of their stage. ValueError where there is none."""
    if not samples:
        raise ValueError("samples: expected at least one, received none")
    columns = min(COLUMNS, len(samples))
    rows = -(-len(samples) // columns)
    figure = Figure(figsize=(3.3 * columns + 0.1, 3.0 * rows + 0.2), dpi=150, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for number, axes in enumerate(grid.flat):
        if number >= len(samples):
            axes.set_visible(False)
            continue
        sample = samples[number]
        order = np.arange(1, len(sample.reward) + 1)
        dots = axes.scatter(
            sample.reward,
            sample.latency_s * 1e6,
            c=order,
            cmap=COLOUR_MAP,
            s=90,
            edgecolor="black",
            linewidth=0.4,
        )
        for stage, x, y, colour in zip(
            order.tolist(),
            sample.reward.tolist(),
            (sample.latency_s * 1e6).tolist(),
            dots.to_rgba(order).tolist(),
            strict=True,
        ):
            axes.annotate(
                str(stage), (x, y), ha="center", va="center", fontsize=6, color=text_on(*colour[:3])
            )
        found = pearson(sample.reward, sample.latency_s)
        told = "no correlation to speak of" if found is None else f"r = {found:.3f}"
        axes.set_title(f"{sample.title}\n{told}", fontsize=8, parse_math=False)
        axes.tick_params(labelsize=7)
        axes.margins(0.12)
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.ticklabel_format(axis="both", useOffset=False, style="plain")
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
        if number % columns == 0:
            axes.set_ylabel("latency (us)", fontsize=8)
        if number + columns >= len(samples):
            axes.set_xlabel("reward (share of the most)", fontsize=8)
    return figure


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
