"""The heuristic's state of fast memory and of copies in flight, and its search for a prefetch interval.

Source: XLA's memory space assignment (`hwsim/mmap/heuristic/assignment.py` names it). Unlike the game it places in
any order of time, so that every interval is compared with every other. Copies overlap: each direction is a queue (first
in, first out by first step, then buffer) on a timeline in seconds. A copy fits if it and all later ones end in time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.problem import Floats

Ints = NDArray[np.int32]

EARLIER = 100
"""Start steps earlier than the preferred one that are tried at most (as in XLA, whose constant that is)."""


class Room(NamedTuple):
    """Intervals in fast memory, `held[0]` of them: first, last (steps, closed), offset, size (granules), group:
    int32.
    """

    held: Ints
    first: Ints
    last: Ints
    offset: Ints
    size: Ints
    group: Ints
    capacity: int


class Pool(NamedTuple):
    """Copies of one direction in the order of first step and buffer, `held[0]` of them.

    Attributes:
        first, last, buffer: int32, windows (steps, closed) and whose they are.
        demand, end: float64, seconds; `end` is when each is finished on the timeline.
        begin: float64 [T + 1], when each step begins on the timeline.
    """

    held: Ints
    first: Ints
    last: Ints
    buffer: Ints
    demand: Floats
    end: Floats
    begin: Floats


def new_room(buffers: int, capacity: int) -> Room:
    """Nothing placed; a buffer may need two intervals, an output's own and what its copy adds."""
    first, last, offset, size, group = np.zeros((5, 2 * buffers), np.int32)
    return Room(np.zeros(1, np.int32), first, last, offset, size, group, capacity)


def new_pool(buffers: int, begin: Floats) -> Pool:
    """No copy in flight."""
    first, last, buffer = np.zeros((3, buffers), np.int32)
    return Pool(np.zeros(1, np.int32), first, last, buffer, np.zeros(buffers), np.zeros(buffers), begin)


@kernel
def hold(room: Room, first: int, last: int, offset: int, size: int, group: int) -> None:
    """Place an interval."""
    k = room.held[0]
    room.first[k] = first
    room.last[k] = last
    room.offset[k] = offset
    room.size[k] = size
    room.group[k] = group
    room.held[0] = k + 1


@kernel
def is_free(room: Room, first: int, last: int, offset: int, size: int, group: int) -> bool:
    """Whether nothing but members of the same alias group lies there then."""
    for k in range(room.held[0]):
        # Apart in time, or tied by an alias group: may lie at the same place.
        if first > room.last[k] or room.first[k] > last or (group >= 0 and room.group[k] == group):
            continue
        if offset < room.offset[k] + room.size[k] and room.offset[k] < offset + size:
            return False
    return offset + size <= room.capacity


@kernel
def _find_meeting(room: Room, first: int, last: int) -> Ints:
    """The intervals that meet [first, last], by offset: Shell's sort, since numba takes seconds to compile its own."""
    found = np.empty(room.held[0], np.int32)
    count = 0
    for k in range(room.held[0]):
        if room.first[k] <= last and first <= room.last[k]:
            found[count] = k
            count += 1
    # Insertion sort of every `stride`-th one, with strides that end with 1.
    stride = count // 2
    while stride > 0:
        for k in range(stride, count):
            own, j = found[k], k
            while j >= stride and room.offset[found[j - stride]] > room.offset[own]:
                found[j] = found[j - stride]
                j -= stride
            found[j] = own
        stride //= 2
    return found[:count]


@kernel
def _best_fit(room: Room, meeting: Ints, first: int, size: int) -> int:
    """Offset of the smallest gap of at least `size` beside those of `meeting` that end at or after `first`; -1:
    none.
    """
    # `meeting` comes by offset, so what is free lies between `top`, the end of all before, and the next offset.
    best, best_gap, top = -1, room.capacity + 1, 0
    for k in meeting:
        if room.last[k] < first:
            continue
        # Negative where members of an alias group lie at one place.
        gap = room.offset[k] - top
        if size <= gap < best_gap:
            best, best_gap = top, gap
        top = max(top, room.offset[k] + room.size[k])
    gap = room.capacity - top
    return top if size <= gap < best_gap else best


@kernel
def best_fit(room: Room, first: int, last: int, size: int, fixed: int, group: int) -> int:
    """Where an interval fits: at `fixed`, or in the smallest gap if that is -1; -1 = nowhere."""
    # The alias group decides: there or nowhere.
    if fixed >= 0:
        return fixed if is_free(room, first, last, fixed, size, group) else -1
    return _best_fit(room, _find_meeting(room, first, last), first, size)


@kernel
def _position_of(pool: Pool, first: int, buffer: int) -> int:
    """Position in the queue of a copy with this first step: binary search, by first step and buffer."""
    # All before `low` are smaller, all from `high` on are not.
    low, high = 0, pool.held[0]
    while low < high:
        middle = (low + high) // 2
        before = pool.first[middle] < first or (pool.first[middle] == first and pool.buffer[middle] < buffer)
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def in_time(pool: Pool, first: int, last: int, demand: float, buffer: int) -> bool:
    """Whether a copy with the window [first, last] is finished in it, and all later ones in theirs."""
    # A copy begins when its first step does, or when the copy before it ends.
    k = _position_of(pool, first, buffer)
    end = max(pool.begin[first], pool.end[k - 1] if k > 0 else 0.0) + demand
    if end > pool.begin[last + 1]:
        return False
    for j in range(k, pool.held[0]):
        end = max(pool.begin[pool.first[j]], end) + pool.demand[j]
        # This one ends no later than without the new copy, so neither do all behind it.
        if end <= pool.end[j]:
            return True
        if end > pool.begin[pool.last[j] + 1]:
            return False
    return True


@kernel
def _update_ends(pool: Pool, k: int) -> None:
    """Work out anew when the copies from position k on end."""
    end = pool.end[k - 1] if k > 0 else 0.0
    for j in range(k, pool.held[0]):
        # Not before its window begins, and not before the copy before it ends.
        end = max(pool.begin[pool.first[j]], end) + pool.demand[j]
        pool.end[j] = end


@kernel
def add_copy(pool: Pool, first: int, last: int, demand: float, buffer: int) -> None:
    """Put a copy into the queue."""
    # Move what comes later by one, the last first, so that nothing is lost.
    k = _position_of(pool, first, buffer)
    for j in range(pool.held[0], k, -1):
        pool.first[j] = pool.first[j - 1]
        pool.last[j] = pool.last[j - 1]
        pool.buffer[j] = pool.buffer[j - 1]
        pool.demand[j] = pool.demand[j - 1]
    pool.first[k] = first
    pool.last[k] = last
    pool.buffer[k] = buffer
    pool.demand[k] = demand
    pool.held[0] += 1
    _update_ends(pool, k)


@kernel
def remove_copy(pool: Pool, first: int, buffer: int) -> None:
    """Take a copy out of the queue again."""
    # Close the gap, the first first.
    k = _position_of(pool, first, buffer)
    for j in range(k, pool.held[0] - 1):
        pool.first[j] = pool.first[j + 1]
        pool.last[j] = pool.last[j + 1]
        pool.buffer[j] = pool.buffer[j + 1]
        pool.demand[j] = pool.demand[j + 1]
    pool.held[0] -= 1
    _update_ends(pool, k)


@kernel
def _first_steps(
    begin: Floats, ready: int, now: int, demand: float, saved: float, ratios: tuple[float, float, float]
) -> tuple[int, int, int]:
    """Earliest, preferred and latest first step of a prefetch that is finished before step `now`; -1: there is none."""
    # From the latest step downwards: the first one with enough time; then as far as there is not too much of it, and
    # between the two the first one with the preferred time.
    least, preferred, greatest = ratios
    late = now - 1
    while late >= ready and begin[now] - begin[late] + saved < least * demand:
        late -= 1
    if late < ready:
        return -1, -1, -1
    early = late
    while early > ready and begin[now] - begin[early - 1] <= greatest * demand:
        early -= 1
    middle = late
    while middle > early and begin[now] - begin[middle] < preferred * demand:
        middle -= 1
    return max(early, middle - EARLIER), middle, late


@kernel
def prefetch(
    room: Room,
    pool: Pool,
    ready: int,
    now: int,
    size: int,
    fixed: int,
    group: int,
    demand: float,
    saved: float,
    buffer: int,
    ratios: tuple[float, float, float],
) -> tuple[int, int]:
    """First step and offset of a prefetch that is finished before step `now`; (-1, -1): none fits.

    The time from its first step to `now` is from the least to the greatest of `ratios` (least, preferred, greatest)
    times the copy's; `saved` seconds of the instruction count towards the least. First steps nearest to the preferred
    time are tried first.
    """
    begin, wanted = pool.begin, ratios[1] * demand
    early, middle, late = _first_steps(begin, ready, now, demand, saved, ratios)
    if late < 0:
        return -1, -1
    # Found once for the longest interval; `_best_fit` leaves out what ends before a shorter one begins.
    meeting = _find_meeting(room, early, now) if fixed < 0 else np.empty(0, np.int32)
    # From the preferred step outwards, both ways; of equally distant ones the earlier first.
    down, up = middle, middle + 1
    while down >= early or up <= late:
        below = abs(begin[now] - begin[down] - wanted) if down >= early else np.inf
        above = abs(begin[now] - begin[up] - wanted) if up <= late else np.inf
        if below <= above:
            first = down
            down -= 1
        else:
            first = up
            up += 1
        if not in_time(pool, first, now - 1, demand, buffer):
            continue
        if fixed >= 0:
            offset = fixed if is_free(room, first, now, fixed, size, group) else -1
        else:
            offset = _best_fit(room, meeting, first, size)
        if offset >= 0:
            return first, offset
    return -1, -1
