"""From chips that keep precedence to a partition under all rules, front to back. Kernels.

Nodes are placed in the graph's order, each on the chip that it was given (its wish) where nothing speaks against it: a
valid partition stays as it is. Otherwise on one drawn from its probabilities, among the chips up to its readers'
wishes; where none of those will do, on the first later one that does. What speaks against a chip:

- memory: it has no room, or what is left of the inner nodes of a doubled edge has none on that edge's two chips;
- a doubled edge, of which the node is an inner node: it belongs on the chip of the edge's source or on one other, which
  the first inner node to leave the source's chip decides, for the edge's reader too;
- an arrow that it would need, because that or another arrow had a detour then;
- a waiting node that would be left without a chip, by what `hwsim/mcm/solver/arrows.py` (`alive`) sees.

Where no chip is left the sweep goes back to the latest node that had a part in it and tries its others. Up to the place
of the failure wishes are no longer heard then, and chips that need no new arrow come first.

Source: this file's own (the going back is conflict-directed backjumping: Prosser, "Hybrid algorithms for the constraint
satisfaction problem", Computational Intelligence 1993). The MCM paper leaves repair to CP-SAT (section 4.2).
Deviations: of the nodes to blame only the two latest are kept, so a failed sweep proves nothing; and where chips remain
empty below used ones, the used ones move up in their order, which breaks no other rule (no-skip is asked of no step).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim import keys
from hwsim.jit import kernel
from hwsim.mcm.solver.arrows import BACK, alive, drawn_into, last
from hwsim.mcm.solver.draw import pick
from hwsim.mcm.solver.positions import Plan
from hwsim.mcm.solver.sweep_state import (
    ALLOWED,
    ASKS,
    LIMITER,
    OWED,
    TARGET,
    Bench,
    clear,
    enlist,
    note,
    rewind,
)


@kernel
def _blame(back: int, other: int, v: int, before: int) -> tuple[int, int]:
    """The two latest of the nodes to blame, all before a position, with node v."""
    if v >= before or v in (back, other):
        return back, other
    return (v, back) if v > back else (back, max(v, other))


@kernel
def _blame_join(
    start: NDArray[np.int64],
    into: NDArray[np.int64],
    limiter: NDArray[np.int64],
    v: int,
    before: int,
    back: int,
    other: int,
) -> tuple[int, int]:
    """As `_blame`, with what node v reads and the node that left it one chip."""
    for k in range(start[v], start[v + 1]):
        back, other = _blame(back, other, into[k], before)
    return _blame(back, other, limiter[v], before)


@kernel
def _holder(chip: NDArray[np.int64], weight: NDArray[np.int64], before: int, chips: int) -> int:
    """The latest node before a position that holds weights on one of these chips; -1: none."""
    v = before - 1
    while v >= 0 and not (weight[v] > 0 and chips >> chip[v] & 1):
        v -= 1
    return v


@kernel
def _pool(
    left: int, first: int, until: int, reads: int, arrows: NDArray[np.int64], block: int, careful: bool
) -> int:
    """Of the chips left those to draw from: up to `until`, or the first; `careful`: without new arrows if possible."""
    pool = left & ((1 << (max(first, until) + 1)) - 1)
    if careful:
        quiet = 0
        for c in range(first, arrows.shape[2]):
            if pool >> c & 1 and not reads & ~(1 << c) & ~arrows[block, BACK, c]:
                quiet |= 1 << c
        pool = quiet if quiet else pool
    return pool if pool else left & -left


@kernel
def swept(
    p: Plan,
    b: Bench,
    weights: NDArray[np.float32],
    wish: NDArray[np.int64],
    key: np.uint64,
    counter: int,
    limit: int,
) -> tuple[bool, int, int]:
    """A partition in `b.chip` [N] by position, near `wish` int64 [N], which keeps precedence.

    `weights` float32 [N, C] by node or [1, C]; at most `limit` placements are taken back.

    Returns:
        Whether one was found; the next counter; how many placements were taken back.
    """
    clear(p, b)
    trail, arrows, room, chip, weight = b.trail, b.arrows, b.room, b.chip, p.weight
    asks, allowed, limiter, tried = b.asks, b.allowed, b.limiter, b.tried
    target, owed, joins, slot = b.target, b.owed, b.joins, b.slot
    out_start, out, into_start, into = p.out_start, p.out, p.into_start, p.into
    i, t, block, failures, careful = 0, 0, 0, 0, 0
    while i < len(wish):
        reads, first = asks[i], max(last(asks[i]), 0)
        left = allowed[i] & ~tried[i] & ~((1 << first) - 1)
        enlist(joins, slot, i, 0)
        back, other, until = b.carried[i], -1, -1
        c, fits, t0, block0 = wish[i], False, t, block
        heard = i >= careful and left >> c & 1
        while left:
            if not heard:
                if until < 0:
                    until = p.chips - 1
                    for k in range(out_start[i], out_start[i + 1]):
                        until = min(until, wish[out[k]])
                pool = _pool(left, first, until, reads, arrows, block, i < careful)
                c = pick(
                    pool,
                    weights[min(p.node[i], len(weights) - 1)],
                    keys.uniform(key, np.uint64(counter)),
                    1.0,
                )
                counter += 1
            heard = False
            left &= ~(1 << c)
            fits = room[c] >= weight[i]
            if not fits:
                back, other = _blame(back, other, _holder(chip, weight, i, 1 << c), i)
            for k in range(p.inner_start[i], p.inner_start[i + 1] if fits else 0):
                e = p.inner[k]
                near, far, w = chip[p.source[e]], target[e], p.reader[e]
                if c != near and c != far:
                    fits = far < 0 and allowed[w] >> c & 1 == 1
                    if fits:
                        t = note(trail, t, TARGET, e, far)
                        t = note(trail, t, ALLOWED, w, allowed[w])
                        t = note(trail, t, LIMITER, w, limiter[w])
                        target[e], allowed[w], limiter[w], far = c, 1 << c, i, c
                if fits and weight[i]:
                    t = note(trail, t, OWED, e, owed[e])
                    owed[e] -= weight[i]
                    space = room[near] + (room[far] if far >= 0 else p.capacity) - weight[i]
                    if owed[e] > space:
                        fits = False
                        full = 1 << near | (1 << far if far >= 0 else 0)
                        back, other = _blame(back, other, _holder(chip, weight, i, full), i)
                if not fits:
                    back, other = _blame(back, other, p.source[e], i)
                    back, other = _blame(back, other, limiter[w], i)
                    break
            new = reads & ~(1 << c) & ~arrows[block, BACK, c] if p.triangle else 0
            if fits and new:
                fits = drawn_into(arrows, block, new, c)
                if not fits:
                    back, other = _blame(back, other, b.author[block], i)
                block += 1
                b.author[block] = i
            for k in range(out_start[i], out_start[i + 1] if fits else 0):
                w = out[k]
                if not asks[w] >> c & 1:
                    t = note(trail, t, ASKS, w, asks[w])
                    asks[w] |= 1 << c
                    enlist(joins, slot, w, asks[w])
            if p.triangle:
                ahead = joins[-1] if new else out_start[i + 1] - out_start[i]
                inner = p.inner_start[i + 1] - p.inner_start[i]
                dead = len(wish)
                for k in range(ahead + inner if fits else 0):
                    if k >= ahead:
                        w = p.reader[p.inner[p.inner_start[i] + k - ahead]]
                    else:
                        w = joins[k] if new else out[out_start[i] + k]
                    if asks[w] and w < dead and not alive(arrows, block, asks[w], allowed[w]):
                        dead = w
                if dead < len(wish):
                    fits = False
                    back, other = _blame(back, other, b.author[block0], i)
                    back, other = _blame_join(into_start, into, limiter, dead, i, back, other)
            if fits:
                break
            if t > t0:
                rewind(trail, asks, allowed, limiter, target, owed, joins, slot, t, t0)
            tried[i] |= 1 << c
            t, block = t0, block0
        if fits:
            chip[i] = c
            room[c] -= weight[i]
            b.mark[i], b.block[i] = t0, block0
            i += 1
            tried[i], b.carried[i] = 0, -1
            continue
        back, other = _blame_join(into_start, into, limiter, i, i, back, other)
        failures += 1
        careful = max(careful, i + 1)
        if failures > limit or back < 0:
            return False, counter, failures
        rewind(trail, asks, allowed, limiter, target, owed, joins, slot, t, b.mark[back])
        t, block = b.mark[back], b.block[back]
        for v in range(back, i + 1):
            enlist(joins, slot, v, asks[v])
            if v < i:
                room[chip[v]] += weight[v]
        i = back
        tried[i] |= 1 << chip[i]
        b.carried[i] = max(b.carried[i], other)
    if p.no_skip:
        _closed_up(chip, p.chips)
    return True, counter, failures


@kernel
def _closed_up(chip: NDArray[np.int64], chips: int) -> None:
    """Empty chips before one in use are left out; the order of the others stays."""
    number = np.zeros(chips, np.int64)
    for c in chip:
        number[c] = 1
    total = 0
    for c in range(chips):
        used = number[c]
        number[c] = total
        total += used
    for i in range(len(chip)):
        chip[i] = number[chip[i]]
