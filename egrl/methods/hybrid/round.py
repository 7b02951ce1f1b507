"""A round of a hybrid method: what everybody proposes in one step, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Evaluation, Mapping16

LEARNER, COMPILER = -1, -2
"""Who made a row that no member of the population made."""

TWIN = "twin"
"""The source of batches that are the twin's alone."""


@dataclass
class Round:
    """One step of everybody: R mappings, who made them, and what has been told of them.

    `member` is the position in the population, or LEARNER or COMPILER for their mappings.
    `state` is the ticket of the mapping a row set out from, -1 for the initial one.
    `ticket` is -1, and rewards and speedups NaN, until the round is told; `usable` is false.
    """

    mapping: Mapping16
    member: NDArray[np.int64]
    state: NDArray[np.int64]
    last: bool
    ticket: NDArray[np.int64]
    reward: NDArray[np.float64]
    speedup: NDArray[np.float64]
    usable: NDArray[np.bool_]

    @staticmethod
    def of(mapping: Mapping16, member: NDArray[np.int64], state: NDArray[np.int64], last: bool) -> Round:
        """Nothing told yet."""
        rows = len(mapping)
        unknown = np.full(rows, np.nan)
        usable = np.zeros(rows, np.bool_)
        return Round(mapping, member, state, last, np.full(rows, -1), unknown, unknown.copy(), usable)

    @property
    def told(self) -> bool:
        """Whether it is known what became of it."""
        return bool((self.ticket >= 0).all())

    def take(self, ticket: NDArray[np.int64], evaluation: Evaluation) -> None:
        """What has been told of all rows."""
        self.ticket, self.reward, self.speedup = ticket, evaluation.reward, evaluation.speedup
        self.usable = evaluation.usable
