"""What the report of `egrl reproduce tag` says in numbers: from what runs found, and when, and from the races of plans.

A run names its best plan by its own measurements; how fast a plan is always says the race of its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from statistics import geometric_mean, median
from typing import Any

from egrl.reproduction import paired

Results = Mapping[str, Any]
SizeResults = Mapping[str, Any]
"""The results of one size."""

ALLOWANCE = 0.02
"""A plan counts as as good as another up to this share of its cost: less than measurements differ by."""


def target_of(entry: SizeResults, run: SizeResults) -> float | None:
    """Seconds of the plan that dynamic programming's first pass ends with, None where it did not end."""
    within = [text for _, count, text in run["steps"] if run["first_pass"] and count <= run["first_pass"]]
    return median(entry["race"][within[-1]]) if within else None


def reached(entry: SizeResults, run: SizeResults, target_s: float) -> tuple[float, int] | None:
    """Search time and evaluations from which on a run's best plan was as fast, the allowance included; None: never."""
    found: tuple[float, int] | None = None
    for seconds, count, text in run["steps"]:
        if median(entry["race"][text]) > target_s * (1 + ALLOWANCE):
            found = None
        elif found is None:
            found = float(seconds), int(count)
    return found


def _never(values: Sequence[float | None]) -> float:
    """The median, runs that never got there counted as infinite."""
    return median(float("inf") if value is None else value for value in values)


def medians_against_dp(entry: SizeResults, label: str) -> dict[str, Any] | None:
    """A method against dynamic programming: medians over runs of time and evaluations to DP's quality.

    None where no first pass of dynamic programming ended. Each seed is held against the median of DP's results.
    """
    ended = {n: at for n, run in enumerate(entry["methods"].get("dp", [])) if (at := target_of(entry, run))}
    if not ended or label not in entry["methods"]:
        return None
    first, target = [entry["methods"]["dp"][n] for n in ended], median(ended.values())
    dp_s = median(run["first_pass_seconds"] for run in first)
    found = [reached(entry, run, target) for run in entry["methods"][label]]
    seconds = _never([None if hit is None else hit[0] for hit in found])
    return {
        "measurements": median(run["first_pass"] for run in first),
        "dp_seconds": dp_s,
        "target_s": target,
        "seconds": seconds,
        "evaluations": _never([None if hit is None else hit[1] for hit in found]),
        "runs": sum(hit is not None for hit in found),
        "of": len(found),
        "less": dp_s / seconds,
    }


def best_by(entry: SizeResults, run: SizeResults, limit: float, unit: int) -> float | None:
    """Seconds of the plan that was a run's best after so much search time (unit 0) or so many evaluations (1)."""
    within = [step[2] for step in run["steps"] if step[unit] <= limit]
    return median(entry["race"][within[-1]]) if within else None


def quality(entry: SizeResults, label: str, limit: float, unit: int) -> float | None:
    """Default plan's time over that of a method's best plan at a limit as of `best_by`: median over runs.

    None where a run had no plan by then.
    """
    found = [best_by(entry, run, limit, unit) for run in entry["methods"].get(label, [])]
    if not found or None in found:
        return None
    return median(entry["race"][entry["default"]]) / median(value for value in found if value is not None)


def against_dp(entry: SizeResults, label: str) -> tuple[float, float, float] | None:
    """DP's time over a method's: median over the rounds of the race, and the quartiles; runs of a method by their
    median.
    """
    rounds = {}
    for name in (label, "dp"):
        plans = [run["plan"] for run in entry["methods"].get(name, []) if run["plan"]]
        if not plans:
            return None
        taken = [entry["race"][plan] for plan in plans]
        rounds[name] = [median(samples) for samples in zip(*taken, strict=True)]
    ratios = sorted(dp / own for own, dp in zip(rounds[label], rounds["dp"], strict=True))
    return median(ratios), ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]


def speedup(entry: SizeResults, plan: str) -> float:
    """Of a plan over the default plan, by the medians of the race."""
    return median(entry["race"][entry["default"]]) / median(entry["race"][plan])


def speedups(entry: SizeResults, label: str) -> list[float]:
    """Of the plans of a method's runs over the default plan; runs that found none are left out."""
    return [speedup(entry, run["plan"]) for run in entry["methods"].get(label, []) if run["plan"]]


def mean_speedup(results: Results, label: str) -> float | None:
    """Geometric mean over sizes of the median speedup of a method's plans; None where a size has none."""
    found = [speedups(entry, label) for entry in results["sizes"].values()]
    return geometric_mean(median(values) for values in found) if all(found) else None


def over(results: Results, label: str, rival: str) -> Mapping[str, float] | None:
    """The mean over sizes, the units, of how far the logarithm of a method's median speedup is above a rival's, with
    its 95 % interval; None where a size has no plan of one, or there is one size.
    """
    found = [[speedups(entry, name) for name in (label, rival)] for entry in results["sizes"].values()]
    if not all(own and other for own, other in found):
        return None
    ours, theirs = ([log(median(pair[k])) for pair in found] for k in (0, 1))
    return paired(ours, theirs)
