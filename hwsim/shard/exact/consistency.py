"""Choices that no solution needs: those without a partner at some edge, and those that another one dominates.

Sources: arc consistency (Mackworth, 1977); dead-end elimination (Goldstein, 1994): a choice goes where another
of its node costs no more whatever the neighbours choose, and uses no more memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.shard.exact.graph import ALLOWED, Floats, Graph

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
