"""When the best of a run last improved by more than rounding, counted in evaluations."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping
from typing import Any

from egrl.core.executor import CONFIRMED
from egrl.core.recorder import Observer

GAIN = 1e-4
"""A rise of the best by this share or less is no gain: with three digits it is rounding. Assumption."""
IDLE = 10
"""Generations without a gain after which that is said. Assumption."""


class Gains(Observer):
    """Knows the last gain: all evaluations after it improved the best by a share of `GAIN` at most, together.

    If a method names another best that is worse, counting begins anew. On a noisy board nothing is counted, since
    the best rises by luck there.

    Attributes:
        count: how many evaluations there have been.
    """

    def __init__(self, generation_evals: int, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        """`rows` are the metrics of the generations so far, as numbers or as metrics.csv has them."""
        self._generation_evals, self.count = generation_evals, 0
        self._rises: list[tuple[float, int, float]] = []
        """What is maximised, which only rises; after how many evaluations; the speedup."""
        for row in rows:
            self.generation(row)

    def generation(self, row: Mapping[str, Any]) -> None:
        """Look at the best of another generation."""
        self.count, speedup = int(row["evaluations"]), float(row["best_speedup"])
        if CONFIRMED[0] in row or speedup <= 0:
            return
        worth = float(row["best_reward"]) if reward_is_own(row) else speedup
        if self._rises and worth < self._rises[-1][0]:
            self._rises.clear()
        if not self._rises or worth > self._rises[-1][0]:
            self._rises.append((worth, self.count, speedup))

    def idle(self, generations: int) -> int:
        """The evaluations since the last gain; 0 if they are fewer than those of so many generations."""
        since = self.count - self.last()[0]
        return since if since >= generations * self._generation_evals else 0

    def last(self) -> tuple[int, float]:
        """After how many evaluations the last gain came, and the best speedup then; all and 0 before any."""
        if not self._rises:
            return self.count, 0.0
        worth = self._rises[-1][0]
        first = bisect.bisect_left(self._rises, (worth - GAIN * abs(worth),))
        return self._rises[first][1:]

    @property
    def rises(self) -> list[tuple[int, float]]:
        """After how many evaluations the best rose, however little, and its speedup then; in order."""
        return [rise[1:] for rise in self._rises]


def reward_is_own(row: Mapping[str, Any]) -> bool:
    """True if the reward of the best of a row of metrics is not its squared speedup: then the reward chose it."""
    speedup, reward = float(row["best_speedup"]), float(row.get("best_reward", math.nan))
    return math.isfinite(reward) and speedup > 0 and not math.isclose(reward, speedup**2, rel_tol=1e-6)
