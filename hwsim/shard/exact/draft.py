"""A model while it is being reduced: tables by pairs of nodes, and how what was taken away is chosen in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.shard.exact.graph import FORBIDDEN, Floats, Graph, Int64s, neighbours
from hwsim.shard.exact.times import binding, spread

MOST_ENTRIES = 4_000_000
"""Of the table that the elimination of one node may go through."""
GROWTH = 2
"""A new table may have this many times the entries of those it replaces."""


@dataclass(frozen=True)
class Rule:
    """How a node that was eliminated is chosen: by the choices of the nodes beside it.

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
