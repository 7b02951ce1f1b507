"""The state of a sweep (`hwsim/mcm/solver/sweep.py`): what is placed, what that leaves to others, and how to take it
back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.solver.positions import Plan

ASKS, ALLOWED, LIMITER, TARGET, OWED = range(5)
"""What an entry of the trail is about: the array of `Bench` of that name."""


class Bench(NamedTuple):
    """Room for a sweep over N positions, D doubled edges and C chips.

    Attributes:
        chip: int64 [N], of the nodes that are placed.
        asks: int64 [N], chips of the nodes that a node reads, as far as placed.
        allowed: int64 [N], chips that bounds and doubled edges leave.
        limiter: int64 [N], the node that left a node one chip (-1: none).
        tried: int64 [N + 1], chips that are of no use where the nodes before are as they are.
        mark, block: int64 [N], sizes of trail and arrows before a node was placed.
        author: int64 [?], the node that drew a block of arrows (-1: none).
        carried: int64 [N + 1], the latest other node to blame when a node was gone back to (-1: none).
        joins: int64 [N + 1], waiting nodes that read more than one chip; how many, at the end.
        slot: int64 [N], where a node is among the joins (-1: it is none).
        target: int64 [D], the one chip besides the source's for inner nodes (-1: none yet).
        owed: int64 [D], bytes of inner nodes that are not placed.
        trail: int64 [?, 3], (what, where, what was there).
        arrows: int64 [?, 4, C], a block for each placement that drew new ones (`hwsim/mcm/solver/arrows.py`).
        room: int64 [C], bytes.
    """

    chip: NDArray[np.int64]
    asks: NDArray[np.int64]
    allowed: NDArray[np.int64]
    limiter: NDArray[np.int64]
    tried: NDArray[np.int64]
    mark: NDArray[np.int64]
    block: NDArray[np.int64]
    author: NDArray[np.int64]
    carried: NDArray[np.int64]
    joins: NDArray[np.int64]
    slot: NDArray[np.int64]
    target: NDArray[np.int64]
    owed: NDArray[np.int64]
    trail: NDArray[np.int64]
    arrows: NDArray[np.int64]
    room: NDArray[np.int64]


@kernel
def bench(p: Plan) -> Bench:
    """Room for sweeps over a graph."""
    n, d, c = len(p.node), len(p.source), p.chips
    blocks = c * (c - 1) // 2 + 2
    return Bench(
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n + 1, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.full(blocks, -1, np.int64),
        np.zeros(n + 1, np.int64),
        np.zeros(n + 1, np.int64),
        np.zeros(n, np.int64),
        np.zeros(d, np.int64),
        np.zeros(d, np.int64),
        np.zeros((len(p.out) + len(p.inner) + 3 * d + 1, 3), np.int64),
        np.zeros((blocks, 4, c), np.int64),
        np.zeros(c, np.int64),
    )


@kernel
def clear(p: Plan, b: Bench) -> None:
    """Nothing is placed."""
    for v in range(len(p.node)):
        last = (1 << (p.latest[v] + 1)) - 1
        b.allowed[v] = last & ~((1 << p.earliest[v]) - 1)
        b.asks[v], b.tried[v], b.limiter[v], b.carried[v], b.slot[v] = 0, 0, -1, -1, -1
    b.joins[-1] = 0
    for e in range(len(p.source)):
        b.target[e], b.owed[e] = -1, p.inner_weight[e]
    for c in range(p.chips):
        b.room[c] = p.capacity
        for row in range(4):
            b.arrows[0, row, c] = 0


@kernel
def note(trail: NDArray[np.int64], size: int, what: int, where: int, old: int) -> int:
    """The size of the trail after another entry."""
    trail[size, 0] = what
    trail[size, 1] = where
    trail[size, 2] = old
    return size + 1


@kernel
def enlist(joins: NDArray[np.int64], slot: NDArray[np.int64], v: int, asks: int) -> None:
    """Node v is one of the joins where it asks for more than one chip, and else none."""
    at = slot[v]
    listed = asks & (asks - 1) != 0
    if listed and at < 0:
        size = joins[-1]
        joins[size], slot[v] = v, size
        joins[-1] = size + 1
    elif not listed and at >= 0:
        size = joins[-1] - 1
        other = joins[size]
        joins[at], slot[other] = other, at
        slot[v] = -1
        joins[-1] = size


@kernel
def rewind(
    trail: NDArray[np.int64],
    asks: NDArray[np.int64],
    allowed: NDArray[np.int64],
    limiter: NDArray[np.int64],
    target: NDArray[np.int64],
    owed: NDArray[np.int64],
    joins: NDArray[np.int64],
    slot: NDArray[np.int64],
    size: int,
    mark: int,
) -> None:
    """Take back what the trail of this size says after `mark`; arrays as in `Bench`, of which a call takes its time."""
    for t in range(size - 1, mark - 1, -1):
        what, at, old = trail[t, 0], trail[t, 1], trail[t, 2]
        if what == ASKS:
            asks[at] = old
            enlist(joins, slot, at, old)
        elif what == ALLOWED:
            allowed[at] = old
        elif what == LIMITER:
            limiter[at] = old
        elif what == TARGET:
            target[at] = old
        else:
            owed[at] = old
