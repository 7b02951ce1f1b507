"""Try all choices of what is left, where they are few."""

from __future__ import annotations

import numpy as np

from hwsim.jit import kernel
from hwsim.shard.exact.graph import ALLOWED, Graph, Int32s, profile, total_cost

MOST = 20_000
"""As many choices are tried in well under a second."""


def few(graph: Graph) -> bool:
    """Whether all choices can be tried."""
    return float(np.log(np.diff(graph.first)).sum()) <= np.log(MOST)


@kernel
def best_of_all(graph: Graph) -> tuple[bool, Int32s]:
    """Whether a choice is valid, and the one of least cost, int32 [n], the first in order."""
    counts = np.diff(graph.first)
    choice = np.zeros(len(counts), np.int32)
    best, least, found = choice.copy(), np.inf, False
    while True:
        cost = total_cost(graph, choice)
        if cost < min(least, ALLOWED) and (profile(graph, choice) <= graph.room).all():
            best[:] = choice
            least, found = cost, True
        v = len(counts) - 1
        while v >= 0 and choice[v] == counts[v] - 1:
            choice[v] = 0
            v -= 1
        if v < 0:
            return found, best
        choice[v] += 1
