"""Arrays for the kernels of the solver: nodes with choices, edges with tables of costs, memory over time.

n nodes, E edges, T points of time, S choices of all nodes in a row, U spans: stretches of points in which one node uses
memory. A node that stands for several ops has several. Only those points of time count at which memory can bind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]

FORBIDDEN = 1e18
"""A cost that no solution may have. Sums of it stay finite."""
ALLOWED = 1e17
"""Costs below this are costs; those above are forbidden."""


class Graph(NamedTuple):
    """A pairwise model with limits on memory.

    Attributes:
        first: int64 [n + 1], the choices of node v are first[v] .. first[v+1]-1 of the rows below.
        cost: float64 [S].
        span_at: int64 [n + 1], the spans of node v are span_at[v] .. span_at[v+1]-1; no two of a node overlap.
        low, high: int64 [U], the points of a span: low .. high-1.
        usage_at: int64 [U + 1], where the row of a span begins in `usage`: one entry per choice of its node.
        usage: float64 [usage_at[U]], what a choice uses in a span above the least of the node's choices there.
        room: float64 [T], the limit less the least usages.
        a, b: int32 [E], the nodes of an edge, a < b; edges are sorted, no pair comes twice.
        at: int64 [E + 1], where an edge's table begins.
        table: float64 [at[E]], row-major: choice of a, choice of b.
        near_at: int64 [n + 1]; near_edge, near_node: int32 [2 E], each node's edges and neighbours, by neighbour.
    """

    first: Int64s
    cost: Floats
    span_at: Int64s
    low: Int64s
    high: Int64s
    usage_at: Int64s
    usage: Floats
    room: Floats
    a: Int32s
    b: Int32s
    at: Int64s
    table: Floats
    near_at: Int64s
    near_edge: Int32s
    near_node: Int32s

    @property
    def nodes(self) -> int:
        """n."""
        return len(self.first) - 1


def neighbours(nodes: int, a: Int32s, b: Int32s) -> tuple[Int64s, Int32s, Int32s]:
    """near_at, near_edge and near_node of edges that are sorted by (a, b)."""
    ends = np.concatenate([a, b])
    others = np.concatenate([b, a])
    order = np.lexsort((others, ends))
    edge = np.tile(np.arange(len(a), dtype=np.int32), 2)[order]
    at = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=nodes))]).astype(np.int64)
    return at, edge, others[order].astype(np.int32)


@kernel
def total_cost(graph: Graph, choice: Int32s) -> float:
    """The cost of choices int32 [n], memory not counted."""
    total = 0.0
    for v in range(len(graph.first) - 1):
        total += graph.cost[graph.first[v] + choice[v]]
    for e in range(len(graph.a)):
        b = graph.b[e]
        width = graph.first[b + 1] - graph.first[b]
        total += graph.table[graph.at[e] + choice[graph.a[e]] * width + choice[b]]
    return total


@kernel
def profile(graph: Graph, choice: Int32s) -> Floats:
    """What choices int32 [n] use above the least, float64 [T]."""
    steps = np.zeros(len(graph.room) + 1)
    for v in range(len(graph.first) - 1):
        for u in range(graph.span_at[v], graph.span_at[v + 1]):
            used = graph.usage[graph.usage_at[u] + choice[v]]
            steps[graph.low[u]] += used
            steps[graph.high[u]] -= used
    return np.cumsum(steps)[:-1]


@kernel
def memory_cost(graph: Graph, price: Floats) -> Floats:
    """What the memory of each choice costs, float64 [S], where price float64 [T] is that of a byte at each point."""
    until = np.zeros(len(price) + 1)
    for t in range(len(price)):
        until[t + 1] = until[t] + price[t]
    dear = np.zeros(len(graph.cost))
    for v in range(len(graph.first) - 1):
        start, count = graph.first[v], graph.first[v + 1] - graph.first[v]
        for u in range(graph.span_at[v], graph.span_at[v + 1]):
            byte, at = until[graph.high[u]] - until[graph.low[u]], graph.usage_at[u]
            if byte != 0.0:
                for s in range(count):
                    dear[start + s] += byte * graph.usage[at + s]
    return dear


def first_points(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """The points that suffice: of half-open intervals [start, end), each point is the last start before an end.

    Between two ends, what is live at the last start contains what is live at any other time.

    Returns:
        points int64 [T] in order, and for each interval low and high int64 [N]: it holds points low .. high-1.
    """
    some = start < end
    starts, ends = np.unique(start[some]), np.sort(end[some])
    following = np.append(starts[1:], np.iinfo(np.int64).max)
    ends_before = np.searchsorted(ends, following, "right") > np.searchsorted(ends, starts, "right")
    points = starts[ends_before]
    low, high = np.searchsorted(points, start), np.searchsorted(points, end)
    return points, np.where(some, low, 0), np.where(some, np.maximum(low, high), 0)


def spread(low: Int64s, high: Int64s, amount: Floats, points: int) -> Floats:
    """float64 [T], the amounts of the intervals that hold each point."""
    steps = np.zeros(points + 1)
    np.add.at(steps, low, np.where(low < high, amount, 0.0))
    np.add.at(steps, high, np.where(low < high, -amount, 0.0))
    return np.cumsum(steps)[:-1]


def binding(
    low: Int64s, high: Int64s, most: Floats, room: Floats
) -> tuple[Int64s, Int64s, NDArray[np.int64]]:
    """Keep only the points that can bind and that no other point implies.

    Args:
        low, high: int64 [U], the points of each span.
        most: float64 [U], what can be used there above the least; 0 if it does not vary.
        room: float64 [T], what may be used above the least.

    Returns:
        low and high in the numbers of the points kept, and which points those are.
    """
    kept = np.flatnonzero(spread(low, high, most, len(room)) > room)
    varies = most > 0.0
    while True:
        new_low, new_high = np.searchsorted(kept, low), np.searchsorted(kept, high)
        some = varies & (new_low < new_high)
        begins = np.bincount(new_low[some], minlength=len(kept) + 1)[: len(kept)] > 0
        ends = np.bincount(new_high[some], minlength=len(kept) + 1)[: len(kept)] > 0
        left = room[kept]
        drop = np.zeros(len(kept), np.bool_)
        drop[1:] |= ~begins[1:] & (left[:-1] <= left[1:])  # all that is live here is live one point earlier
        drop[:-1] |= ~ends[1:] & (left[1:] <= left[:-1]) & ~drop[1:]
        if not drop.any():
            return new_low.astype(np.int64), new_high.astype(np.int64), kept
        kept = kept[~drop]
