"""Valid partitions near partitions that are not: FIX, and the baseline's where it finds nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.keys import derive
from hwsim.mcm.solver.solver import Answer, Solver
from hwsim.problem import Keys

_FIX_STREAM = 0x666978


@dataclass(frozen=True)
class Mender:
    """What mends.

    Attributes:
        solver: does.
        baseline: int16 [N], the valid partition that stands in.
        backtracks: decisions that the solver may take back for a partition.
    """

    solver: Solver
    baseline: NDArray[np.int16]
    backtracks: int

    def fix(
        self, place: NDArray[np.int16], key: Keys, valid: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
        """Partitions [B, N], those not `valid` [B] repaired by FIX; for which [B] the baseline stands in."""
        stands_in = np.zeros(len(place), np.bool_)
        if valid.all():
            return place, stands_in
        out = place.copy()
        broken = np.flatnonzero(~valid)
        answer = self.solver.fix(place[broken], derive(key[broken], _FIX_STREAM), None, self.backtracks)
        out[broken] = self.found(answer)
        stands_in[broken] = ~answer.valid
        return out, stands_in

    def found(self, answer: Answer) -> NDArray[np.int16]:
        """What the solver found, and the baseline's partition where it found nothing within its limit."""
        partitions: NDArray[np.int16] = np.where(
            answer.valid[:, None], answer.assignment, self.baseline[None]
        )
        return partitions
