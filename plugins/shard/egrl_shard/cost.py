"""Cost and usage of choices: of whole mappings, and of one node's change in time proportional to its degree.

Forbidden costs are counted and never added; the others sum below 2^62 (`egrl_shard.sharding.check`), so that int64 is
exact. A change of one node looks at its edges (`cost_of`) and, in a tree of usage, at its points of time.

Usage over time is a tree (`hwsim/nnpi/placer.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl_shard.sharding import FORBIDDEN_FROM
from egrl_shard.tables import Tables
from hwsim.jit import kernel
from hwsim.nnpi.placer import Usage, add, nothing_used


@kernel
def usage_of(t: Tables, choice: NDArray[np.int16]) -> Usage:
    """The tree of a choice [N]."""
    greatest, added = nothing_used(t.points)
    half = len(greatest) // 2
    for n in range(len(choice)):
        used = t.usage[t.first[n] + choice[n]]
        greatest[half + 1 + t.lower[n]] += used
        greatest[half + 1 + t.upper[n]] -= used
    for leaf in range(half + 1, 2 * half):
        greatest[leaf] += greatest[leaf - 1]
    for k in range(half - 1, 0, -1):
        greatest[k] = max(greatest[2 * k], greatest[2 * k + 1])
    return greatest, added


@kernel
def take(t: Tables, choice: NDArray[np.int16], tree: Usage, node: int, to: int) -> None:
    """Give a node another strategy, in the choice and in its tree."""
    first = t.first[node]
    add(tree, t.lower[node], t.upper[node], t.usage[first + to] - t.usage[first + choice[node]])
    choice[node] = to


Choice = NDArray[np.int16]
"""int16 [N], one strategy per node."""


@kernel
def totals(
    t: Tables, choice: NDArray[np.int16]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of choices [B, N]: allowed costs, how many forbidden costs, and the greatest usage at a point of time, int64 [B].

    If there are no points of time, the usage is 0.
    """
    batch, nodes = choice.shape
    cost, forbidden = np.zeros(batch, np.int64), np.zeros(batch, np.int64)
    peak = np.zeros(batch, np.int64)
    change = np.empty(t.points + 1, np.int64)
    for b in range(batch):
        row = choice[b]
        change[:] = 0
        for n in range(nodes):
            at = t.first[n] + row[n]
            change[t.lower[n]] += t.usage[at]
            change[t.upper[n]] -= t.usage[at]
            if t.cost[at] >= FORBIDDEN_FROM:
                forbidden[b] += 1
            else:
                cost[b] += t.cost[at]
        for e in range(len(t.edge_nodes)):
            second = t.edge_nodes[e, 1]
            wide = t.first[second + 1] - t.first[second]
            paid = t.edge_cost[t.edge_first[e] + row[t.edge_nodes[e, 0]] * wide + row[second]]
            if paid >= FORBIDDEN_FROM:
                forbidden[b] += 1
            else:
                cost[b] += paid
        held = np.int64(0)
        for point in range(t.points):
            held += change[point]
            peak[b] = max(peak[b], held)
    return cost, forbidden, peak


@kernel
def pair_at(t: Tables, edge: int, node: int, strategy: int, choice: NDArray[np.int16]) -> tuple[int, int]:
    """Where the cost of an edge lies if `node`, one of its two, has a strategy; and the other node."""
    a, b = t.edge_nodes[edge, 0], t.edge_nodes[edge, 1]
    wide = t.first[b + 1] - t.first[b]
    if a == node:
        return t.edge_first[edge] + strategy * wide + choice[b], b
    return t.edge_first[edge] + choice[a] * wide + strategy, a


@kernel
def cost_of(t: Tables, choice: NDArray[np.int16], node: int, strategy: int) -> tuple[int, int]:
    """What a node's strategy costs with its edges while the others keep theirs, and how many of these costs forbid."""
    cost, forbidden = t.cost[t.first[node] + strategy], 0
    if cost >= FORBIDDEN_FROM:
        cost, forbidden = np.int64(0), 1
    for k in range(t.near_first[node], t.near_first[node + 1]):
        at, _ = pair_at(t, t.near[k], node, strategy, choice)
        if t.edge_cost[at] >= FORBIDDEN_FROM:
            forbidden += 1
        else:
            cost += t.edge_cost[at]
    return cost, forbidden
