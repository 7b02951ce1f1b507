"""Make an instance smaller without losing its best solutions, and read a solution of the rest back.

The steps, until nothing is gained: choices without a partner, and dominated ones, go; nodes with one choice
become costs of their neighbours; edges that are sums become costs of their nodes; nodes of at most two
neighbours whose memory cannot matter are eliminated (each choice of theirs is a minimum).

Costs are whole numbers in doubles. Sums below 2^53 are exact; greater ones are off by a share of themselves
that `Reduced.rounding` bounds. Choices are dropped, and tables split, only where the sums that say so are
exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.shard.exact.consistency import WHOLE, dominated, sums, without_partner
from hwsim.shard.exact.draft import Draft
from hwsim.shard.exact.graph import ALLOWED, FORBIDDEN, Floats, Graph, Int32s
from hwsim.shard.exact.times import first_points
from workloads.sharding import Sharding

MOST_ROUNDS = 6


@dataclass(frozen=True)
class Reduced:
    """What is left of an instance.

    Attributes:
        graph: the rest.
        constant: what the rest leaves out costs.
        rounding: what a solution costs here is off by at most this share of it.
        possible: false where some node has no choice left, or the least usages pass the limit: proved infeasible.
    """

    graph: Graph
    constant: float
    rounding: float
    possible: bool
    draft: Draft
    nodes: list[int]

    def lift(self, choice: Int32s) -> NDArray[np.int16]:
        """The choices of the instance, int16 [N], of choices of the rest, int32 [n]."""
        left = {v: int(self.draft.choice[v][c]) for v, c in zip(self.nodes, choice.tolist(), strict=True)}
        whole = self.draft.lift(left)
        return np.array([whole[v] for v in range(len(whole))], np.int16)

    def lower(self, strategy: NDArray[np.int16]) -> Int32s:
        """Choices of the rest, int32 [n], for those of the instance, int16 [N]: the same where left, else the first."""
        near = []
        for v in self.nodes:
            known = self.draft.choice[v]
            at = int(np.searchsorted(known, strategy[v]))
            near.append(at if at < len(known) and known[at] == strategy[v] else 0)
        return np.array(near, np.int32)


def reduce(sharding: Sharding) -> Reduced:
    """Reduce an instance."""
    draft = draft_of(sharding)
    graph, nodes = draft.pack()
    possible = True
    for _ in range(MOST_ROUNDS):
        if not nodes:
            break
        before = len(graph.cost), len(graph.table)
        possible = _clean(draft, graph, nodes)
        if not possible:
            break
        _shrink(draft, *draft.pack())
        graph, nodes = draft.pack()
        if (len(graph.cost), len(graph.table)) == before:
            break
    fits = min(float(graph.room.min(initial=0.0)), float(draft.limit.min(initial=0.0))) >= 0.0
    rounding = 0.0
    if max(float(part[part < ALLOWED].max(initial=0.0)) for part in (graph.cost, graph.table)) >= WHOLE:
        rounding = 2.0 * (len(sharding) + len(sharding.edge_nodes)) / WHOLE
    return Reduced(graph, draft.constant, rounding, possible and fits, draft, nodes)


def draft_of(sharding: Sharding) -> Draft:
    """An instance as it is, parallel edges added up."""
    first = sharding.first
    counts = np.diff(first)
    points, low, high = first_points(sharding.start, sharding.end)
    cost = np.minimum(sharding.cost.astype(np.float64), FORBIDDEN)
    usage = sharding.usage.astype(np.float64)
    entries = np.minimum(sharding.edge_cost.astype(np.float64), FORBIDDEN)
    entries[entries >= ALLOWED] = FORBIDDEN
    tables: dict[tuple[int, int], Floats] = {}
    for e, (a, b) in enumerate(sharding.edge_nodes.tolist()):
        table = entries[sharding.edge_first[e] : sharding.edge_first[e + 1]].reshape(counts[a], counts[b])
        pair, table = ((a, b), table) if a < b else ((b, a), table.T)
        tables[pair] = np.minimum(tables[pair] + table, FORBIDDEN) if pair in tables else table
    return Draft(
        np.split(cost, first[1:-1]),
        np.split(usage, first[1:-1]),
        low,
        high,
        np.full(len(points), float(sharding.limit)),
        tables,
    )


def _clean(draft: Draft, graph: Graph, nodes: list[int]) -> bool:
    """Take away choices that are not needed; False where a node has none left."""
    alive = graph.cost < ALLOWED
    free = graph.low >= graph.high
    while True:
        gone = without_partner(graph, alive)
        if not np.logical_or.reduceat(alive, graph.first[:-1]).all():
            return False
        gone += dominated(graph, alive, free)
        if gone <= 0.01 * len(alive):
            break
    for i in np.flatnonzero(~np.logical_and.reduceat(alive, graph.first[:-1])).tolist():
        draft.keep(nodes[i], alive[graph.first[i] : graph.first[i + 1]])
    return True


def _shrink(draft: Draft, graph: Graph, nodes: list[int]) -> None:
    """Fold, split sums, eliminate."""
    plain, shift = sums(graph)
    for i in np.flatnonzero(np.logical_or.reduceat(shift != 0.0, graph.first[:-1])).tolist():
        draft.cost[nodes[i]] = draft.cost[nodes[i]] + shift[graph.first[i] : graph.first[i + 1]]
    for e in np.flatnonzero(plain).tolist():
        draft.cut(nodes[graph.a[e]], nodes[graph.b[e]])
    for v in nodes:
        if len(draft.cost[v]) == 1:
            draft.fold(v)
    free = graph.low >= graph.high
    waiting = [v for v, is_free in zip(nodes, free.tolist(), strict=True) if is_free and v in draft.cost]
    while waiting:
        later = [v for v in waiting if len(draft.near[v]) > 2 or not draft.eliminate(v)]
        if len(later) == len(waiting):
            break
        waiting = later
