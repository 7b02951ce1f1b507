"""Raise the bound: message passing in turn with steps of the prices of memory; and what they prove, despite rounding.

For any numbers moved from edges to their nodes and any prices of 0 or more, every solution that keeps the limit
costs at least

    constant + sum over nodes of the least that is left there + sum over edges of the least that is left there
             - sum over points of price x room.

Which numbers are moved is free, so that their own rounding does no harm; what is computed from them is lowered
by the most that rounding may have done: a sum of m doubles is off by at most (m - 1) u / (1 - (m - 1) u) times
the sum of their sizes, u = 2^-53 (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 4.2).
Prices are multiples of a power of two, so that sums of them are exact; the last sum is `math.fsum`, which
rounds once.
"""

from __future__ import annotations

import math
import time

import numpy as np

from egrl_shard.exact.graph import Floats, Graph, memory_cost
from egrl_shard.exact.messages import Messages, decode, gather, silent, sweep
from egrl_shard.exact.solution import Common, Solution
from egrl_shard.exact.starts import dearer
from hwsim.jit import kernel

ROUNDING = 2.0**-53
SPARE_BITS = 52


def exact_prices(price: Floats) -> Floats:
    """Prices rounded to multiples of a power of two such that any sum of them is exact."""
    total = float(price.sum()) * 1.0000001
    if total <= 0.0:
        return np.zeros_like(price)
    unit = 2.0 ** (math.ceil(math.log2(total)) - SPARE_BITS)
    return np.floor(price / unit) * unit


@kernel
def least_left(graph: Graph, messages: Messages, dear: Floats) -> tuple[Floats, Floats]:
    """What is left at least at each node and each edge after a forward sweep, float64 [n] and [E], less its rounding.

    Args:
        graph: the model.
        messages: as a forward sweep left them.
        dear: float64 [S], what the memory of each choice costs, at prices of which sums are exact.
    """
    nodes = len(graph.first) - 1
    left, taken = np.zeros(nodes), np.zeros(len(messages.to_a))
    belief = np.zeros(np.diff(graph.first).max())
    size = np.zeros(len(belief))
    own = graph.cost + dear
    for v in range(nodes):
        start, count = graph.first[v], graph.first[v + 1] - graph.first[v]
        gather(graph, messages, own, v, belief)
        split = np.searchsorted(graph.near_node[graph.near_at[v] : graph.near_at[v + 1]], v)
        degree = graph.near_at[v + 1] - graph.near_at[v]
        share = 1.0 / max(degree - split, split, 1)
        for q in range(graph.near_at[v] + split, graph.near_at[v + 1]):
            at = messages.at_a[graph.near_edge[q]]
            for s in range(count):
                taken[at + s] = messages.to_a[at + s] - share * belief[s]  # what the edge gives to its node a
        for s in range(count):
            belief[s] = own[start + s]
            size[s] = abs(graph.cost[start + s]) + abs(dear[start + s])
        for q in range(graph.near_at[v], graph.near_at[v + 1]):
            e = graph.near_edge[q]
            if graph.a[e] == v:
                row = taken[messages.at_a[e] : messages.at_a[e + 1]]
            else:
                row = messages.to_b[messages.at_b[e] : messages.at_b[e + 1]]
            for s in range(count):
                belief[s] += row[s]
                size[s] += abs(row[s])
        # As many sums as there are neighbours and spans, each of the latter with a product.
        terms = degree + 2 * (graph.span_at[v + 1] - graph.span_at[v]) + 3
        least = np.inf
        for s in range(count):
            least = min(least, belief[s] - 2.0 * terms * ROUNDING * size[s])
        left[v] = least
    of_edges = np.zeros(len(graph.a))
    for e in range(len(graph.a)):
        rows = messages.at_a[e + 1] - messages.at_a[e]
        columns = messages.at_b[e + 1] - messages.at_b[e]
        least = np.inf
        for s in range(rows):
            of_a = taken[messages.at_a[e] + s]
            for t in range(columns):
                cost, of_b = graph.table[graph.at[e] + s * columns + t], messages.to_b[messages.at_b[e] + t]
                size_of = abs(cost) + abs(of_a) + abs(of_b)
                least = min(least, cost - of_a - of_b - 8.0 * ROUNDING * size_of)
        of_edges[e] = least
    return left, of_edges


def certified(graph: Graph, messages: Messages, price: Floats, constant: float) -> float:
    """A bound on the cost of every solution that keeps the limit; `messages` as a forward sweep left them."""
    exact = exact_prices(price)
    left, of_edges = least_left(graph, messages, memory_cost(graph, exact))
    given_back = exact * graph.room
    margin = 4.0 * ROUNDING * float(np.abs(given_back).sum())
    total = math.fsum([constant, *left.tolist(), *of_edges.tolist(), *(-given_back).tolist(), -margin])
    return total - 4.0 * ROUNDING * abs(total)


FIRST_PRICES = 0.01
"""All room, at the prices to begin with, costs this share of the first bound."""
FALL = 100
"""Iterations after which a step of the prices is half the first."""
FALLEN = 0.7
"""Where the bound falls to this share of the best, the prices go back and their steps are halved."""
LOOK = 10
"""Iterations between two bounds that are safe against rounding, and between two hints for the search."""
REST = 200
"""The prover is at rest if the bound has not risen by `RISE` within so many iterations."""
RISE = 1e-5
"""The least rise of the bound that counts, as a share of the bound."""


class Prover:
    """Messages and prices, and how far they are. `rests` says whether the bound has come to rest."""

    def __init__(self, common: Common) -> None:
        self._common = common
        self._messages = silent(common.graph)
        self._price = np.zeros(len(common.graph.room))
        self._good, self._value = self._price, -math.inf
        self._rate = 1.0
        self._marked = 0.0
        self.rests = False
        self._iteration = 0

    def work(self, until: float) -> None:
        """Go on until that time of the monotonic clock, or until the bound is seen to rest."""
        if self._iteration == 0:
            self._begin()
        while time.monotonic() < until and not self._common.done:
            self._iterate()
            if self._iteration % REST == 0:
                bound = self._common.bound
                self.rests, self._marked = bound < (1.0 + RISE) * self._marked, bound
                if self.rests:
                    break

    def _begin(self) -> None:
        graph = self._common.graph
        for _ in range(3):
            sweep(graph, self._messages, graph.cost, True)
            least = sweep(graph, self._messages, graph.cost, False)
        self._price[:] = FIRST_PRICES * least / max(float(graph.room.sum()), 1.0)

    def _iterate(self) -> None:
        graph, messages = self._common.graph, self._messages
        own = graph.cost + memory_cost(graph, self._price)
        sweep(graph, messages, own, True)
        choice = decode(graph, messages, own)
        if self._iteration % LOOK == 0:
            self._report(Solution(self._common.reduced, choice))
        rate = self._rate / (1.0 + self._iteration / FALL)
        price = dearer(graph, self._price, choice, self._common.limit, rate)
        value = sweep(graph, messages, own, False) - float((self._price * graph.room).sum())
        if value > self._value:
            self._good, self._value = self._price, value
        elif value < FALLEN * self._value:
            price, self._rate = self._good.copy(), 0.5 * self._rate
        self._price = price
        self._iteration += 1

    def _report(self, solution: Solution) -> None:
        """Prove a bound by the messages of a forward sweep; give hints, and the solution that was read off."""
        common, m = self._common, self._messages
        bound = certified(common.graph, m, self._price, common.reduced.constant)
        bound -= abs(bound) * common.reduced.rounding
        common.prove(
            bound, f"reductions, then message passing at prices of memory, {self._iteration} iterations"
        )
        common.hints = Messages(m.to_a.copy(), m.to_b.copy(), m.at_a, m.at_b), self._price.copy()
        common.offer(solution)
