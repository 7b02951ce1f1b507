"""Zero-shot transfer: how policies do on workloads that they were not trained on (EGRL, Figure 4).

Deviations: Figure 4 shows two trainings; here every training is a panel, and what it was trained on is drawn, too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import ScalarFormatter
from numpy.typing import ArrayLike, NDArray

from analysis.style import beside, legend_below, line_of, mark_of, new_figure

Floats = NDArray[np.float64]
MARGIN, LEAST_SPAN = 0.06, 0.01
"""Axis of speedups: share of its span that is left free below and above, and its least span."""


@dataclass(frozen=True)
class Transfer:
    """The policies of one training on T targets.

    Attributes:
        policies: what they are called.
        trained_on: names of the workloads.
        evaluations: int64 [S], those spent in training when each policy was saved.
        targets: T names.
        speedup: float64 [T, S] over the baseline; 0 where a mapping does not run.
        deployed: index of the policy that was chosen.
    """

    policies: str
    trained_on: tuple[str, ...]
    evaluations: NDArray[np.int64]
    targets: tuple[str, ...]
    speedup: Floats
    deployed: int


def means(transfer: Transfer, targets: Sequence[str]) -> Floats:
    """Float64 [S], the geometric mean of each policy's speedups on some targets."""
    return geometric_mean(transfer.speedup[[transfer.targets.index(name) for name in targets]])


def transfer_curves(transfers: Sequence[Transfer], title: str, baseline_name: str = "the baseline") -> Figure:
    """One panel per training: speedup over the baseline against evaluations spent in training, one line per target."""
    names = list(dict.fromkeys(name for transfer in transfers for name in transfer.targets))
    columns = min(2, len(transfers))
    rows = -(-len(transfers) // columns)
    figure = new_figure(7.0 if columns == 1 else 9.0, 0.6 + 3.4 * rows, title)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for number, axes in enumerate(panels.flat):
        if number >= len(transfers):
            axes.set_visible(False)
            continue
        transfer = transfers[number]
        axes.axhline(1.0, color="0.3", linewidth=1.4, zorder=1)
        for name, values in zip(transfer.targets, transfer.speedup, strict=True):
            own, k = name in transfer.trained_on, names.index(name)
            look = {**line_of(k), "linewidth": 2.2 if own else 1.3, "markevery": max(1, len(values) // 8)}
            axes.plot(transfer.evaluations, values, markersize=4, **look)
        axes.axvline(transfer.evaluations[transfer.deployed], color="0.6", linewidth=0.8, linestyle=":")
        axes.set_title(transfer.policies, fontsize=9, parse_math=False, wrap=True)
        axes.set_xlabel("evaluations spent in training")
        axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))
        axes.grid(color="0.92")
        axes.margins(x=0.02)
        axes.set_ylim(*_limits(transfers))
    for row in panels:
        row[0].set_ylabel(f"zero-shot speedup over {baseline_name}")
    own_names = {name for transfer in transfers for name in transfer.trained_on}
    handles = [Line2D([], [], label=name, markersize=4, **line_of(k)) for k, name in enumerate(names)]
    handles.append(Line2D([], [], color="0.3", linewidth=1.4, label=baseline_name.removeprefix("the ")))
    handles.append(Line2D([], [], color="0.6", linewidth=0.8, linestyle=":", label="deployed policy"))
    if own_names & set(names):
        handles.append(Line2D([], [], color="0.2", linewidth=2.2, label="thick: trained on it"))
    legend_below(figure, handles, handlelength=3.0)
    return figure


def _limits(transfers: Sequence[Transfer]) -> tuple[float, float]:
    """The speedups of what ran and the baseline's 1, with a margin; what did not run, at 0, lies below."""
    speedups = np.concatenate([np.ravel(transfer.speedup) for transfer in transfers])
    ran = np.append(speedups[speedups > 0], 1.0)
    low, high = float(ran.min()), float(ran.max())
    margin = MARGIN * max(high - low, LEAST_SPAN)
    return max(0.0, low - margin), high + margin


WRAPPED = 34
"""Letters of a line with the name of policies."""


def zero_shot(
    transfers: Sequence[Transfer], held_out: Sequence[str], title: str, baseline_name: str = "the baseline"
) -> Figure:
    """The deployed policy of each training on each held-out target, and their geometric means; one row per training."""
    found = sorted(transfers, key=lambda transfer: means(transfer, held_out)[transfer.deployed])
    figure = new_figure(8.0, 1.6 + 0.42 * len(found))
    axes = figure.add_subplot()
    handles: list[Line2D] = []
    for k, name in enumerate(held_out):
        values = [t.speedup[t.targets.index(name), t.deployed] for t in found]
        offset = 0.28 * (k / max(1, len(held_out) - 1) - 0.5)
        handles += axes.plot(
            values,
            np.arange(len(found)) + offset,
            linestyle="",
            markersize=5,
            label=name,
            **mark_of(k),
        )
    for row, transfer in enumerate(found):
        mean = means(transfer, held_out)[transfer.deployed]
        axes.plot([mean, mean], [row - 0.36, row + 0.36], color="black", linewidth=2.5)
        beside(axes, row, f"{mean:.3f}")
    handles.append(Line2D([], [], color="black", linewidth=2.5, label="geometric mean (right: its value)"))
    axes.axvline(1.0, color="0.45", linewidth=1.0, zorder=1)
    handles.append(Line2D([], [], color="0.45", linewidth=1.0, label=baseline_name.removeprefix("the ")))
    axes.set_yticks(
        range(len(found)), ["\n".join(textwrap.wrap(t.policies, WRAPPED)) for t in found], fontsize=8
    )
    axes.set_ylim(-0.6, len(found) - 0.4)
    axes.set_xlabel(f"speedup over {baseline_name}, no training there")
    axes.set_title(title, parse_math=False)
    axes.grid(axis="x", color="0.92")
    legend_below(figure, handles)
    return figure


FAILED = 0.01
"""The speedup that stands for a mapping that does not run, where a geometric mean is taken."""


def geometric_mean(speedups: ArrayLike, axis: int = 0) -> NDArray[np.float64]:
    """Geometric means of speedups along an axis; a mapping that does not run (0) counts as `FAILED`."""
    return np.asarray(np.exp(np.log(np.maximum(speedups, FAILED)).mean(axis=axis)), np.float64)
