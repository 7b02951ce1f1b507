"""Sequential tree-reweighted message passing at given prices of memory, and the bound that messages prove.

Source: Kolmogorov, "Convergent Tree-Reweighted Message Passing for Energy Minimization", PAMI 2006 (TRW-S),
with the order of the nodes as the order of its chains.

The bound of a sweep: of each edge a part is moved to its two nodes, and every solution costs at least the least
of each node and of each edge afterwards. A forward sweep moves M(y) to the later node y, and takes the earlier
node's share for the edge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hwsim.jit import kernel
from hwsim.shard.exact.graph import Floats, Graph, Int32s, Int64s


class Messages(NamedTuple):
    """What edges tell their nodes: float64 rows, an edge's for its node a from at_a[e] on, for b from at_b[e] on."""

    to_a: Floats
    to_b: Floats
    at_a: Int64s
    at_b: Int64s


def silent(graph: Graph) -> Messages:
    """Messages of zeros."""
    counts = np.diff(graph.first)
    at_a = np.concatenate([[0], np.cumsum(counts[graph.a])]).astype(np.int64)
    at_b = np.concatenate([[0], np.cumsum(counts[graph.b])]).astype(np.int64)
    return Messages(np.zeros(at_a[-1]), np.zeros(at_b[-1]), at_a, at_b)


@kernel
def node_prices(graph: Graph, price: Floats) -> Floats:
    """What a byte costs at each node, float64 [n], where price float64 [T] is that of a byte at each point."""
    until = np.zeros(len(price) + 1)
    for t in range(len(price)):
        until[t + 1] = until[t] + price[t]
    return until[graph.high] - until[graph.low]


@kernel
def gather(graph: Graph, messages: Messages, byte: float, v: int, belief: Floats) -> None:
    """Put into belief [K] what node v costs with all messages to it, at a price a byte."""
    start, count = graph.first[v], graph.first[v + 1] - graph.first[v]
    for s in range(count):
        belief[s] = graph.cost[start + s] + byte * graph.usage[start + s]
    for q in range(graph.near_at[v], graph.near_at[v + 1]):
        e = graph.near_edge[q]
        if graph.a[e] == v:
            row = messages.to_a[messages.at_a[e] : messages.at_a[e + 1]]
        else:
            row = messages.to_b[messages.at_b[e] : messages.at_b[e + 1]]
        for s in range(count):
            belief[s] += row[s]


@kernel
def pass_on(graph: Graph, messages: Messages, e: int, forward: bool, left: Floats) -> float:
    """The message over edge e of what its sender has left [K]; put in place less its least, which is returned."""
    rows = messages.at_a[e + 1] - messages.at_a[e]
    columns = messages.at_b[e + 1] - messages.at_b[e]
    table = graph.table[graph.at[e] : graph.at[e + 1]]
    if forward:
        out = messages.to_b[messages.at_b[e] : messages.at_b[e + 1]]
        out[:] = np.inf
        for s in range(rows):
            own = left[s]
            for t in range(columns):
                out[t] = min(out[t], own + table[s * columns + t])
    else:
        out = messages.to_a[messages.at_a[e] : messages.at_a[e + 1]]
        for s in range(rows):
            least = np.inf
            for t in range(columns):
                least = min(least, left[t] + table[s * columns + t])
            out[s] = least
    least = out.min()
    out -= least
    return least


@kernel
def sweep(graph: Graph, messages: Messages, byte: Floats, forward: bool) -> float:
    """Update all messages in one direction; the bound without what prices give back (not safe against rounding)."""
    nodes = len(graph.first) - 1
    belief, left = np.zeros(np.diff(graph.first).max()), np.zeros(np.diff(graph.first).max())
    bound = 0.0
    for i in range(nodes):
        v = i if forward else nodes - 1 - i
        count = graph.first[v + 1] - graph.first[v]
        gather(graph, messages, byte[v], v, belief)
        split = np.searchsorted(graph.near_node[graph.near_at[v] : graph.near_at[v + 1]], v)
        degree = graph.near_at[v + 1] - graph.near_at[v]
        ahead = degree - split if forward else split
        share = 1.0 / max(ahead, degree - ahead, 1)
        bound += (1.0 - share * ahead) * belief[:count].min()
        begin = graph.near_at[v] + (split if forward else 0)
        for q in range(begin, begin + ahead):
            e = graph.near_edge[q]
            heard = messages.to_a if forward else messages.to_b
            at = messages.at_a[e] if forward else messages.at_b[e]
            for s in range(count):
                left[s] = share * belief[s] - heard[at + s]
            bound += pass_on(graph, messages, e, forward, left)
    return bound


@kernel
def decode(graph: Graph, messages: Messages, byte: Floats) -> Int32s:
    """Choices one node after the other, int32 [n]: the least by what is chosen before and by messages of the rest."""
    nodes = len(graph.first) - 1
    chosen = np.zeros(nodes, np.int32)
    belief = np.zeros(np.diff(graph.first).max())
    for v in range(nodes):
        start, count = graph.first[v], graph.first[v + 1] - graph.first[v]
        for s in range(count):
            belief[s] = graph.cost[start + s] + byte[v] * graph.usage[start + s]
        for q in range(graph.near_at[v], graph.near_at[v + 1]):
            e, w = graph.near_edge[q], graph.near_node[q]
            if w < v:
                at = graph.at[e] + chosen[w] * count
                for s in range(count):
                    belief[s] += graph.table[at + s]
            else:
                for s in range(count):
                    belief[s] += messages.to_a[messages.at_a[e] + s]
        chosen[v] = belief[:count].argmin()
    return chosen
