"""Offsets for buffers with lifetimes, within a capacity if one can be found.

1. Sizes are rounded up to the alignment. Buffers that live as long as the whole set (weights, say) are laid at the
bottom, which costs nothing, and what is left falls into parts that share no step; and so on in each part. 2. Each
part is packed by one greedy pass (`hwsim/allocation/passes.py`). If that is low enough, it stands. 3. Otherwise branch
and bound (`hwsim/allocation/branch_and_bound.py`) looks for a packing within the capacity: many short tries with other
orders, each five a little longer than those before, until one ends, or `SHARE` of the time is spent. 4. If none was
found, the rest of the time goes into bisecting for a packing that is less too high.

Buffers whose offsets are given stay there: the others are packed around them by passes in other orders, until one is
low enough or the time is over.

The same seed gives the same packing, unless the time limit cut the search short.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hwsim.allocation.buffers import Buffer, Packing, Verdict, arrays, live
from hwsim.allocation.passes import endless_orders, orders, place_in_order

Ints = NDArray[np.int64]
SHARE = 0.8
"""The share of the time for a packing within the capacity, before one that is too high is improved."""
DEEPEST = 4000
"""Buffers that hang together and are more than these are packed greedily only: the search recurses once a buffer."""
FIRST_NODES = 2000
"""Nodes of the first tries."""
GROWTH = 1.2
"""Factor by which tries get longer after each round of `ORDERS`."""
ORDERS = (
    ("life", "area", "crowd"),
    ("crowd", "area", "life"),
    ("crowd", "life", "area"),
    ("area", "life", "crowd"),
    ("size", "crowd", "life"),
)
"""What buffers are ranked by, largest first. The crowd of a buffer is what lives with it in its fullest section."""
BLAMED = 2
"""After the first round every so many-th try ranks those higher that live in sections where branches ended before."""
FORGET = 0.9
"""What is left of a section's blame after each try."""
NOISE = (0.02, 0.1, 0.3)
"""After the first round each key is multiplied by exp(one of these times a normal number)."""


def pack(
    buffers: Sequence[Buffer],
    capacity_bytes: int,
    align_bytes: int = 64,
    time_limit_s: float = 10.0,
    seed: int = 0,
) -> Packing:
    """Offsets of M buffers within the capacity, or as low as was found.

    Args:
        buffers: any number; a size of 0 takes no room and gets offset 0.
        capacity_bytes: of the memory; what is beyond its last multiple of the alignment is used only by luck.
        align_bytes: every offset is a multiple of it.
        time_limit_s: of the search; a try under way is ended late by a fraction of a second.
        seed: of the orders that are tried.

    Raises:
        ValueError: an alignment below 1, a negative capacity, or a given offset that is negative or not aligned.
    """
    if align_bytes < 1 or capacity_bytes < 0:
        raise ValueError(
            f"expected align_bytes >= 1 and capacity_bytes >= 0, received {align_bytes} and {capacity_bytes}"
        )
    fixed = np.array([-1 if buffer.fixed is None else buffer.fixed for buffer in buffers], np.int64)
    if any(
        buffer.fixed is not None and (buffer.fixed < 0 or buffer.fixed % align_bytes) for buffer in buffers
    ):
        raise ValueError(f"expected given offsets that are multiples of {align_bytes}, received others")
    first, end, size_bytes = arrays(buffers)
    units = -(-size_bytes // align_bytes)
    taken = np.flatnonzero(units)
    search = _Search(capacity_bytes // align_bytes, time.monotonic() + time_limit_s, seed)
    fullest = live(first, end, size_bytes)
    too_much = fullest > capacity_bytes or live(first, end, units) > -(-capacity_bytes // align_bytes)
    offset = np.maximum(fixed, 0) // align_bytes
    if (fixed[taken] >= 0).any():
        given = np.where(fixed < 0, -1, offset)[taken]
        offset[taken] = around(
            first[taken], end[taken], units[taken], given, search.capacity, search.until, seed
        )
    else:
        offset[taken] = search.offsets(first[taken], end[taken], units[taken])
    height = int((offset * align_bytes + size_bytes)[taken].max(initial=0))
    exhausted = search.exhausted and capacity_bytes % align_bytes == 0
    failed: Verdict = "impossible" if too_much or exhausted else "not found"
    return Packing(
        tuple((offset * align_bytes).tolist()),
        height,
        fullest,
        "packed" if height <= capacity_bytes else failed,
    )


class _Search:
    """The packing of one memory: how high it may be (units of the alignment), until when, and whether all was tried."""

    def __init__(self, capacity: int, until: float, seed: int) -> None:
        self.capacity, self.until, self.seed = capacity, until, seed
        self.exhausted = False

    def offsets(self, first: Ints, end: Ints, size: Ints) -> Ints:
        """Offsets int64 [M] of M buffers, sizes positive."""
        offset = np.zeros(len(size), np.int64)
        left = [(members, 0) for members in _parts(first, end)]
        while left:
            members, ground = left.pop()
            begins, ends, sizes = first[members], end[members], size[members]
            throughout = (begins == begins.min()) & (ends == ends.max())
            if throughout.any():
                tops = ground + np.cumsum(sizes[throughout])
                offset[members[throughout]] = tops - sizes[throughout]
                rest = members[~throughout]
                left += [(rest[part], int(tops[-1])) for part in _parts(first[rest], end[rest])]
            else:
                offset[members] = ground + self._pack_part(begins, ends, sizes, ground)
        return offset

    def _pack_part(self, first: Ints, end: Ints, size: Ints, ground: int) -> Ints:
        """Offsets from 0 on of buffers that overlap in time, directly or through others."""
        floor = live(first, end, size)
        room = self.capacity - ground
        target = max(room, floor)
        best = greedy(first, end, size, target, self.until)
        high = int((best + size).max())
        if high <= target or len(size) > DEEPEST:
            return best
        now = time.monotonic()
        found, proved = try_orders(first, end, size, target, now + (self.until - now) * SHARE, self.seed)
        if found is not None:
            return found
        self.exhausted |= proved
        low = target
        while high - low > 1 and time.monotonic() < self.until:
            middle = (low + high) // 2
            now = time.monotonic()
            found, _ = try_orders(first, end, size, middle, now + (self.until - now) / 4, self.seed)
            if found is None:
                low = middle
            else:
                best, high = found, int((found + size).max())
        return best


def greedy(first: Ints, end: Ints, size: Ints, target: int, until: float = math.inf) -> Ints:
    """The lowest packing of all passes, offsets int64 [M]; the first one not above `target` ends it.

    Args:
        first, end: int64 [M], lifetimes half-open.
        size: int64 [M], in the unit of the offsets and of the target.
        target: a height that is good enough.
        until: a monotonic time, after which no further pass begins.
    """
    best: Ints | None = None
    lowest = 0
    for order in orders(first, end, size):
        for best_gap in (True, False):
            found = place_in_order(first, end, size, order, best_gap)
            height = int((found + size).max(initial=0))
            if best is None or height < lowest:
                best, lowest = found, height
            if lowest <= target or time.monotonic() >= until:
                return best
    assert best is not None
    return best


def around(first: Ints, end: Ints, size: Ints, fixed: Ints, target: int, until: float, seed: int) -> Ints:
    """The lowest packing that was found around buffers whose offsets are given, offsets int64 [M].

    Passes in other orders follow each other until one is not above `target`, or the time is over.

    Args:
        first, end, size: int64 [M], lifetimes half-open; sizes in the unit of the offsets.
        fixed: int64 [M], offsets that are given, -1 where none is; those that live together share nothing.
        target: a height that is good enough.
        until: a monotonic time.
        seed: of the orders.
    """
    best: Ints | None = None
    lowest = 0
    for order, best_gap in endless_orders(first, end, size, seed):
        found = place_in_order(first, end, size, order, best_gap, fixed)
        height = int((found + size).max(initial=0))
        if best is None or height < lowest:
            best, lowest = found, height
        if lowest <= target or time.monotonic() >= until:
            return best
    raise AssertionError("orders do not end")


def try_orders(
    first: Ints, end: Ints, size: Ints, height: int, until: float, seed: int
) -> tuple[Ints | None, bool]:
    """Search for a packing of M buffers (int64 [M] each, lifetimes half-open) within `height` until a monotonic time.

    Returns:
        Offsets int64 [M] in the unit of the sizes, or None; and whether it is proved that there is none.
    """
    from hwsim.allocation import branch_and_bound

    if time.monotonic() >= until:
        return None, False
    begin, stop = branch_and_bound.sections(first, end)
    rng = np.random.default_rng(seed)
    blame = np.zeros(int(stop.max()), np.int64)
    nodes = float(FIRST_NODES)
    number = 0
    while True:
        rank = _rank(number, begin, stop, end - first, size, blame, rng)
        found, offset = branch_and_bound.attempt(size, begin, stop, rank, blame, height, int(nodes))
        if found == branch_and_bound.FOUND:
            return offset, False
        if found == branch_and_bound.FAILED:
            return None, True
        if time.monotonic() >= until:
            return None, False
        number += 1
        blame = (blame * FORGET).astype(np.int64)
        if number % len(ORDERS) == 0:
            nodes *= GROWTH


def _rank(
    number: int, begin: Ints, stop: Ints, life: Ints, size: Ints, blame: Ints, rng: np.random.Generator
) -> Ints:
    """The ranks int64 [M] of try `number`."""
    load = np.zeros(len(blame) + 1, np.int64)
    np.add.at(load, begin, size)
    np.add.at(load, stop, -size)
    load = np.cumsum(load)
    crowd = np.array([load[b:e].max() for b, e in zip(begin, stop, strict=True)], np.float64)
    keys = {"life": life, "area": life * size.astype(np.float64), "crowd": crowd, "size": size}
    weight = np.ones(len(size))
    if number >= len(ORDERS) and number % BLAMED == BLAMED - 1 and blame.any():
        weight += np.array([blame[b:e].max() for b, e in zip(begin, stop, strict=True)]) / blame.max()
    noise = 0.0 if number < len(ORDERS) else rng.choice(NOISE)
    columns = [
        -keys[name] * weight * np.exp(noise * rng.standard_normal(len(size)))
        for name in ORDERS[number % len(ORDERS)]
    ]
    rank = np.empty(len(size), np.int64)
    rank[np.lexsort(columns[::-1])] = np.arange(len(size))
    return rank


def _parts(first: Ints, end: Ints) -> Iterator[Ints]:
    """Positions int64 of buffers that hang together in time, a part after the other."""
    if not len(first):
        return
    ordered = np.argsort(first, kind="stable")
    reach = np.maximum.accumulate(end[ordered])
    cuts = np.flatnonzero(first[ordered][1:] >= reach[:-1]) + 1
    yield from np.split(ordered, cuts)
