"""A solver of small sharding instances that tries all choices, in the shape of `hwsim.shard.solving.Solver`."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from hwsim.shard.judge import exact_cost, judge
from workloads.sharding import FORBIDDEN_FROM, Sharding

A_CALL = 500
"""Choices that a call of `work` tries."""


class Trying:
    """Choices in order, the bound being the sum of all least costs until the last is tried."""

    def __init__(
        self, sharding: Sharding, seed: int, threads: int = 2, start: NDArray[np.int16] | None = None
    ) -> None:
        self._sharding = sharding
        self._left = itertools.product(*(range(count) for count in sharding.strategies.tolist()))
        self.best = start
        self.best_cost = None if start is None else exact_cost(sharding, start.tolist())
        least = [row.min() for row in np.split(sharding.cost, sharding.first[1:-1])]
        least += [row.min() for row in np.split(sharding.edge_cost, sharding.edge_first[1:-1]) if len(row)]
        self.bound = float(sum(least))
        self.proof = "the sum of all least costs"
        self.done = False

    def work(self, seconds: float) -> None:
        tried = list(itertools.islice(self._left, A_CALL))
        for choice in tried:
            cost = exact_cost(self._sharding, choice)
            if cost < (self.best_cost or FORBIDDEN_FROM) and not judge(self._sharding, choice):
                self.best, self.best_cost = np.array(choice, np.int16), cost
        if not tried:
            assert self.best_cost is not None
            self.bound, self.proof, self.done = float(self.best_cost), "all choices were tried", True


Solver = Trying
