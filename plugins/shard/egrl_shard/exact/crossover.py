"""Take from another solution what is better there: partition crossover.

The nodes at which two solutions differ fall into components, between which no edge is. What a component costs more or
less in the other solution does not depend on the other components; only memory joins them. Which components to take is
asked at several prices of memory, as for a region.

Source: Tinós, Whitley, Chicano, "Partition Crossover for Pseudo-Boolean Optimization", FOGA 2015.
"""

from __future__ import annotations

import numpy as np

from egrl_shard.exact.graph import Floats, Graph, Int32s, memory_cost, profile
from egrl_shard.exact.solution import Solution
from egrl_shard.exact.starts import dearer
from hwsim.jit import kernel

TRIES = 8
"""Sets of components, each at other prices."""
RATE = 3.0
"""Of the first step of prices; the later ones are smaller."""


@kernel
def components(graph: Graph, one: Int32s, other: Int32s) -> Int32s:
    """int32 [n], the component of each node at which choices int32 [n] differ, numbered from 0; -1 elsewhere."""
    nodes = len(one)
    of = np.full(nodes, -1, np.int32)
    queue = np.empty(nodes, np.int32)
    count = 0
    for start in range(nodes):
        if of[start] >= 0 or one[start] == other[start]:
            continue
        of[start] = count
        queue[0] = start
        head, tail = 0, 1
        while head < tail:
            v = queue[head]
            head += 1
            for q in range(graph.near_at[v], graph.near_at[v + 1]):
                w = graph.near_node[q]
                if of[w] < 0 and one[w] != other[w]:
                    of[w] = count
                    queue[tail] = w
                    tail += 1
        count += 1
    return of


@kernel
def differences(graph: Graph, one: Int32s, other: Int32s, of: Int32s) -> Floats:
    """What each component costs more in the other solution than in the one, memory not counted."""
    more = np.zeros(of.max() + 1)
    for v in range(len(of)):
        if of[v] >= 0:
            more[of[v]] += graph.cost[graph.first[v] + other[v]] - graph.cost[graph.first[v] + one[v]]
    for e in range(len(graph.a)):
        a, b = graph.a[e], graph.b[e]
        part = max(of[a], of[b])  # where both are in a component, it is the same one
        if part >= 0:
            width, at = graph.first[b + 1] - graph.first[b], graph.at[e]
            more[part] += graph.table[at + other[a] * width + other[b]]
            more[part] -= graph.table[at + one[a] * width + one[b]]
    return more


def crossed(best: Solution, other: Solution, price: Floats, limit: float, graph: Graph) -> Solution | None:
    """A valid solution that costs less than `best`, a valid one; None if nothing of the other makes it better.

    `price` is float64 [T], of a byte at each point, to begin with; `limit` that of the instance.
    """
    of = components(graph, best.choice, other.choice)
    if of.max(initial=-1) < 0:
        return None
    more = differences(graph, best.choice, other.choice, of)
    differ = np.flatnonzero(of >= 0)
    ours, theirs = (graph.first[differ] + s.choice[differ] for s in (best, other))
    least, found = 0.0, None
    for tries in range(TRIES):
        memory = memory_cost(graph, price)
        priced = more + np.bincount(of[differ], memory[theirs] - memory[ours], len(more))
        taken = priced < 0.0
        choice = np.where((of >= 0) & taken[of], other.choice, best.choice)
        gain = float(more[taken].sum())
        if gain < least and (profile(graph, choice) <= graph.room).all():
            least, found = gain, choice
        price = dearer(graph, price, choice, limit, RATE / (1 + tries))
    return None if found is None else best.with_choice(found)
