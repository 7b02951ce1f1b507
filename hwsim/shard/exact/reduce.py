"""Make an instance smaller without losing its best solutions, and read a solution of the rest back.

The steps, until nothing is gained:

1. Choices without a partner at some edge go, and so do those that another choice dominates: it costs no more whatever
   the neighbours choose, and uses no more memory.
2. Nodes with one choice become costs of their neighbours.
3. Edges that are sums become costs of their nodes.
4. Nodes of at most two neighbours whose memory cannot matter are eliminated (each choice of theirs is a minimum).

Costs are whole numbers in doubles. Sums below 2^53 are exact; greater ones are off by a share of themselves that
`Reduced.rounding` bounds. Choices are dropped, and tables split, only where the sums that say so are exact.

Sources: arc consistency (Mackworth, 1977); dead-end elimination (Goldstein, 1994).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.shard.exact.graph import (
    ALLOWED,
    FORBIDDEN,
    Floats,
    Graph,
    Int32s,
    Int64s,
    binding,
    first_points,
    neighbours,
    spread,
)
from workloads.sharding import Sharding

Bools = NDArray[np.bool_]

MOST_WORK = 3e7
"""Comparisons that one node may take; nodes with more are left as they are."""
WHOLE = 2.0**53
"""Whole numbers whose sums stay below this are added exactly."""


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
def is_dominated(graph: Graph, alive: Bools, free: Bools, v: int, s: int) -> bool:
    """Whether another choice of v is never worse than s, in cost and (where v is not free) in memory."""
    at = graph.first[v]
    for r in range(graph.first[v + 1] - at):
        if r == s or not alive[at + r] or (not free[v] and graph.usage[at + r] > graph.usage[at + s]):
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
def dominated(graph: Graph, alive: Bools, free: Bools) -> int:
    """Take away choices that another dominates, one after the other; how many went.

    Args:
        graph: the model.
        alive: bool [S], the choices left; changed in place.
        free: bool [n], whether a node's memory cannot matter.
    """
    gone = 0
    for v in range(len(graph.first) - 1):
        count = graph.first[v + 1] - graph.first[v]
        width = 0
        for q in range(graph.near_at[v], graph.near_at[v + 1]):
            w = graph.near_node[q]
            width += graph.first[w + 1] - graph.first[w]
        if count < 2 or count * count * (width + 1) > MOST_WORK:
            continue
        for s in range(count):
            if alive[graph.first[v] + s] and is_dominated(graph, alive, free, v, s):
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


MOST_ENTRIES = 4_000_000
"""Of the table that the elimination of one node may go through."""
GROWTH = 2
"""A new table may have this many times the entries of those it replaces."""


@dataclass(frozen=True)
class Rule:
    """The rule for the choice of an eliminated node, by the choices of its neighbours.

    Attributes:
        node: its number.
        beside: none, one or two nodes.
        known: for each node beside it the choices that its axis stands for, in order.
        best: the node's choice for each of theirs, with an axis for each node beside it.
    """

    node: int
    beside: tuple[int, ...]
    known: tuple[Int64s, ...]
    best: NDArray[np.int64]


class Draft:
    """Nodes by their numbers in the instance. `constant` is what all that was taken away costs."""

    def __init__(
        self,
        cost: Sequence[Floats],
        usage: Sequence[Floats],
        low: Int64s,
        high: Int64s,
        limit: Floats,
        tables: dict[tuple[int, int], Floats],
    ) -> None:
        """Take everything as it is; `limit` is float64 [T], pairs of `tables` are in order."""
        self.cost = dict(enumerate(cost))
        self.usage = dict(enumerate(usage))
        self.choice = {v: np.arange(len(c)) for v, c in self.cost.items()}
        self.low, self.high, self.limit = low, high, limit
        self.tables = tables
        self.near: dict[int, set[int]] = {v: set() for v in self.cost}
        for a, b in tables:
            self.near[a].add(b)
            self.near[b].add(a)
        self.constant = 0.0
        self.rules: list[Rule] = []

    # ---- as kernels read it

    def pack(self) -> tuple[Graph, list[int]]:
        """The graph, and the numbers of its nodes here."""
        nodes = sorted(self.cost)
        place = {v: i for i, v in enumerate(nodes)}
        pairs = sorted(self.tables)
        tables = [self.tables[pair].ravel() for pair in pairs]
        a = np.array([place[pair[0]] for pair in pairs], np.int32)
        b = np.array([place[pair[1]] for pair in pairs], np.int32)
        least = np.array([self.usage[v].min() for v in nodes])
        most = np.array([self.usage[v].max() for v in nodes]) - least
        index = np.array(nodes, np.int64)
        room = self.limit - spread(self.low[index], self.high[index], least, len(self.limit))
        low, high, kept = binding(self.low[index], self.high[index], most, room)
        low, high = np.where(most > 0, low, 0), np.where(most > 0, high, 0)
        at = np.concatenate([[0], np.cumsum([table.size for table in tables])])
        graph = Graph(
            np.concatenate([[0], np.cumsum([len(self.cost[v]) for v in nodes])]).astype(np.int64),
            _joined([self.cost[v] for v in nodes]),
            _joined([self.usage[v] - self.usage[v].min() for v in nodes]),
            low,
            high,
            room[kept],
            a,
            b,
            at.astype(np.int64),
            _joined(tables),
            *neighbours(len(nodes), a, b),
        )
        return graph, nodes

    # ---- what is taken away

    def keep(self, v: int, kept: NDArray[np.bool_]) -> None:
        """Only some choices of a node, bool [K]."""
        self.cost[v], self.usage[v] = self.cost[v][kept], self.usage[v][kept]
        self.choice[v] = self.choice[v][kept]
        for w in self.near[v]:
            if v < w:
                self.tables[v, w] = self.tables[v, w][kept]
            else:
                self.tables[w, v] = self.tables[w, v][:, kept]

    def cut(self, a: int, b: int) -> None:
        """Forget an edge."""
        del self.tables[a, b]
        self.near[a].discard(b)
        self.near[b].discard(a)

    def _seen_from(self, v: int, w: int) -> Floats:
        """The table of an edge, [choices of v, choices of w]."""
        return self.tables[v, w] if v < w else self.tables[w, v].T

    def _remove(self, v: int, best: NDArray[np.int64]) -> None:
        beside = tuple(sorted(self.near[v]))
        self.rules.append(Rule(v, beside, tuple(self.choice[w] for w in beside), self.choice[v][best]))
        for w in beside:
            self.cut(min(v, w), max(v, w))
        del self.cost[v], self.usage[v], self.choice[v], self.near[v]

    def fold(self, v: int) -> None:
        """A node with one choice becomes costs of its neighbours, and memory that is gone."""
        for w in tuple(self.near[v]):
            self.cost[w] = np.minimum(self.cost[w] + self._seen_from(v, w)[0], FORBIDDEN)
            self.cut(min(v, w), max(v, w))
        self.constant += float(self.cost[v][0])
        self.limit[self.low[v] : self.high[v]] -= self.usage[v][0]
        self._remove(v, np.zeros((), np.int64))

    def eliminate(self, v: int) -> bool:
        """Take away a node of at most two neighbours whose memory cannot matter; whether that was worth it."""
        beside = sorted(self.near[v])
        sizes = [len(self.cost[w]) for w in beside]
        entries = int(np.prod(sizes))
        if entries * len(self.cost[v]) > MOST_ENTRIES:
            return False
        if len(beside) == 2 and entries > GROWTH * len(self.cost[v]) * sum(sizes):
            return False
        total = self.cost[v].reshape(-1, *(1,) * len(beside))
        for axis, w in enumerate(beside):
            shape = [1] * len(beside)
            shape[axis] = sizes[axis]
            total = total + self._seen_from(v, w).reshape(-1, *shape)
        best = total.argmin(axis=0)
        least = np.minimum(np.take_along_axis(total, best[None], 0)[0], FORBIDDEN)
        self.limit[self.low[v] : self.high[v]] -= self.usage[v].min()
        self._remove(v, best)
        if not beside:
            self.constant += float(least)
        elif len(beside) == 1:
            self.cost[beside[0]] = np.minimum(self.cost[beside[0]] + least, FORBIDDEN)
        else:
            pair = (beside[0], beside[1])
            self.near[pair[0]].add(pair[1])
            self.near[pair[1]].add(pair[0])
            self.tables[pair] = np.minimum(self.tables.get(pair, 0.0) + least, FORBIDDEN)
        return True

    def lift(self, choice: dict[int, int]) -> dict[int, int]:
        """The choices of all nodes of the instance, of those of the nodes that are left."""
        whole = dict(choice)
        for rule in reversed(self.rules):
            at = tuple(
                int(np.searchsorted(known, whole[w]))
                for w, known in zip(rule.beside, rule.known, strict=True)
            )
            whole[rule.node] = int(rule.best[at])
        return whole


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.ascontiguousarray(np.concatenate(parts) if len(parts) else np.zeros(0), dtype=np.float64)


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
    """Take away choices that are not needed; False if a node has none left."""
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
