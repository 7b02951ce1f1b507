"""Scores: the mean share of the headroom over families, with its interval, and the worst case."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from egrl_suite.judge import Wrong
from egrl_suite.library import find, unpacked

T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)
"""97.5 % points of Student's t with 1, 2, … degrees of freedom; from 15 on the normal's, widened: 1.96 + 2.5 / n."""


class Score(NamedTuple):
    """Of a method at a mark.

    Attributes:
        share, low, high: mean over families of the mean over their instances and seeds, and its 95 % interval.
        worst: the least speedup over the default.
        instances, families, seeds, failed: how many; those that failed count as the default's cost.
        less: if it stands beside another method, the mean of the share less that one's, over the instances and seeds
            that both have, and half of its interval; else None.
    """

    share: float
    low: float
    high: float
    worst: float
    instances: int
    families: int
    seeds: int
    failed: int
    less: tuple[float, float] | None = None


def judged(row: dict[str, Any], mark: str) -> float:
    """The cost of a row's placement, by the judge; the default's where there is none that runs.

    What the row says of its cost is not asked.
    """
    instance = find(row["instance"])
    answer = row["answers"].get(mark)
    if row.get("failed") or answer is None:
        return instance.default_cost
    return _cost(instance.name, answer)


@cache
def _cost(name: str, answer: str) -> float:
    """Of a placement as text; the default's if it cannot run."""
    instance = find(name)
    try:
        return instance.judge.cost(unpacked(answer, instance.judge.sizes.shape))
    except Wrong:
        return instance.default_cost


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval by Student's t; of one value it is infinite."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, -np.inf, np.inf
    free = len(values) - 1
    half = (
        (T975[free - 1] if free <= len(T975) else 1.96 + 2.5 / free)
        * float(np.std(values, ddof=1))
        / sqrt(len(values))
    )
    return mean, mean - half, mean + half


def score(
    rows: Iterable[dict[str, Any]], mark: str, beside: Iterable[dict[str, Any]] | None = None
) -> Score | None:
    """Of the rows of one method that have the mark; None if there are none. Costs: `rows[i]["judged"][mark]`."""
    own = [row for row in rows if mark in row["judged"]]
    if not own:
        return None
    shares = _shares(own, mark)
    worst = min(find(row["instance"]).default_cost / row["judged"][mark] for row in own)
    families = _by_family(shares)
    seeds, names = len({seed for _, seed in shares}), len({name for name, _ in shares})
    failed, less = sum(bool(row.get("failed")) for row in own), None
    if beside is not None:
        other = _shares([row for row in beside if mark in row["judged"]], mark)
        both = {case: shares[case] - other[case] for case in shares if case in other}
        if both:
            mean, _, high = interval(_by_family(both))
            less = (mean, high - mean)
    return Score(*interval(families), float(worst), names, len(families), seeds, failed, less)


def _shares(rows: Iterable[dict[str, Any]], mark: str) -> dict[tuple[str, int], float]:
    """Instance and seed -> share."""
    return {(row["instance"], row["seed"]): find(row["instance"]).share(row["judged"][mark]) for row in rows}


def _by_family(values: dict[tuple[str, int], float]) -> list[float]:
    """Means over the instances of each family, of means over seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    for (name, _), value in values.items():
        found.setdefault(find(name).family, {}).setdefault(name, []).append(value)
    return [float(np.mean([np.mean(seeds) for seeds in each.values()])) for each in found.values()]
