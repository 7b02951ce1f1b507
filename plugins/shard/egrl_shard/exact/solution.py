"""Solutions of what the reductions leave, and what the threads of the solver know in common."""

from __future__ import annotations

import math
import threading

import numpy as np
from numpy.typing import NDArray

from egrl_shard.exact.graph import ALLOWED, Floats, Graph, Int32s, profile, total_cost
from egrl_shard.exact.messages import Messages
from egrl_shard.exact.reduce import Reduced
from egrl_shard.sharding import Sharding


class Solution:
    """Choices int32 [n], what they cost (float64, constant included) and the room they leave, float64 [T]."""

    def __init__(self, reduced: Reduced, choice: Int32s) -> None:
        self._reduced, self.choice = reduced, choice
        self.refresh()

    def copy(self) -> Solution:
        """Another with the same choices."""
        return self.with_choice(self.choice.copy())

    def with_choice(self, choice: Int32s) -> Solution:
        """Another of the same instance with these choices int32 [n]."""
        return Solution(self._reduced, choice)

    def refresh(self) -> None:
        """Add cost and room up anew: sums that were kept step by step have rounded."""
        graph = self._reduced.graph
        self.spare = graph.room - profile(graph, self.choice)
        self.cost = self._reduced.constant + float(total_cost(graph, self.choice))

    @property
    def broken(self) -> float:
        """0 where valid; else the forbidden choices and pairs, and the percent of the most room that are too much."""
        over = max(-float(self.spare.min(initial=0.0)), 0.0)
        return self.cost // ALLOWED + 100.0 * over / max(
            float(self._reduced.graph.room.max(initial=1.0)), 1.0
        )


class Common:
    """State shared by the threads: the best mapping, the bound, and messages from which solutions are read.

    Attributes:
        best: int16 [N], the best mapping found, None before there is any.
        best_cost: its cost, an exact integer.
        incumbent: the same, of what the reductions leave.
        bound: no valid mapping costs less.
        hints: messages and prices float64 [T] of some time ago, None before there are any.
    """

    def __init__(self, sharding: Sharding, reduced: Reduced) -> None:
        self.sharding, self.reduced = sharding, reduced
        self.limit = float(max(sharding.limit, 1))
        self.best: NDArray[np.int16] | None = None
        self.best_cost: int | None = None
        self.incumbent: Solution | None = None
        self.bound = 0.0
        self.proof = "costs are not negative"
        self.hints: tuple[Messages, Floats] | None = None
        self._lock = threading.Lock()

    @property
    def graph(self) -> Graph:
        """The reduced instance."""
        return self.reduced.graph

    @property
    def to_beat(self) -> float:
        """The cost of the incumbent."""
        return math.inf if self.incumbent is None else self.incumbent.cost

    @property
    def done(self) -> bool:
        """Whether the best is proved best: costs are whole numbers."""
        return self.best_cost is not None and math.ceil(self.bound) >= self.best_cost

    def offer(self, solution: Solution) -> bool:
        """Take a solution as the best if it is valid and costs less; whether it does."""
        with self._lock:
            if solution.broken > 0.0 or solution.cost >= self.to_beat:
                return False
            mapping = self.reduced.lift(solution.choice)
            cost = exact_cost(self.sharding, mapping)
            if self.best_cost is None or cost < self.best_cost:
                self.best, self.best_cost = mapping, cost
                self.incumbent = solution.copy()
            return True

    def prove(self, bound: float, proof: str) -> None:
        """Take a bound if it is higher."""
        with self._lock:
            if bound > self.bound:
                self.bound, self.proof = bound, proof


def exact_cost(sharding: Sharding, strategy: NDArray[np.int16]) -> int:
    """The cost of a mapping int16 [N], in whole numbers."""
    rows = sharding.first[:-1] + strategy
    a, b = sharding.edge_nodes.T
    at = sharding.edge_first[:-1] + strategy[a].astype(np.int64) * np.diff(sharding.first)[b] + strategy[b]
    return sum(sharding.cost[rows].tolist()) + sum(sharding.edge_cost[at].tolist())
