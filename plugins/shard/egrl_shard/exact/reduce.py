"""Make an instance smaller without losing its best solutions, and read a solution of the rest back.

The steps, until nothing is gained:

1. A node whose choice another's decides, since an edge forbids all else, becomes a part of the other.
2. Choices without a partner at some edge go, and so do those that another choice dominates: it costs no more whatever
   the neighbours choose, and uses no more memory.
3. Nodes with one choice become costs of their neighbours.
4. Edges that are sums become costs of their nodes.
5. Nodes of at most two neighbours whose memory cannot matter are eliminated (each choice of theirs is a minimum).

Costs are whole numbers in doubles. Sums below 2^53 are exact; greater ones are off by a share of themselves that
`Reduced.rounding` bounds. Choices are dropped, and tables split, only where the sums that say so are exact.

Sources: arc consistency (Mackworth, 1977); dead-end elimination (Goldstein, 1994).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egrl_shard.exact.draft import WHOLE, Draft, draft_of
from egrl_shard.exact.graph import ALLOWED, Floats, Graph, Int32s
from egrl_shard.sharding import Sharding
from hwsim.jit import kernel

Bools = NDArray[np.bool_]

MOST_WORK = 3e7
"""Comparisons that one node may take; nodes with more are left as they are."""


@kernel
def without_partner(graph: Graph, alive: Bools) -> int:
    """Take away, until nothing changes, the choices without an allowed partner at some edge; how many went."""
    gone = 0
    again = True
    while again:
        again = False
        for e in range(len(graph.a)):
            a, b = graph.a[e], graph.b[e]
            left, right = graph.first[a], graph.first[b]
            rows, columns = graph.first[a + 1] - left, graph.first[b + 1] - right
            # One pass over the table serves both ends: rows at once, columns by what rows have met.
            partnered = np.zeros(columns, np.bool_)
            for s in range(rows):
                if not alive[left + s]:
                    continue
                found = False
                for t in range(columns):
                    if alive[right + t] and graph.table[graph.at[e] + s * columns + t] < ALLOWED:
                        partnered[t] = True
                        found = True
                if not found:
                    alive[left + s] = False
                    gone += 1
                    again = True
            for t in range(columns):
                if alive[right + t] and not partnered[t]:
                    alive[right + t] = False
                    gone += 1
                    again = True
    return gone


@kernel
def worst_difference(graph: Graph, alive: Bools, v: int, q: int, better: int, worse: int) -> float:
    """How much more `better` may cost than `worse` of node v at its q-th edge, over the neighbour's choices."""
    e, w = graph.near_edge[q], graph.near_node[q]
    own, other = graph.first[v + 1] - graph.first[v], graph.first[w + 1] - graph.first[w]
    if v < w:
        start_better, start_worse, step = better * other, worse * other, 1
    else:
        start_better, start_worse, step = better, worse, own
    most = -np.inf
    for t in range(other):
        if alive[graph.first[w] + t]:
            of_worse = graph.table[graph.at[e] + start_worse + t * step]
            if of_worse < ALLOWED:
                most = max(most, graph.table[graph.at[e] + start_better + t * step] - of_worse)
    return most


@kernel
def uses_no_more(graph: Graph, v: int, r: int, s: int) -> bool:
    """Whether choice r of a node uses no more memory than s at any point."""
    for u in range(graph.span_at[v], graph.span_at[v + 1]):
        if graph.usage[graph.usage_at[u] + r] > graph.usage[graph.usage_at[u] + s]:
            return False
    return True


@kernel
def is_dominated(graph: Graph, alive: Bools, v: int, s: int) -> bool:
    """Whether another choice of v is never worse than s, in cost and in memory."""
    at = graph.first[v]
    for r in range(graph.first[v + 1] - at):
        if r == s or not alive[at + r] or not uses_no_more(graph, v, r, s):
            continue
        more = graph.cost[at + r] - graph.cost[at + s]
        size = abs(more)
        for q in range(graph.near_at[v], graph.near_at[v + 1]):
            worst = worst_difference(graph, alive, v, q, r, s)
            more += worst
            size += abs(worst)
            if size >= WHOLE:
                break
        if more <= 0.0 and size < WHOLE:
            return True
    return False


@kernel
def dominated(graph: Graph, alive: Bools) -> int:
    """Take away choices that another dominates, one after the other; how many went.

    Args:
        graph: the model.
        alive: bool [S], the choices left; changed in place.
    """
    gone = 0
    for v in range(len(graph.first) - 1):
        count = graph.first[v + 1] - graph.first[v]
        width = 0
        for q in range(graph.near_at[v], graph.near_at[v + 1]):
            w = graph.near_node[q]
            width += graph.first[w + 1] - graph.first[w]
        width += graph.span_at[v + 1] - graph.span_at[v]
        if count < 2 or count * count * (width + 1) > MOST_WORK:
            continue
        for s in range(count):
            if alive[graph.first[v] + s] and is_dominated(graph, alive, v, s):
                alive[graph.first[v] + s] = False
                gone += 1
    return gone


@kernel
def sums(graph: Graph) -> tuple[Bools, Floats]:
    """Edges whose table is f(choice of a) + g(choice of b), bool [E]; and those f and g added up, float64 [S]."""
    plain = np.zeros(len(graph.a), np.bool_)
    shift = np.zeros(len(graph.cost))
    for e in range(len(graph.a)):
        a, b = graph.a[e], graph.b[e]
        rows, columns = graph.first[a + 1] - graph.first[a], graph.first[b + 1] - graph.first[b]
        table = graph.table[graph.at[e] : graph.at[e + 1]]
        # f is the first column, g the first row less the corner; below half of `WHOLE` the sums compared are exact.
        fits = True
        for s in range(rows):
            for t in range(columns):
                cost = table[s * columns + t]
                if cost >= 0.5 * WHOLE or cost + table[0] != table[s * columns] + table[t]:
                    fits = False
                    break
            if not fits:
                break
        if fits:
            plain[e] = True
            for s in range(rows):
                shift[graph.first[a] + s] += table[s * columns]
            for t in range(columns):
                shift[graph.first[b] + t] += table[t] - table[0]
    return plain, shift


MOST_ROUNDS = 6


@dataclass(frozen=True)
class Reduced:
    """A reduced instance.

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
    draft.merge()
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
        draft.merge()
        graph, nodes = draft.pack()
        if (len(graph.cost), len(graph.table)) == before:
            break
    fits = min(float(graph.room.min(initial=0.0)), float(draft.limit.min(initial=0.0))) >= 0.0
    rounding = 0.0
    if max(float(part[part < ALLOWED].max(initial=0.0)) for part in (graph.cost, graph.table)) >= WHOLE:
        rounding = 2.0 * (len(sharding) + len(sharding.edge_nodes)) / WHOLE
    return Reduced(graph, draft.constant, rounding, possible and fits, draft, nodes)


def _clean(draft: Draft, graph: Graph, nodes: list[int]) -> bool:
    """Take away choices that are not needed; False if a node has none left."""
    alive = graph.cost < ALLOWED
    while True:
        gone = without_partner(graph, alive)
        if not np.logical_or.reduceat(alive, graph.first[:-1]).all():
            return False
        gone += dominated(graph, alive)
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
    free = np.diff(graph.span_at) == 0
    waiting = [v for v, is_free in zip(nodes, free.tolist(), strict=True) if is_free and v in draft.cost]
    while waiting:
        later = [v for v in waiting if len(draft.near[v]) > 2 or not draft.eliminate(v)]
        if len(later) == len(waiting):
            break
        waiting = later
