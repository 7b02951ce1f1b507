"""Chips for all nodes that keep the acyclic rule: SAMPLE and FIX where only precedence has to be propagated. Kernels.

Source: MCM paper, section 4.2, algorithms 1 (SAMPLE) and 2 (FIX): one node at a time, in a random order, from its
probabilities restricted to its domain. For precedence alone a domain is an interval, its ends follow from those of the
neighbours, and no decision has ever to be taken back. `hwsim/mcm/solver/sweep.py` then sees to the other rules.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim import keys
from hwsim.jit import kernel
from hwsim.mcm.solver.positions import Plan


@kernel
def pick(domain: int, weights: NDArray[np.float32], where: float, fall: float) -> int:
    """A chip of a non-empty domain, in proportion to its weights [C]; equally likely where they have none there.

    `where` is uniform on [0, 1). With `fall` below 1 each chip's weight is that of the one before it in the domain,
    times `fall`, the more.
    """
    total, size, scale = 0.0, 0.0, 1.0
    for c in range(len(weights)):
        if domain >> c & 1:
            total += weights[c] * scale
            size += scale
            scale *= fall
    even = not total > 0.0
    left, scale, chosen = where * (size if even else total), 1.0, -1
    for c in range(len(weights)):
        if domain >> c & 1:
            share = scale if even else weights[c] * scale
            scale *= fall
            if share > 0.0:
                chosen = c
                left -= share
                if left < 0.0:
                    break
    return chosen


@kernel
def shuffle(order: NDArray[np.int64], key: np.uint64, counter: int) -> int:
    """A new random order in place; returns the next free counter."""
    for i in range(len(order) - 1, 0, -1):
        j = int(keys.uniform(key, np.uint64(counter)) * (i + 1))
        counter += 1
        order[i], order[j] = order[j], order[i]
    return counter


@kernel
def _after(
    start: NDArray[np.int64],
    out: NDArray[np.int64],
    lo: NDArray[np.int64],
    v: int,
    stack: NDArray[np.int64],
) -> None:
    """No node that v leads to is earlier than v's first chip."""
    c = lo[v]
    stack[0], size = v, 1
    while size:
        size -= 1
        u = stack[size]
        for k in range(start[u], start[u + 1]):
            w = out[k]
            if lo[w] < c:
                lo[w] = c
                stack[size] = w
                size += 1


@kernel
def _before(
    start: NDArray[np.int64],
    into: NDArray[np.int64],
    hi: NDArray[np.int64],
    v: int,
    stack: NDArray[np.int64],
) -> None:
    """No node that leads to v is later than v's last chip."""
    c = hi[v]
    stack[0], size = v, 1
    while size:
        size -= 1
        u = stack[size]
        for k in range(start[u], start[u + 1]):
            w = into[k]
            if hi[w] > c:
                hi[w] = c
                stack[size] = w
                size += 1


@kernel
def drawn(
    p: Plan,
    weights: NDArray[np.float32],
    wished: NDArray[np.int16],
    order: NDArray[np.int64],
    key: np.uint64,
    counter: int,
    lo: NDArray[np.int64],
    stack: NDArray[np.int64],
) -> int:
    """Chips int64 [N] by position into `lo`, each edge towards the same or a later one; returns the next counter.

    A chip without room for a node is taken only where all of its interval has none.

    Args:
        p: the graph.
        weights: float32 [N, C] by node, or [1, C] for all.
        wished: int16 [N] by node for FIX (-1: no wish); [0] for SAMPLE.
        order: int64 [N], the nodes in the order of decisions.
        key, counter: random numbers.
        lo: int64 [N], room for the answer.
        stack: int64 [3, N + 1], room.
    """
    n = len(order)
    hi, room = stack[1], np.full(p.chips, p.capacity)
    last_row = len(weights) - 1
    for i in range(n):
        lo[i], hi[i] = p.earliest[i], p.latest[i]
        stack[2, i] = 0
    for second in range(2 if len(wished) else 1):
        for v in order:
            i = p.order[v]
            if stack[2, i]:
                continue
            size = p.weight[i]
            if len(wished) and not second:
                c = int(wished[v])
                if c < lo[i] or c > hi[i] or room[c] < size:
                    continue
            elif lo[i] == hi[i]:
                c = lo[i]
            else:
                span = (1 << (hi[i] + 1)) - (1 << lo[i])
                if size > 0:
                    roomy = span
                    for k in range(lo[i], hi[i] + 1):
                        if room[k] < size:
                            roomy ^= 1 << k
                    span = roomy if roomy else span
                where = keys.uniform(key, np.uint64(counter))
                counter += 1
                c = pick(span, weights[min(v, last_row)], where, 1.0)
            stack[2, i] = 1
            room[c] -= size
            if lo[i] < c:
                lo[i] = c
                _after(p.out_start, p.out, lo, i, stack[0])
            if hi[i] > c:
                hi[i] = c
                _before(p.into_start, p.into, hi, i, stack[0])
    return counter
