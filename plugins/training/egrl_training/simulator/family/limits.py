"""What is known of the memory that a machine really has for a training step, from plans that ran and plans that failed.

A plan needs `fixed + factor * (peak - fixed) + offset`: an allocator rounds up and leaves holes, a compiler fuses ops
so that values never come to be. The prior and its spreads are assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from egrl_training.simulator.simulate import simulate
from egrl_training.simulator.tables import Tables
from hwsim.family import Limits
from hwsim.problem import Floats, Mapping16

SPREAD = (0.05, 0.02)
"""Prior standard deviations: of the logarithm of the factor, and of the offset as a share of the limit."""
POINTS, REACH = 25, 3.0
"""Of the grid along each axis, and how many standard deviations it reaches."""
WIDTH = 0.002
"""Plans that need this share more or less than the limit sometimes run."""
OTHER = 0.01
"""The probability that a plan fails, or runs, for another reason."""


@dataclass(frozen=True)
class PeakLimits(Limits):
    """Log weights float64 [G] of limits float64 [G, 2]: the logarithm of the factor, and the offset's share."""

    tables: Tables
    limit_bytes: int
    grid: Floats
    log_weight: Floats

    @staticmethod
    def prior(tables: Tables, limit_bytes: int) -> PeakLimits:
        """Before anything is known."""
        axis = np.linspace(-REACH, REACH, POINTS)
        units = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        log_weight = -0.5 * np.square(units).sum(axis=1)
        return PeakLimits(tables, limit_bytes, units * SPREAD, log_weight - logsumexp(log_weight))

    def room_bytes(self, limit: Floats) -> int:
        """The greatest simulated peak that runs within a limit."""
        fixed = self.tables.fixed_bytes
        room = (self.limit_bytes * (1 - limit[1]) - fixed) * np.exp(-limit[0])
        return max(int(fixed + room), 0)

    def _chance(self, mapping: Mapping16) -> Floats:
        """float64 [G, B]: with each limit the probability that mappings [B, N, 1] run."""
        peak = simulate(self.tables, np.ascontiguousarray(mapping[:, :, 0]))[1]
        own = peak - self.tables.fixed_bytes
        need = self.tables.fixed_bytes + np.exp(self.grid[:, :1]) * own + self.grid[:, 1:] * self.limit_bytes
        left: NDArray[np.float64] = (self.limit_bytes - need) / (WIDTH * max(self.limit_bytes, 1))
        return np.asarray(OTHER + (1 - 2 * OTHER) * expit(np.clip(left, -50, 50)))

    def given(self, ran: Mapping16, failed: Mapping16) -> PeakLimits:
        """With what is known of mappings [B, N, 1] that ran, and of others that did not."""
        log_weight = self.log_weight + np.log(self._chance(ran)).sum(axis=1)
        log_weight = log_weight + np.log(1 - self._chance(failed)).sum(axis=1)
        return PeakLimits(self.tables, self.limit_bytes, self.grid, log_weight - logsumexp(log_weight))

    def mode(self) -> Floats:
        """The most likely limit, float64 [2]."""
        return self.grid[int(np.argmax(self.log_weight))]

    def sample(self, rng: np.random.Generator) -> Floats:
        """A limit drawn by its weight, float64 [2]."""
        weight = np.exp(self.log_weight)
        return self.grid[rng.choice(len(weight), p=weight / weight.sum())]

    def probability(self, mapping: Mapping16) -> Floats:
        """float64 [B]: how likely mappings [B, N, 1] are to run."""
        return np.asarray(np.exp(self.log_weight) @ self._chance(mapping))
