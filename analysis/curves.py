"""Learning curves: best speedup so far, and the deployable policy's, against evaluations (EGRL, Figure 3).

Deviation: the band of several runs is between quantiles, not a standard deviation to each side, which may lie above
what is proven, or below what every run began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from numpy.typing import NDArray

from analysis.style import beside, legend_below, line_of, new_figure

QUANTILES = (0.1, 0.9)
"""The quantiles at the ends of the band of repetitions."""
BETWEEN = f"{QUANTILES[0]:.0%} to {QUANTILES[1]:.0%}"
FEW = 3
"""Up to as many curves line styles are enough; more get markers, too."""


@dataclass(frozen=True)
class Curve:
    """One run.

    Attributes:
        label: runs of equal label are repetitions of one another.
        evaluations: int64 [T], cumulative.
        best: float64 [T], best speedup so far; 0 until something valid was found. Where it was measured afresh, what
            holds of it, NaN before that is known.
        deployable: float64 [T] of the top-ranked policy, NaN where unknown; or None.
        low, high: float64 [T], the 95% interval of what was measured afresh; None: nothing was.
    """

    label: str
    evaluations: NDArray[np.int64]
    best: NDArray[np.float64]
    deployable: NDArray[np.float64] | None = None
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Band:
    """Repetitions of one label, on their common evaluations.

    Attributes:
        label: of the runs.
        runs: how many.
        evaluations: int64 [T], those that all runs have.
        mean: float64 [T] of the best speedups.
        low, high: float64 [T], their quantiles `QUANTILES`; of a single run its own interval, None where it has none.
        confirmed: whether all of them were measured afresh.
        deployable: float64 [T], mean of the deployable policies', NaN where unknown; or None.
    """

    label: str
    runs: int
    evaluations: NDArray[np.int64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64] | None
    high: NDArray[np.float64] | None
    confirmed: bool
    deployable: NDArray[np.float64] | None


def bands(curves: Sequence[Curve]) -> list[Band]:
    """The numbers behind the figure, one band per label in the order of first appearance.

    Raises:
        ValueError: no curve.
    """
    if not curves:
        raise ValueError("curves: expected at least one, received none")
    found = []
    for label in dict.fromkeys(curve.label for curve in curves):
        runs = [curve for curve in curves if curve.label == label]
        common = runs[0].evaluations
        for run in runs[1:]:
            common = np.intersect1d(common, run.evaluations)
        if not len(common):
            # Runs that a limit in seconds ended within their first generation: what each had come to by then.
            common = np.array([max(run.evaluations[0] for run in runs)])
        rows = [np.searchsorted(run.evaluations, common, side="right") - 1 for run in runs]
        best = np.stack([run.best[row] for run, row in zip(runs, rows, strict=True)])
        low, high = (runs[0].low, runs[0].high) if len(runs) == 1 else np.quantile(best, QUANTILES, axis=0)
        confirmed = all(run.low is not None for run in runs)
        policies = [
            run.deployable[row] for run, row in zip(runs, rows, strict=True) if run.deployable is not None
        ]
        deployable = np.mean(policies, axis=0) if len(policies) == len(runs) else None
        found.append(Band(label, len(runs), common, best.mean(axis=0), low, high, confirmed, deployable))
    return found


POLICY_ROOM = 0.5
"""Room for policies below the lowest best, in heights of what the best curves and levels take."""


def learning_curves(
    curves: Sequence[Curve],
    title: str,
    bound: float | None = None,
    baseline_name: str = "the baseline",
    measured: str = "inferences",
) -> Figure:
    """Best speedup so far (thick) and deployable policy (thin): means over runs of equal label, in bands of quantiles.

    A policy that is as good as the best all along is not drawn; one that begins far below every best leaves the
    frame, so that the best can be distinguished. `bound` is a speedup that no mapping can exceed, `baseline_name` what
    speedups are over, `measured` what evaluations are of.
    """
    found = bands(curves)
    figure = new_figure()
    axes = figure.add_subplot()
    handles: list[Line2D] = []
    policies = False
    for number, band in enumerate(found):
        look = line_of(number)
        colour = look["color"]
        if len(found) <= FEW and len(band.mean) > 1:  # a line through one point is invisible
            del look["marker"]
        apart = max(1, len(band.mean) // 8)
        look |= {"linewidth": 2.0, "markersize": 5, "markevery": (number * apart // len(found), apart)}
        label = band.label if band.runs == 1 else f"{band.label} (mean of {band.runs} runs, {BETWEEN})"
        handles += axes.plot(band.evaluations, band.mean, label=label, **look)
        if band.low is not None and band.high is not None:
            axes.fill_between(band.evaluations, band.low, band.high, color=colour, alpha=0.18, linewidth=0)
        if policy_is_worth_a_line(band):
            assert band.deployable is not None
            axes.plot(band.evaluations, band.deployable, color=colour, linewidth=0.7, alpha=0.7)
            policies = True
    if policies:
        handles.append(Line2D([], [], color="0.3", linewidth=0.7, label="deployable policy"))
    levels = {baseline_name.removeprefix("the "): 1.0} | ({} if bound is None else {"proven bound": bound})
    drawn = np.concatenate([np.array(list(levels.values())), *(band.mean for band in found)])
    lowest, highest = float(np.nanmin(drawn)), float(np.nanmax(drawn))
    floor = lowest - POLICY_ROOM * (highest - lowest)
    if policies and highest > lowest and axes.get_ylim()[0] < floor:
        axes.set_ylim(floor, max(axes.get_ylim()[1], highest + 0.04 * (highest - lowest)))
    _levels(axes, levels)
    axes.set_xlabel(f"evaluations ({measured} measured)")
    held = "confirmed speedup" if all(band.confirmed for band in found) else "speedup"
    axes.set_ylabel(f"{held} over {baseline_name}")
    axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))
    axes.set_title(title, parse_math=False)
    axes.margins(x=0.01)
    points = {float(x) for band in found for x in band.evaluations}
    if len(points) == 1:  # an axis around one point would say nothing
        axes.set_xlim(0, 2 * points.pop())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color="0.9")
    legend_below(figure, handles, handlelength=4.0)
    return figure


def policy_is_worth_a_line(band: Band) -> bool:
    """Whether the deployable policy is known anywhere, and anywhere other than the best."""
    if band.deployable is None:
        return False
    known = np.isfinite(band.deployable)
    return bool(known.any()) and not np.allclose(band.deployable[known], band.mean[known], rtol=1e-9, atol=0)


def _levels(axes: Axes, levels: dict[str, float]) -> None:
    """Grey horizontal lines, named to the right of the axes, where neither curves nor legend are.

    The lower name hangs below its line where two would overlap.
    """
    for value in levels.values():
        axes.axhline(
            value, color="0.45", linewidth=1.0, linestyle="-" if value == 1.0 else (0, (4, 2)), zorder=1
        )
    low, high = axes.get_ylim()
    close = max(levels.values()) - min(levels.values()) < 0.06 * (high - low)
    lowest = min(levels, key=levels.__getitem__)
    for name, value in levels.items():
        side = "center" if not close or len(levels) == 1 else "top" if name == lowest else "bottom"
        beside(axes, value, name.replace(" ", "\n"), color="0.35", va=side)
