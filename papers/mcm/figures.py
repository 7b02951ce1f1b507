"""Figures 5 to 7 of the paper on multi-chip modules: throughput against samples, a line per way to search; what the
checkpoints of pre-trainings reach on graphs that they did not see; and what two models say of the same partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from analysis.style import COLOURS, LINES, legend_below, new_figure


def sample_figure(curves: Mapping[str, NDArray[np.float64]], title: str) -> Figure:
    """Best speedups so far [E] by the label of who searched; not drawn before there is one."""
    figure = new_figure(7.0, 4.4)
    axes = figure.subplots()
    handles = []
    for k, (label, curve) in enumerate(curves.items()):
        look: dict[str, Any] = {"color": COLOURS[k % len(COLOURS)], "linestyle": LINES[k % len(LINES)]}
        if k >= len(COLOURS):
            look["linestyle"] = LINES[(k + 3) % len(LINES)]
        shown = np.where(curve > 0, curve, np.nan)
        axes.step(np.arange(1, len(curve) + 1), shown, where="post", linewidth=1.4, **look)
        handles.append(Line2D([], [], label=label, linewidth=1.4, **look))
    axes.axhline(1.0, color="#7F7F7F", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("samples", fontsize=9)
    axes.set_ylabel("throughput over the greedy heuristic's", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.set_title(title, fontsize=10, loc="left", parse_math=False)
    legend_below(figure, handles)
    return figure


def checkpoint_figure(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """One panel per pre-training: speedups of its checkpoints (at `evaluations`), `zeroshot` and `finetuned`."""
    figure = new_figure(3.6 * max(1, len(found)) + 0.6, 3.4)
    grid = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (name, own) in zip(grid, found.items(), strict=True):
        for k, (kind, text) in enumerate(
            (("zeroshot", "with no training"), ("finetuned", "after fine-tuning"))
        ):
            axes.plot(
                own["evaluations"], own[kind], color=COLOURS[k], linestyle=LINES[k], linewidth=1.2, label=text
            )
        axes.set_title(name, fontsize=10, loc="left", parse_math=False)
        axes.set_xlabel("samples of pre-training", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.set_ylim(bottom=0)
    grid[0].set_ylabel("speedup on the validation graphs", fontsize=9)
    grid[0].legend(fontsize=8, frameon=False)
    return figure


@dataclass(frozen=True)
class Agreement:
    """How two models agree on M partitions, each cost over the least by the same model.

    Attributes:
        predicted, measured: float64 [K], of the K that run.
        invalid: share of the M that do not run, 0..1.
        pearson: correlation of predicted and measured; NaN for fewer than two that run.
    """

    predicted: NDArray[np.float64]
    measured: NDArray[np.float64]
    invalid: float
    pearson: float


def agreement(predicted_s: NDArray[np.float64], measured_s: NDArray[np.float64]) -> Agreement:
    """Costs float64 [M] by one model and by the other, NaN or infinite where a partition does not run."""
    runs = np.isfinite(measured_s)
    first, second = predicted_s[runs], measured_s[runs]
    known = len(first) > 1 and first.std() > 0 and second.std() > 0
    pearson = float(np.corrcoef(first, second)[0, 1]) if known else float("nan")
    invalid = float(1 - runs.mean()) if len(runs) else float("nan")
    if not runs.any():
        return Agreement(first, second, invalid, pearson)
    return Agreement(first / first.min(), second / second.min(), invalid, pearson)


def agreement_figure(found: Agreement, title: str) -> Figure:
    """One point per partition that runs, as Figure 7 of the paper on multi-chip modules."""
    figure = new_figure(5.0, 4.6)
    axes = figure.subplots()
    axes.scatter(found.predicted, found.measured, s=6, alpha=0.4, color="#4477AA", linewidths=0)
    most = max(found.predicted.max(initial=1.0), found.measured.max(initial=1.0))
    axes.plot([1, most], [1, most], color="black", linewidth=0.8, linestyle="--")
    axes.set_xlabel("analytical model, over its least", fontsize=8)
    axes.set_ylabel("device model, over its least", fontsize=8)
    axes.tick_params(labelsize=8)
    text = f"{len(found.predicted):,} run, {found.invalid:.1%} do not, correlation {found.pearson:.3f}"
    axes.set_title(f"{title}\n{text}", fontsize=9, loc="left", parse_math=False)
    return figure
