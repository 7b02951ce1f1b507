"""A round of a hybrid method: what everybody proposes in one step, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Mapping16

LEARNER, START, COMPILER = -1, -2, -3
"""Who made a row that no member of the population made."""


@dataclass
class Round:
    """One step of everybody: R mappings, who made them, and what has been told of them.

    `member` is the position in the population, or LEARNER, START or COMPILER for their mappings.
    `state` is the ticket of the mapping a row set out from, -1 for the initial one.
    """

    mapping: Mapping16
    member: NDArray[np.int64]
    state: NDArray[np.int64]
    last: bool
    asked: int
    ticket: NDArray[np.int64]
    reward: NDArray[np.float64]
    speedup: NDArray[np.float64]
    usable: NDArray[np.bool_]
    told: int = 0

    @staticmethod
    def of(mapping: Mapping16, member: NDArray[np.int64], state: NDArray[np.int64], last: bool) -> Round:
        """Nothing asked for or told yet."""
        rows = len(mapping)
        unknown = np.full(rows, np.nan)
        usable = np.zeros(rows, np.bool_)
        return Round(mapping, member, state, last, 0, np.full(rows, -1), unknown, unknown.copy(), usable)

    @property
    def measured(self) -> bool:
        """Whether all of it was told."""
        return self.told == len(self.mapping)
