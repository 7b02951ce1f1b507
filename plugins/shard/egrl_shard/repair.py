"""Choices made valid: forbidden pairs first, then memory; what is left gives way to the baseline.

Mending ends, since each change of a strategy leaves fewer forbidden costs, or as many and less usage. Giving way ends
with a valid choice if the baseline is one: nodes only ever go to the baseline's strategies; while a cost is forbidden
one of its nodes does, and while a point of time is above the limit a node in use there that uses more than in the
baseline.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl_shard.cost import cost_of, pair_at, take, totals, usage_of
from egrl_shard.sharding import FORBIDDEN_FROM
from egrl_shard.tables import Tables
from hwsim.jit import kernel
from hwsim.nnpi.placer import Usage, most


@kernel
def _in_conflict(t: Tables, choice: NDArray[np.int16], node: int) -> bool:
    """Whether a node's strategy, or a pair that it is in, is forbidden."""
    if t.cost[t.first[node] + choice[node]] >= FORBIDDEN_FROM:
        return True
    for k in range(t.near_first[node], t.near_first[node + 1]):
        at, _ = pair_at(t, t.near[k], node, choice[node], choice)
        if t.edge_cost[at] >= FORBIDDEN_FROM:
            return True
    return False


@kernel
def best_answer(t: Tables, choice: NDArray[np.int16], tree: Usage, n: int) -> tuple[int, bool]:
    """The strategy of a node with the fewest forbidden costs, then the least cost, while other nodes keep theirs;
    and whether it has fewer than now. It fits the limit or uses no more than now; ties are left as they are."""
    lower, upper, first = t.lower[n], t.upper[n], t.first[n]
    held = t.usage[first + choice[n]]
    room = max(held, t.limit - most(tree, lower, upper) + held)
    lowest, now = cost_of(t, choice, n, choice[n])
    best, fewest = int(choice[n]), now
    for s in range(t.first[n + 1] - first):
        if upper > lower and t.usage[first + s] > room:
            continue
        cost, forbidden = cost_of(t, choice, n, s)
        if forbidden < fewest or (forbidden == fewest and cost < lowest):
            best, lowest, fewest = s, cost, forbidden
    return best, fewest < now


@kernel
def _take_best_answers(t: Tables, choice: NDArray[np.int16], tree: Usage) -> bool:
    """Give nodes in conflict, in order, their best answers, where fewer costs are forbidden then; whether any was."""
    changed = False
    for n in range(len(choice)):
        if not _in_conflict(t, choice, n):
            continue
        best, fewer = best_answer(t, choice, tree, n)
        if fewer:  # of as many forbidden costs as now none is taken: that could go on for ever
            take(t, choice, tree, n, best)
            changed = True
    return changed


@kernel
def _cheapest_relief(t: Tables, choice: NDArray[np.int16], n: int, over: int) -> tuple[float, int]:
    """What a unit of usage less at a point above the limit costs at least, and by which strategy; -1: by none.

    `over` is how many such points the node is in use at.
    """
    first = t.first[n]
    held = t.usage[first + choice[n]]
    now, forbidden_now = cost_of(t, choice, n, choice[n])
    cheapest, best = np.inf, -1
    for s in range(t.first[n + 1] - first):
        less = held - t.usage[first + s]
        if less <= 0:
            continue
        cost, forbidden = cost_of(t, choice, n, s)
        price = (np.float64(cost) - np.float64(now)) / (np.float64(less) * over)
        if forbidden <= forbidden_now and price < cheapest:
            cheapest, best = price, s
    return cheapest, best


@kernel
def _relieve(t: Tables, choice: NDArray[np.int16], tree: Usage) -> bool:
    """While the limit is broken, give nodes in use a strategy that uses less, the cheapest change first.

    Returns whether any was changed.
    """
    if most(tree, 0, t.points) <= t.limit:
        return False
    nodes = len(choice)
    above = np.zeros(t.points + 1, np.int64)  # how many points before each are above the limit
    for point in range(t.points):
        above[point + 1] = above[point] + (most(tree, point, point + 1) > t.limit)
    price, to = np.full(nodes, np.inf), np.full(nodes, -1, np.int64)
    for n in range(nodes):
        over = above[t.upper[n]] - above[t.lower[n]]
        if over > 0:
            price[n], to[n] = _cheapest_relief(t, choice, n, over)
    changed = False
    for n in np.argsort(price, kind="mergesort"):
        if to[n] < 0:
            break
        if most(tree, t.lower[n], t.upper[n]) <= t.limit:
            continue
        # Neighbours have changed since it was priced: it must still forbid no more than what it has.
        _, forbidden = cost_of(t, choice, n, to[n])
        _, forbidden_now = cost_of(t, choice, n, choice[n])
        if forbidden <= forbidden_now:
            take(t, choice, tree, n, to[n])
            changed = True
    return changed


@kernel
def _mend(t: Tables, choice: NDArray[np.int16], tree: Usage) -> None:
    """Settle and relieve in place until neither changes anything; what is valid stays as it is."""
    changes = True
    while changes:
        answered = _take_best_answers(t, choice, tree)
        changes = _relieve(t, choice, tree) or answered


@kernel
def _yield_pairs(t: Tables, choice: NDArray[np.int16], to: NDArray[np.int16], tree: Usage) -> bool:
    """Set nodes in conflict, in order, to the strategies of `to`; whether any was."""
    changed = False
    for n in range(len(choice)):
        if choice[n] != to[n] and _in_conflict(t, choice, n):
            take(t, choice, tree, n, to[n])
            changed = True
    return changed


@kernel
def _yield_memory(t: Tables, choice: NDArray[np.int16], to: NDArray[np.int16], tree: Usage) -> bool:
    """Set nodes that use more than in `to` where the limit is broken to its strategies; whether any was."""
    changed = False
    for n in range(len(choice)):
        less = t.usage[t.first[n] + choice[n]] - t.usage[t.first[n] + to[n]]
        if less > 0 and most(tree, t.lower[n], t.upper[n]) > t.limit:
            take(t, choice, tree, n, to[n])
            changed = True
    return changed


@kernel
def repaired(
    t: Tables, choice: NDArray[np.int16], baseline: NDArray[np.int16], gives_way: bool
) -> NDArray[np.int16]:
    """Choices int16 [B, N] made valid; those that are stay as they are.

    Where `gives_way` is true the baseline int16 [N] is valid, and so is whatever is returned; else it may not be.
    """
    out = choice.copy()
    for b in range(len(out)):
        _, forbidden, peak = totals(t, out[b : b + 1])
        if forbidden[0] == 0 and peak[0] <= t.limit:
            continue
        row = out[b]
        tree = usage_of(t, row)
        _mend(t, row, tree)
        while gives_way and (_yield_pairs(t, row, baseline, tree) or _yield_memory(t, row, baseline, tree)):
            pass
    return out
