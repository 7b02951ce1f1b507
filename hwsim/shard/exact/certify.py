"""The bound that messages and prices prove, safe against rounding.

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

import numpy as np

from hwsim.jit import kernel
from hwsim.shard.exact.graph import Floats, Graph
from hwsim.shard.exact.messages import Messages, gather, node_prices

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
def least_left(graph: Graph, messages: Messages, byte: Floats) -> tuple[Floats, Floats]:
    """What is left at least at each node and each edge after a forward sweep, float64 [n] and [E], less its rounding.

    Args:
        graph: the model.
        messages: as a forward sweep left them.
        byte: float64 [n], the price of a byte at each node, exact.
    """
    nodes = len(graph.first) - 1
    left, taken = np.zeros(nodes), np.zeros(len(messages.to_a))
    belief = np.zeros(np.diff(graph.first).max())
    size = np.zeros(len(belief))
    for v in range(nodes):
        start, count = graph.first[v], graph.first[v + 1] - graph.first[v]
        gather(graph, messages, byte[v], v, belief)
        split = np.searchsorted(graph.near_node[graph.near_at[v] : graph.near_at[v + 1]], v)
        degree = graph.near_at[v + 1] - graph.near_at[v]
        share = 1.0 / max(degree - split, split, 1)
        for q in range(graph.near_at[v] + split, graph.near_at[v + 1]):
            at = messages.at_a[graph.near_edge[q]]
            for s in range(count):
                taken[at + s] = messages.to_a[at + s] - share * belief[s]  # what the edge gives to its node a
        for s in range(count):
            dear = byte[v] * graph.usage[start + s]
            belief[s] = graph.cost[start + s] + dear
            size[s] = abs(graph.cost[start + s]) + abs(dear)
        for q in range(graph.near_at[v], graph.near_at[v + 1]):
            e = graph.near_edge[q]
            if graph.a[e] == v:
                row = taken[messages.at_a[e] : messages.at_a[e + 1]]
            else:
                row = messages.to_b[messages.at_b[e] : messages.at_b[e + 1]]
            for s in range(count):
                belief[s] += row[s]
                size[s] += abs(row[s])
        least = np.inf
        for s in range(count):
            least = min(least, belief[s] - 2.0 * (degree + 3) * ROUNDING * size[s])
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
    left, of_edges = least_left(graph, messages, node_prices(graph, exact))
    given_back = exact * graph.room
    margin = 4.0 * ROUNDING * float(np.abs(given_back).sum())
    total = math.fsum([constant, *left.tolist(), *of_edges.tolist(), *(-given_back).tolist(), -margin])
    return total - 4.0 * ROUNDING * abs(total)
