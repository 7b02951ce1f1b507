"""Means with their intervals, by Student's t."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean difference and its closed 95% interval."""

    mean: float
    low: float
    high: float


def interval_of(mean: float, deviation: float, count: int) -> Interval:
    """A mean of at least two values with its 95% interval; `deviation` is the sample's."""
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, count - 1)) * deviation / count**0.5
    return Interval(mean, mean - half, mean + half)
