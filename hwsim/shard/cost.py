"""What choices cost and use: whole mappings, and one node's change in time proportional to its degree.

Forbidden costs are counted and never added; the others sum below 2^62 (`workloads.sharding.check`), so that int64 is
exact. A change of one node looks at its edges (`cost_of`) and, in a tree of usage, at its points of time.

Usage over time is a tree: what a node adds to its points of time, and the most that is used in a range of them.
Source: a segment tree whose ranges keep what is added to them as a whole, walked from the leaves up. Both operations
take the logarithm of the points, however long a node lives.

`Usage` is (greatest, added), int64 [2 M] each, M a power of two above T + 1: of the range at k, the halves of which are
at 2 k and 2 k + 1, `greatest` is the most within it, what is added to the ranges around it left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.shard.tables import Tables
from workloads.sharding import FORBIDDEN_FROM

Usage = tuple[NDArray[np.int64], NDArray[np.int64]]


@kernel
def usage_of(t: Tables, choice: NDArray[np.int16]) -> Usage:
    """The tree of a choice [N]."""
    half = 2
    while half < t.points + 2:
        half *= 2
    greatest, added = np.zeros(2 * half, np.int64), np.zeros(2 * half, np.int64)
    # Leaves of the points are half + 1 …: a leaf is free on either side, for `add` and `most` to walk on.
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
def add(tree: Usage, lower: int, upper: int, amount: int) -> None:
    """Add an amount at the points lower <= point < upper."""
    if lower >= upper or amount == 0:
        return
    greatest, added = tree
    half = len(greatest) // 2
    left, right = half + lower, half + upper + 1
    while left ^ right ^ 1:
        if not left & 1:
            greatest[left ^ 1] += amount
            added[left ^ 1] += amount
        if right & 1:
            greatest[right ^ 1] += amount
            added[right ^ 1] += amount
        left >>= 1
        right >>= 1
        greatest[left] = max(greatest[2 * left], greatest[2 * left + 1]) + added[left]
        greatest[right] = max(greatest[2 * right], greatest[2 * right + 1]) + added[right]
    while left > 1:
        left >>= 1
        greatest[left] = max(greatest[2 * left], greatest[2 * left + 1]) + added[left]


@kernel
def take(t: Tables, choice: NDArray[np.int16], tree: Usage, node: int, to: int) -> None:
    """Give a node another strategy, in the choice and in its tree."""
    first = t.first[node]
    add(tree, t.lower[node], t.upper[node], t.usage[first + to] - t.usage[first + choice[node]])
    choice[node] = to


@kernel
def most(tree: Usage, lower: int, upper: int) -> int:
    """The most that is used at a point lower <= point < upper; 0 if there is none."""
    if lower >= upper:
        return 0
    greatest, added = tree
    half = len(greatest) // 2
    left, right = half + lower, half + upper + 1
    of_left = of_right = -(2**62)
    while left ^ right ^ 1:
        if not left & 1:
            of_left = max(of_left, greatest[left ^ 1])
        if right & 1:
            of_right = max(of_right, greatest[right ^ 1])
        left >>= 1
        right >>= 1
        of_left += added[left]
        of_right += added[right]
    found = max(of_left, of_right)
    while left > 1:
        left >>= 1
        found += added[left]
    return found


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
