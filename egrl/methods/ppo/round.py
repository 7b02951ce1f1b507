"""A round of `ppo` on one problem, and what is known of a problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Mapping16

DRAFTING, IMPROVING, OPENING, EXPLORING = 0, 1, 2, 3
"""Groups of rollouts: those that see nothing, those that see the best mapping so far (or the outset), those that see it
with an empty stage behind its fullest, and one that sees nothing and draws more evenly than the policy would."""
MEMORY = 0.8
"""What a round leaves of the running mean and variance of rewards."""
FLAT = 1e-3
"""The least deviation of rewards, in shares of their mean: where all are equal, rounding is not blown up."""


@dataclass
class Part:
    """A round's rows on one problem: the deployed mapping, then R rollouts.

    Attributes:
        problem: its number.
        deployed: 1; 0 where the start mapping was measured instead of the deployed one.
        mapping: int16 [deployed + R, N, H], what is proposed.
        before, action: int16 [T, R, N, H]; log_prob: float32, the same shape.
        group: int64 [R], which rollouts set out from the same mapping.
        reward: float64 [deployed + R], NaN where none is usable; speedup alike.
        ran: int16 [R, N, H], what ran, only where that is credited.
        base: the best reward that was known when the round began.
        told: whether the results are known.
    """

    problem: int
    deployed: int
    mapping: Mapping16
    before: Mapping16
    action: Mapping16
    log_prob: NDArray[np.float32]
    group: NDArray[np.int64]
    reward: NDArray[np.float64]
    speedup: NDArray[np.float64]
    ran: Mapping16
    base: float = -np.inf
    told: bool = False

    def gains(self) -> NDArray[np.float64]:
        """Rewards of the rollouts [R], of those that set out from the best known one no less than that had."""
        reward = self.reward[self.deployed :]
        from_best = (self.group == IMPROVING) | (self.group == OPENING)
        return np.where(from_best, np.maximum(reward, self.base), reward)


@dataclass
class Known:
    """What is known of a problem: the best mapping int16 [N, H], its reward, the heat of all its stages and
    whether it ran (until one does, the best of those that do not); and running moments of rewards."""

    best: Mapping16
    reward: float = -np.inf
    warmth: float = np.inf
    ran: bool = False
    mean: float = 0.0
    variance: float = 0.0
    rounds: int = 0

    def normalise(self, reward: NDArray[np.float64], index: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rewards [R] less their running mean, over their running deviation, once those at `index` have moved both."""
        memory = MEMORY if self.mean or self.variance else 0.0
        mean = float(reward[index].mean())
        self.variance = memory * self.variance + (1 - memory) * float(((reward[index] - mean) ** 2).mean())
        self.mean = memory * self.mean + (1 - memory) * mean
        target = (reward - self.mean) / max(self.variance**0.5, FLAT * abs(self.mean), 1e-6)
        return np.asarray(np.clip(np.nan_to_num(target), -10, 10), np.float32)
