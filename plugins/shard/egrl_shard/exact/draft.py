"""An instance while it is made smaller: nodes, edges and memory that are taken away, and what puts them back.

A node of a draft uses memory in spans: stretches of points, [2, P], with a row of usages each, [P, K]. An op has one
span. A node that others have become a part of has as many as its use of memory has steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egrl_shard.exact.graph import (
    ALLOWED,
    FORBIDDEN,
    Floats,
    Graph,
    Int64s,
    binding,
    first_points,
    neighbours,
    spread,
)
from egrl_shard.sharding import Sharding

WHOLE = 2.0**53
"""Whole numbers whose sums stay below this are added exactly."""

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
        """Take everything as it is: a span low .. high-1 per node, `limit` float64 [T], pairs of `tables` in order."""
        self.cost = dict(enumerate(cost))
        self.usage = {v: row[None] for v, row in enumerate(usage)}
        self.spans = dict(enumerate(np.stack([low, high], 1)[:, :, None]))
        self.choice = {v: np.arange(len(c)) for v, c in self.cost.items()}
        self.limit = limit
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
        at = np.concatenate([[0], np.cumsum([table.size for table in tables])])
        counts = np.array([len(self.cost[v]) for v in nodes], np.int64)
        graph = Graph(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            _joined([self.cost[v] for v in nodes]),
            *self._pack_memory(nodes, counts),
            a,
            b,
            at.astype(np.int64),
            _joined(tables),
            *neighbours(len(nodes), a, b),
        )
        return graph, nodes

    def _pack_memory(
        self, nodes: list[int], counts: Int64s
    ) -> tuple[Int64s, Int64s, Int64s, Int64s, Floats, Floats]:
        """The spans in which memory can bind, as of `Graph`: span_at, low, high, usage_at, usage, room."""
        owner = np.repeat(np.arange(len(nodes)), [len(self.usage[v]) for v in nodes])
        low, high = np.concatenate([self.spans[v] for v in nodes], 1) if nodes else np.zeros((2, 0), np.int64)
        usage, rows = _joined([self.usage[v].ravel() for v in nodes]), counts[owner]
        at = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        least = np.minimum.reduceat(usage, at[:-1]) if len(rows) else usage
        most = np.maximum.reduceat(usage, at[:-1]) - least if len(rows) else usage
        room = self.limit - spread(low, high, least, len(self.limit))
        low, high, kept = binding(low, high, most, room)
        some = (most > 0.0) & (low < high)
        usage = (usage - np.repeat(least, rows))[np.repeat(some, rows)]
        span_at = np.concatenate([[0], np.cumsum(np.bincount(owner[some], minlength=len(nodes)))])
        usage_at = np.concatenate([[0], np.cumsum(rows[some])])
        return (
            span_at.astype(np.int64),
            low[some],
            high[some],
            usage_at.astype(np.int64),
            usage,
            room[kept],
        )

    # ---- what is taken away

    def keep(self, v: int, kept: NDArray[np.bool_]) -> None:
        """Only some choices of a node, bool [K]."""
        self.cost[v], self.usage[v] = self.cost[v][kept], self.usage[v][:, kept]
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
        self._forget(v)

    def _forget(self, v: int) -> None:
        del self.cost[v], self.usage[v], self.spans[v], self.choice[v], self.near[v]

    def _take_memory(self, v: int) -> None:
        """The least that a node uses is gone from the limit."""
        for low, high, least in zip(*self.spans[v], self.usage[v].min(1), strict=True):
            self.limit[low:high] -= least

    def _join(self, v: int, w: int, table: Floats) -> None:
        """Add a table [choices of v, choices of w] to the edge between two nodes, which may be new."""
        pair, table = ((v, w), table) if v < w else ((w, v), table.T)
        self.near[v].add(w)
        self.near[w].add(v)
        self.tables[pair] = np.minimum(self.tables.get(pair, 0.0) + table, FORBIDDEN)

    def merge(self) -> None:
        """A node whose choice another's decides, since an edge forbids all else, becomes a part of the other."""
        deciding = set(self._deciding())
        taken: set[int] = set()
        for root in sorted({v for v, _ in deciding}, key=lambda v: -len(self.cost[v])):
            if root in taken:
                continue
            chosen = {root: np.arange(len(self.cost[root]))}
            queue = [root]
            for v in queue:
                for w in self.near[v]:
                    if w not in chosen and w not in taken and (v, w) in deciding:
                        chosen[w] = self._seen_from(v, w).argmin(1)[chosen[v]]
                        queue.append(w)
            taken.update(chosen)
            self._absorb(root, chosen)

    def _deciding(self) -> Iterable[tuple[int, int]]:
        """Pairs of nodes, of which the first's choice decides the second's."""
        for (a, b), table in self.tables.items():
            if table[0].max() < ALLOWED:  # a look at one row rules most tables out
                continue
            allowed = table < ALLOWED
            if allowed.sum(1).max() <= 1 and len(allowed) <= GROWTH * len(table[0]):
                yield a, b
            if allowed.sum(0).max() <= 1 and len(table[0]) <= GROWTH * len(allowed):
                yield b, a

    def _absorb(self, root: int, chosen: dict[int, NDArray[np.int64]]) -> None:
        """Nodes become parts of one of them; `chosen`, int64 [K] each, are their choices for each of that one's."""
        cost = sum(self.cost[v][of] for v, of in chosen.items())
        low, high = np.concatenate([self.spans[v] for v in chosen], 1)
        usage = np.concatenate([self.usage[v][:, of] for v, of in chosen.items()])
        self.spans[root], self.usage[root] = disjoint(low, high, usage)
        for v in chosen:
            for w in tuple(self.near[v]):
                table = self._seen_from(v, w)[chosen[v]]
                if w not in chosen:
                    if v != root:
                        self.cut(min(v, w), max(v, w))
                        self._join(root, w, table)
                elif v < w:
                    cost = cost + np.take_along_axis(table, chosen[w][:, None], 1)[:, 0]
                    self.cut(v, w)
        self.cost[root] = np.minimum(cost, FORBIDDEN)
        known = (self.choice[root],)
        for v, of in chosen.items():
            if v != root:
                self.rules.append(Rule(v, (root,), known, self.choice[v][of]))
                self._forget(v)

    def fold(self, v: int) -> None:
        """A node with one choice becomes costs of its neighbours, and memory that is gone."""
        for w in tuple(self.near[v]):
            self.cost[w] = np.minimum(self.cost[w] + self._seen_from(v, w)[0], FORBIDDEN)
            self.cut(min(v, w), max(v, w))
        self.constant += float(self.cost[v][0])
        self._take_memory(v)
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
        self._take_memory(v)
        self._remove(v, best)
        if not beside:
            self.constant += float(least)
        elif len(beside) == 1:
            self.cost[beside[0]] = np.minimum(self.cost[beside[0]] + least, FORBIDDEN)
        else:
            self._join(beside[0], beside[1], least)
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


def disjoint(low: Int64s, high: Int64s, usage: Floats) -> tuple[Int64s, Floats]:
    """Spans that do not overlap, int64 [2, P], and what is used there, float64 [P, K], of spans that may."""
    marks = np.unique([low, high])
    steps = np.zeros((len(marks), usage.shape[1]))
    np.add.at(steps, np.searchsorted(marks, low), usage)
    np.subtract.at(steps, np.searchsorted(marks, high), usage)
    # Whole numbers in doubles: sums are exact, and equal neighbours can be told.
    used = np.cumsum(steps, 0)[:-1]
    begins = np.append(True, (used[1:] != used[:-1]).any(1)) & (len(used) > 0)
    starts = marks[:-1][begins[: len(used)]]
    used = used[begins[: len(used)]]
    ends = np.append(starts[1:], marks[-1:])[: len(starts)]
    some = used.any(1)
    return np.stack([starts, ends])[:, some], used[some]


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.ascontiguousarray(np.concatenate(parts) if len(parts) else np.zeros(0), dtype=np.float64)


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
