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

from egrl_shard.exact.graph import Floats, Graph, Int32s, Int64s
from hwsim.jit import kernel


class Messages(NamedTuple):
    """Messages of edges to nodes: float64, those of edge e to its node a from at_a[e] on, to b from at_b[e] on."""

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
def gather(graph: Graph, messages: Messages, own: Floats, v: int, belief: Floats) -> None:
    """Put into belief [K] what node v costs with all messages to it; own float64 [S], what choices cost with memory."""
    start, count = graph.first[v], graph.first[v + 1] - graph.first[v]
    for s in range(count):
        belief[s] = own[start + s]
    for q in range(graph.near_at[v], graph.near_at[v + 1]):
        e = graph.near_edge[q]
        if graph.near_node[q] > v:
            at = messages.at_a[e]
            for s in range(count):
                belief[s] += messages.to_a[at + s]
        else:
            at = messages.at_b[e]
            for s in range(count):
                belief[s] += messages.to_b[at + s]


@kernel
def send_forward(
    table: Floats, at: int, left: Floats, rows: int, out: Floats, to: int, columns: int
) -> float:
    """The least, over the choices of a, of what is left there [rows] and the table from `at` on, into out[to:].

    The least of all is taken off, and returned. Rows of arrays come as their beginnings: kernels take an array
    faster than a slice, and much faster than a tuple of arrays.
    """
    for t in range(columns):
        out[to + t] = left[0] + table[at + t]
    for s in range(1, rows):
        row = at + s * columns
        for t in range(columns):
            out[to + t] = min(out[to + t], left[s] + table[row + t])
    return take_off(out, to, columns)


@kernel
def send_backward(
    table: Floats, at: int, left: Floats, rows: int, out: Floats, to: int, columns: int
) -> float:
    """The same over the choices of b: what is left there is [columns], and out[to:] has `rows`."""
    for s in range(rows):
        least, row = np.inf, at + s * columns
        for t in range(columns):
            least = min(least, left[t] + table[row + t])
        out[to + s] = least
    return take_off(out, to, rows)


@kernel
def take_off(out: Floats, to: int, count: int) -> float:
    """Take the least of out[to:to+count] off all of them."""
    least = np.inf
    for s in range(count):
        least = min(least, out[to + s])
    for s in range(count):
        out[to + s] -= least
    return least


@kernel
def sweep(graph: Graph, messages: Messages, own: Floats, forward: bool) -> float:
    """Update all messages in one direction; the bound without what prices give back (not safe against rounding).

    `own` is float64 [S], what choices cost by themselves and for their memory.
    """
    first, near_at, near_node, near_edge = graph.first, graph.near_at, graph.near_node, graph.near_edge
    to_a, to_b, at_a, at_b = messages.to_a, messages.to_b, messages.at_a, messages.at_b
    nodes = len(first) - 1
    belief, left = np.zeros(np.diff(first).max()), np.zeros(np.diff(first).max())
    bound = 0.0
    for i in range(nodes):
        v = i if forward else nodes - 1 - i
        start, count = first[v], first[v + 1] - first[v]
        for s in range(count):
            belief[s] = own[start + s]
        # Neighbours are in order: those before `middle` are earlier nodes, the others later ones.
        middle = near_at[v]
        for q in range(near_at[v], near_at[v + 1]):
            earlier = near_node[q] < v
            middle += earlier
            received, at = (to_b, at_b[near_edge[q]]) if earlier else (to_a, at_a[near_edge[q]])
            for s in range(count):
                belief[s] += received[at + s]
        before, after = middle - near_at[v], near_at[v + 1] - middle
        ahead = after if forward else before
        # A node lies on as many chains as it has edges to the side with more of them, each with an equal share of it.
        # Chains that end here put their share of the least belief into the bound; the others pass it on by messages.
        share = 1.0 / max(before, after, 1)
        bound += (1.0 - share * ahead) * belief[:count].min()
        begin = middle if forward else near_at[v]
        for q in range(begin, begin + ahead):
            e = near_edge[q]
            received, at = (to_a, at_a[e]) if forward else (to_b, at_b[e])
            for s in range(count):
                left[s] = share * belief[s] - received[at + s]
            if forward:
                bound += send_forward(
                    graph.table, graph.at[e], left, count, to_b, at_b[e], at_b[e + 1] - at_b[e]
                )
            else:
                other = at_a[e + 1] - at_a[e]
                bound += send_backward(graph.table, graph.at[e], left, other, to_a, at_a[e], count)
    return bound


@kernel
def believe(graph: Graph, messages: Messages, own: Floats, chosen: Int32s, v: int, belief: Floats) -> None:
    """What the choices of v cost, by what is chosen before and what messages say of the rest."""
    start, count = graph.first[v], graph.first[v + 1] - graph.first[v]
    for s in range(count):
        belief[s] = own[start + s]
    for q in range(graph.near_at[v], graph.near_at[v + 1]):
        e, w = graph.near_edge[q], graph.near_node[q]
        if w < v:
            at = graph.at[e] + chosen[w] * count
            for s in range(count):
                belief[s] += graph.table[at + s]
        else:
            for s in range(count):
                belief[s] += messages.to_a[messages.at_a[e] + s]


@kernel
def decode(graph: Graph, messages: Messages, own: Floats) -> Int32s:
    """Choices one node after the other, int32 [n]: the least by what is chosen before and by messages of the rest."""
    counts = np.diff(graph.first)
    chosen = np.zeros(len(counts), np.int32)
    belief = np.zeros(counts.max())
    for v in range(len(counts)):
        believe(graph, messages, own, chosen, v, belief)
        chosen[v] = belief[: counts[v]].argmin()
    return chosen
