"""The exact solver as a problem's own: what it has found and proved so far, in a problem's terms."""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from egrl_shard.exact.solve import Solver
from egrl_shard.sharding import Sharding
from hwsim.capabilities import Solving
from hwsim.problem import Bound, Mapping16
from workloads.errors import InputError


class ShardSolving(Solving):
    """A solve that continues when `work` is called (`hwsim.capabilities.Solving`).

    It raises InputError as soon as it is proved that no choice is valid.
    """

    def __init__(self, sharding: Sharding, seed: int, threads: int, start: NDArray[np.int16] | None) -> None:
        begun = time.perf_counter()
        self._name = sharding.name
        self._solver = Solver(sharding, seed, threads, start)
        self._seconds = time.perf_counter() - begun
        self._check_possible()

    def work(self, seconds: float) -> None:
        """Go on for about that many seconds, unless it is done. InputError if no choice is valid."""
        begun = time.perf_counter()
        if not self._solver.done:
            self._solver.work(seconds)
            self._check_possible()
        self._seconds += time.perf_counter() - begun

    def _check_possible(self) -> None:
        if math.isinf(self._solver.bound):
            raise InputError(
                f"workload {self._name}: expected an instance with a valid choice, found none: {self._solver.proof}"
            )

    @property
    def best(self) -> Mapping16 | None:
        """The best mapping so far, int16 [N, 1]."""
        best = self._solver.best
        return None if best is None else best.astype(np.int16)[:, None].copy()

    @property
    def cost(self) -> float:
        """Its cost; infinite if there is none."""
        cost = self._solver.best_cost
        return math.inf if cost is None else float(max(cost, 1))

    @property
    def bound(self) -> Bound:
        """The bound so far."""
        return Bound(max(0.0, self._solver.bound), math.inf, self._solver.proof, self._seconds)

    @property
    def done(self) -> bool:
        """Whether nothing is left to do: the best is proved to be the best possible."""
        return self._solver.done
