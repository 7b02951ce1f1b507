"""A random change of a choice that others follow.

Either a node takes another of its strategies; then its neighbours, theirs, and so on take their best answers, as far
as the limit allows: with a price on every pair, and many pairs forbidden, a node seldom changes well by itself. Or,
now and then, a run of nodes take their best answers in order, which is never dearer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl_shard.cost import cost_of, take, usage_of
from egrl_shard.repair import best_answer
from egrl_shard.sharding import FORBIDDEN_FROM
from egrl_shard.tables import Tables
from hwsim.jit import kernel
from hwsim.keys import uniform

SWEEPS = 0.05
"""Share of the moves in which a run of nodes answers."""
ENTRANTS = 8
"""Nodes of which every second move changes the one that costs the most with its edges; the others change any."""
TRIES = 20
"""Draws of a node that has two strategies or more, and of a strategy that is not forbidden."""
FOLLOWERS = 30
"""Changes that a move is made of, at most."""


@kernel
def _draw(key: np.uint64, counter: int, count: int) -> int:
    return min(int(uniform(key, np.uint64(counter)) * count), count - 1)


@kernel
def _entrant(t: Tables, choice: NDArray[np.int16], key: np.uint64) -> int:
    """The node that changes; -1 if none with two strategies was drawn."""
    entrants = ENTRANTS if uniform(key, np.uint64(0)) < 0.5 else 1
    found, dearest = -1, -1.0
    for k in range(1, 1 + TRIES):
        node = _draw(key, k, len(choice))
        if t.first[node + 1] - t.first[node] < 2:
            continue
        cost, forbidden = cost_of(t, choice, node, choice[node])
        paid = np.float64(cost) + np.float64(forbidden) * FORBIDDEN_FROM
        if paid > dearest:
            found, dearest = node, paid
        entrants -= 1
        if entrants == 0:
            break
    return found


@kernel
def _sweep(t: Tables, choice: NDArray[np.int16], begin: int, end: int) -> None:
    """The nodes begin <= n < end take their best answers in place, one after the other."""
    tree = usage_of(t, choice)
    for n in range(begin, end):
        answer, _ = best_answer(t, choice, tree, n)
        if answer != choice[n]:
            take(t, choice, tree, n, answer)


@kernel
def moved(t: Tables, choice: NDArray[np.int16], key: np.uint64) -> NDArray[np.int16]:
    """A copy of a choice int16 [N] after one move; the choice if nothing that is allowed was drawn."""
    out = choice.copy()
    if uniform(key, np.uint64(2 * TRIES + 1)) < SWEEPS:
        # As often 1 to 10 nodes as 10 to 100 or 100 to 1,000.
        run = int(len(out) ** uniform(key, np.uint64(2 * TRIES + 2)))
        begin = _draw(key, 2 * TRIES + 3, len(out))
        _sweep(t, out, begin, min(begin + run, len(out)))
        return out
    node = _entrant(t, out, key)
    if node < 0:
        return out
    first, count = t.first[node], t.first[node + 1] - t.first[node]
    to = out[node]
    for k in range(TRIES):
        other = (out[node] + 1 + _draw(key, 1 + TRIES + k, count - 1)) % count
        if t.cost[first + other] < FORBIDDEN_FROM:
            to = other
            break
    if to == out[node]:
        return out
    tree = usage_of(t, out)
    changed = np.empty(FOLLOWERS, np.int64)
    changed[0], length, at = node, 1, 0
    seen = np.zeros(len(out), np.bool_)
    seen[node] = True
    take(t, out, tree, node, to)
    while at < length:
        node = changed[at]
        at += 1
        for k in range(t.near_first[node], t.near_first[node + 1]):
            edge = t.near[k]
            other = t.edge_nodes[edge, 0] + t.edge_nodes[edge, 1] - node
            if seen[other] or length == FOLLOWERS:
                continue
            seen[other] = True
            answer, _ = best_answer(t, out, tree, other)
            if answer != out[other]:
                take(t, out, tree, other, answer)
                changed[length] = other
                length += 1
    return out
