"""From chips that keep precedence to a partition under all rules, front to back. Kernels.

Each node keeps the chip that it was given where nothing speaks against it, so a valid partition stays as it is.
Source: this file's own; the MCM paper leaves repair to CP-SAT (section 4.2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim import keys
from hwsim.jit import kernel
from hwsim.mcm.arrows import BACK, alive, drawn_into, last
from hwsim.mcm.draw import pick
from hwsim.mcm.plan import Plan

JUMP = True
ASKS, ALLOWED, TARGET, OWED = range(4)


class Bench(NamedTuple):
    """Room for a sweep over N positions, D doubled edges and C chips.

    Attributes:
        chip: int64 [N], of the nodes that are placed.
        asks: int64 [N], chips of the nodes that a node reads, as far as placed.
        allowed: int64 [N], chips that doubled edges leave.
        tried: int64 [N], chips that were taken back where the nodes before are as they are.
        mark, block: int64 [N], sizes of trail and arrows before a node was placed.
        author: int64 [?], the node that drew a block of arrows (-1: none).
        limiter: int64 [N], the node that left a node one chip (-1: none).
        carried: int64 [N], the latest other node to blame when a node was gone back to.
        joins: int64 [N + 1], waiting nodes that read more than one chip; how many, at the end.
        slot: int64 [N], where a node is among the joins (-1: it is none).
        target: int64 [D], the one chip besides the source's for inner nodes (-1: none yet).
        owed: int64 [D], bytes of inner nodes that are not placed.
        trail: int64 [?, 3], (what, where, what was there).
        arrows: int64 [?, 4, C], a block for each placement that drew new ones.
        room: int64 [C], bytes.
    """

    chip: NDArray[np.int64]
    asks: NDArray[np.int64]
    allowed: NDArray[np.int64]
    tried: NDArray[np.int64]
    mark: NDArray[np.int64]
    block: NDArray[np.int64]
    author: NDArray[np.int64]
    limiter: NDArray[np.int64]
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
    return Bench(
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n + 1, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.full(c * (c - 1) // 2 + 2, -1, np.int64),
        np.full(n, -1, np.int64),
        np.full(n + 1, -1, np.int64),
        np.zeros(n + 1, np.int64),
        np.zeros(n, np.int64),
        np.zeros(d, np.int64),
        np.zeros(d, np.int64),
        np.zeros((len(p.out) + len(p.inner) + 2 * d + 1, 3), np.int64),
        np.zeros((c * (c - 1) // 2 + 2, 4, c), np.int64),
        np.zeros(c, np.int64),
    )


@kernel
def _list(joins: NDArray[np.int64], slot: NDArray[np.int64], w: int, listed: bool) -> None:
    """Node w is one of the joins, or is none."""
    at = slot[w]
    if listed and at < 0:
        size = joins[-1]
        joins[size], slot[w] = w, size
        joins[-1] = size + 1
    elif not listed and at >= 0:
        size = joins[-1] - 1
        other = joins[size]
        joins[at], slot[other] = other, at
        slot[w] = -1
        joins[-1] = size


@kernel
def _undo(
    trail: NDArray[np.int64],
    asks: NDArray[np.int64],
    allowed: NDArray[np.int64],
    target: NDArray[np.int64],
    owed: NDArray[np.int64],
    joins: NDArray[np.int64],
    slot: NDArray[np.int64],
    size: int,
    mark: int,
) -> None:
    """Take back what the trail of this size says after `mark`."""
    for t in range(size - 1, mark - 1, -1):
        what, at, old = trail[t, 0], trail[t, 1], trail[t, 2]
        if what == ASKS:
            asks[at] = old
            _list(joins, slot, at, old & (old - 1) != 0)
        elif what == ALLOWED:
            allowed[at] = old
        elif what == TARGET:
            target[at] = old
        else:
            owed[at] = old


@kernel
def _blame(last: int, other: int, v: int) -> tuple[int, int]:
    """The two latest of the nodes to blame."""
    if v > last:
        return v, last
    return last, v if v < last and v > other else other


@kernel
def _blame_read(start: NDArray[np.int64], into: NDArray[np.int64], v: int, before: int, last: int, other: int) -> tuple[int, int]:
    """The two latest, with what node v reads before a position."""
    for k in range(start[v], start[v + 1]):
        if into[k] < before:
            last, other = _blame(last, other, into[k])
    return last, other


@kernel
def _heavy(chip: NDArray[np.int64], weight: NDArray[np.int64], before: int, chips: int) -> int:
    """The latest node before a position that holds weights on one of these chips; -1: none."""
    v = before - 1
    while v >= 0 and not (chips >> chip[v] & 1 and weight[v] > 0):
        v -= 1
    return v


@kernel
def swept(
    p: Plan,
    b: Bench,
    weights: NDArray[np.float32],
    wish: NDArray[np.int64],
    key: np.uint64,
    counter: int,
    fall: float,
    limit: int,
) -> tuple[bool, int, int]:
    """A partition in `b.chip` [N] by position, near `wish` [N], which keeps precedence.

    Returns:
        Whether one was found; the next counter; how many placements were taken back, at most `limit`.
    """
    n, last_row = len(wish), len(weights) - 1
    trail, arrows, room, chip = b.trail, b.arrows, b.room, b.chip
    asks, allowed, tried, target, owed = b.asks, b.allowed, b.tried, b.target, b.owed
    joins, slot, mark, limiter = b.joins, b.slot, b.mark, b.limiter
    asks[:], tried[:] = 0, 0
    for v in range(n):
        allowed[v] = (1 << (p.latest[v] + 1)) - (1 << p.earliest[v])
    slot[:], target[:], room[:] = -1, -1, p.capacity
    owed[:], joins[-1] = p.inner_weight, 0
    arrows[0] = 0
    i, t, block, failures, careful = 0, 0, 0, 0, 0
    while i < n:
        reads, size, row = asks[i], p.weight[i], min(p.node[i], last_row)
        first = max(last(reads), 0)
        left = allowed[i] & ~tried[i] & ~((1 << first) - 1)
        _list(joins, slot, i, False)
        window, quiet, fresh, placed, t0, block0 = 0, 0, True, False, t, block
        c = wish[i]
        back, other = b.carried[i], -1
        while left:
            if not fresh or i < careful or not left >> c & 1:
                if not window:
                    until = p.chips - 1
                    for k in range(p.out_start[i], p.out_start[i + 1]):
                        until = min(until, wish[p.out[k]])
                    window = (1 << (max(first, until) + 1)) - 1
                    if i < careful:
                        for d in range(first, p.chips):
                            if not reads & ~(1 << d) & ~arrows[block, BACK, d]:
                                quiet |= 1 << d
                pool = left & quiet & window
                if not pool:
                    pool = left & window
                if not pool:
                    pool = left & -left
                where = keys.uniform(key, np.uint64(counter))
                counter += 1
                c = pick(pool, weights[row], where, fall)
            fresh = False
            left &= ~(1 << c)
            fits = room[c] >= size
            if not fits:
                back, other = _blame(back, other, _heavy(chip, p.weight, i, 1 << c))
            for k in range(p.inner_start[i], p.inner_start[i + 1] if fits else 0):
                e = p.inner[k]
                near, far = chip[p.source[e]], target[e]
                if c != near and c != far:
                    w = p.reader[e]
                    if far >= 0 or not allowed[w] >> c & 1:
                        fits = False
                        back, other = _blame(back, other, p.source[e])
                        back, other = _blame(back, other, limiter[w])
                        break
                    trail[t, 0], trail[t, 1], trail[t, 2] = TARGET, e, -1
                    trail[t + 1, 0], trail[t + 1, 1], trail[t + 1, 2] = ALLOWED, w, allowed[w]
                    t += 2
                    target[e], allowed[w], far = c, 1 << c, c
                    limiter[w] = i
                if size > 0:
                    trail[t, 0], trail[t, 1], trail[t, 2] = OWED, e, owed[e]
                    t += 1
                    owed[e] -= size
                if owed[e] > room[near] + (room[far] if far >= 0 else p.capacity) - size:
                    fits = False
                    back, other = _blame(back, other, _heavy(chip, p.weight, i, 1 << near | (1 << far if far >= 0 else 0)))
                    back, other = _blame(back, other, p.source[e])
                    if limiter[p.reader[e]] < i: back, other = _blame(back, other, limiter[p.reader[e]])
                    break
            if fits and p.triangle:
                new = reads & ~(1 << c) & ~arrows[block, BACK, c]
                if new:
                    back, other = _blame(back, other, b.author[block])
                    fits = drawn_into(arrows, block, new, c)
                    block += 1
                    b.author[block] = i
                for k in range(p.out_start[i], p.out_start[i + 1] if fits else 0):
                    w = p.out[k]
                    if not asks[w] >> c & 1:
                        trail[t, 0], trail[t, 1], trail[t, 2] = ASKS, w, asks[w]
                        t += 1
                        asks[w] |= 1 << c
                        _list(joins, slot, w, asks[w] & (asks[w] - 1) != 0)
                        if not new and not alive(arrows, block, asks[w], allowed[w]):
                            fits = False
                            back, other = _blame(back, other, b.author[block])
                            back, other = _blame_read(p.into_start, p.into, w, i, back, other)
                            back, other = _blame(back, other, limiter[w])
                            break
                for k in range(joins[-1] if fits and new else 0):
                    w = joins[k]
                    if not alive(arrows, block, asks[w], allowed[w]):
                        fits = False
                        back, other = _blame(back, other, b.author[b.block[i-1] if i else 0])
                        back, other = _blame_read(p.into_start, p.into, w, i, back, other)
                        if limiter[w] < i: back, other = _blame(back, other, limiter[w])
                        break
                for k in range(p.inner_start[i], p.inner_start[i + 1] if fits else 0):
                    w = p.reader[p.inner[k]]
                    if asks[w] and not alive(arrows, block, asks[w], allowed[w]):
                        fits = False
                        back, other = _blame(back, other, b.author[b.block[i-1] if i else 0])
                        back, other = _blame_read(p.into_start, p.into, w, i, back, other)
                        if limiter[w] < i: back, other = _blame(back, other, limiter[w])
                        break
            elif fits:
                for k in range(p.out_start[i], p.out_start[i + 1]):
                    w = p.out[k]
                    if not asks[w] >> c & 1:
                        trail[t, 0], trail[t, 1], trail[t, 2] = ASKS, w, asks[w]
                        t += 1
                        asks[w] |= 1 << c
            if fits:
                placed = True
                break
            if t > t0:
                _undo(trail, asks, allowed, target, owed, joins, slot, t, t0)
            tried[i] |= 1 << c
            t, block = t0, block0
        if placed:
            chip[i] = c
            room[c] -= size
            mark[i], b.block[i] = t0, block0
            i += 1
            tried[i], b.carried[i] = 0, -1
            continue
        back, other = _blame_read(p.into_start, p.into, i, i, back, other)
        if limiter[i] < i: back, other = _blame(back, other, limiter[i])
        failures += 1
        careful = max(careful, i + 1)
        if failures > limit or back < 0:
            return False, counter, failures
        if not JUMP: back, other = i - 1, -1
        _undo(trail, asks, allowed, target, owed, joins, slot, t, mark[back])
        t, block = mark[back], b.block[back]
        _list(joins, slot, i, reads & (reads - 1) != 0)
        for v in range(back, i):
            room[chip[v]] += p.weight[v]
            _list(joins, slot, v, asks[v] & (asks[v] - 1) != 0)
        i = back
        tried[i] |= 1 << chip[i]
        b.carried[i] = max(b.carried[i], other)
    if p.no_skip:
        _closed_up(chip, p.chips)
    return True, counter, failures


@kernel
def _closed_up(chip: NDArray[np.int64], chips: int) -> None:
    """Empty chips below one in use are left out; the order of the others stays."""
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
