"""The baseline of every search: nodes in order, each the cheapest choice that what is decided and the limit allow.

Source: maintained arc consistency (Sabin, Freuder: Contradicting conventional wisdom in constraint satisfaction, ECAI
1994), without backtracking: a strategy is open while each neighbour has an open one that goes with it.

Deviations: a removal that would leave a node no strategy is not made, so that a choice always comes out; what it breaks
is left to repair. Parallel edges are looked at one by one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl_shard.cost import pair_at, take, totals, usage_of
from egrl_shard.repair import repaired
from egrl_shard.sharding import FORBIDDEN_FROM
from egrl_shard.tables import Tables
from hwsim.jit import kernel
from hwsim.nnpi.placer import Usage, most


@kernel
def _supported(t: Tables, edge: int, node: int, strategy: int, other: int, open: NDArray[np.bool_]) -> bool:
    """Whether an open strategy of the other node of an edge goes with a strategy of `node`."""
    wide = t.first[t.edge_nodes[edge, 1] + 1] - t.first[t.edge_nodes[edge, 1]]
    for s in range(t.first[other + 1] - t.first[other]):
        if open[t.first[other] + s]:
            place = strategy * wide + s if t.edge_nodes[edge, 0] == node else s * wide + strategy
            if t.edge_cost[t.edge_first[edge] + place] < FORBIDDEN_FROM:
                return True
    return False


@kernel
def _revise(t: Tables, edge: int, node: int, other: int, open: NDArray[np.bool_]) -> bool:
    """Close strategies of a node that no open one of the other goes with, unless all would be; whether any was."""
    first, count = t.first[node], t.first[node + 1] - t.first[node]
    left, unsupported = 0, np.zeros(count, np.bool_)
    for s in range(count):
        if open[first + s]:
            unsupported[s] = not _supported(t, edge, node, s, other, open)
            left += not unsupported[s]
    if left == 0 or not unsupported.any():
        return False
    for s in range(count):
        open[first + s] &= not unsupported[s]
    return True


@kernel
def _least(t: Tables, node: int, open: NDArray[np.bool_]) -> int:
    """The open strategy of a node that uses the least."""
    best = -1
    for s in range(t.first[node + 1] - t.first[node]):
        at = t.first[node] + s
        if open[at] and (best < 0 or t.usage[at] < t.usage[t.first[node] + best]):
            best = s
    return best


@kernel
def _propagate(
    t: Tables,
    begin: NDArray[np.int64],
    open: NDArray[np.bool_],
    least: NDArray[np.int16],
    tree: Usage,
) -> None:
    """Close what has no support any more, from the nodes `begin` on; `tree` is kept that of `least`."""
    nodes = len(least)
    waits = np.zeros(nodes, np.bool_)
    queue = np.empty(nodes, np.int64)  # a ring: no node waits twice
    head, length = 0, 0
    for node in begin:
        queue[length] = node
        waits[node] = True
        length += 1
    while length:
        node = queue[head]
        head, length = (head + 1) % nodes, length - 1
        waits[node] = False
        for k in range(t.near_first[node], t.near_first[node + 1]):
            edge = t.near[k]
            other = t.edge_nodes[edge, 0] + t.edge_nodes[edge, 1] - node
            if not _revise(t, edge, other, node, open):
                continue
            if not open[t.first[other] + least[other]]:
                take(t, least, tree, other, _least(t, other, open))
            if not waits[other]:
                queue[(head + length) % nodes] = other
                waits[other] = True
                length += 1


@kernel
def greedy(t: Tables, price: float) -> NDArray[np.int16]:
    """A choice int16 [N]: node by node the strategy that costs the least with the edges to nodes before it.

    Only open strategies count, and of them those that fit the limit where every later node uses its least; where none
    does, the one that uses the least. `price` is what a unit of usage at a point of time costs besides.
    """
    nodes = len(t.lower)
    open = t.cost < FORBIDDEN_FROM
    least = np.empty(nodes, np.int16)
    for n in range(nodes):
        least[n] = _least(t, n, open)
    tree = usage_of(t, least)
    _propagate(t, np.arange(nodes), open, least, tree)
    for n in range(nodes):
        lower, upper, first = t.lower[n], t.upper[n], t.first[n]
        room = t.limit - most(tree, lower, upper) + t.usage[first + least[n]]
        best, lowest = least[n], np.inf
        for s in range(t.first[n + 1] - first):
            if not open[first + s] or (upper > lower and t.usage[first + s] > room):
                continue
            cost = np.float64(t.cost[first + s]) + price * (upper - lower) * t.usage[first + s]
            for k in range(t.near_first[n], t.near_first[n + 1]):
                at, other = pair_at(t, t.near[k], n, s, least)
                if other < n:  # what stands in `least` for a node before this one is its choice
                    cost += t.edge_cost[at]
            if cost < lowest:
                best, lowest = s, cost
        take(t, least, tree, n, best)
        shrinks = False
        for s in range(t.first[n + 1] - first):
            shrinks |= open[first + s] and s != best
            open[first + s] = s == best
        if shrinks:
            _propagate(t, np.array([n]), open, least, tree)
    return least


RULE = "the nodes in order, each its least cost"
PRICES = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)
"""Of usage, in turn, until a choice is valid; at 1 the mean usage of a node costs as much as the mean strategy."""


def is_valid(t: Tables, choice: NDArray[np.int16]) -> NDArray[np.bool_]:
    """bool [B]: which choices [B, N] break nothing."""
    _, forbidden, peak = totals(t, choice)
    valid: NDArray[np.bool_] = (forbidden == 0) & (peak <= t.limit)
    return valid


def choose(t: Tables) -> NDArray[np.int16]:
    """The choice int16 [N] of the first price at which `greedy`, or what is repaired of it, is valid.

    If there is none it is the repaired one of the last price, and breaks something.
    """
    allowed = t.cost[t.cost < FORBIDDEN_FROM]
    held = np.float64(t.usage.mean()) * max(1.0, float((t.upper - t.lower).mean()))
    unit = max(1.0, float(allowed.mean())) / max(1.0, held)
    choice = np.zeros(len(t.lower), np.int16)
    for price in PRICES:
        choice = greedy(t, price * unit)
        choice = repaired(t, choice[None], choice, False)[0]
        if is_valid(t, choice[None])[0]:
            break
    return choice
