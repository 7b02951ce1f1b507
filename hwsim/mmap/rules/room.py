"""Offsets: where a buffer finds room in fast memory for an interval of time.

Source: MMapGame paper, appendix A ("Assigning allocation intervals and offsets"): the lowest offset that is free
over the whole interval, a granule being the unit.

Buffers come in the order of their instructions, so every interval that is placed begins at or before the present step.
Therefore a new interval from `first` on, which begins or ends at the present step, meets exactly those that end at or
after `first`. Lists by last step find them without a comparison of times. Past the present step only outputs end, and
those are on a list of their own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.rules.state import GameState
from hwsim.mmap.tables import Tables

Words = NDArray[np.uint64]
"""Scratch: bit `g & 63` of word `g >> 6` says that granule g is taken."""

_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_NONE = np.uint64(0)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_SHIFT = np.uint64(58)


def _positions() -> NDArray[np.int64]:
    """Where the lowest set bit is, by the top six bits of (that bit alone) x the de Bruijn number (Leiserson 1998)."""
    table = np.zeros(64, np.int64)
    for position in range(64):
        table[(int(_DE_BRUIJN) << position) % 2**64 >> 58] = position
    return table


_POSITION = _positions()


def new_words(tables: Tables) -> Words:
    """Scratch for `lowest_offset` with every granule free."""
    return np.zeros(-(-tables.capacity // 64), np.uint64)


@kernel
def _lowest_bit(word: np.uint64) -> int:
    """Position of the lowest set bit of a word that is not 0."""
    # `word & -word` has that bit alone; times the de Bruijn number, it has the position in its top six bits.
    return _POSITION[((word & (~word + _ONE)) * _DE_BRUIJN) >> _SHIFT]


@kernel
def is_clear(words: Words, offset: int, granules: int) -> bool:
    """Whether `granules` granules from `offset` on are free."""
    # Words from `low` to `high`: `head` masks what counts of the first one, `tail` what counts of the last.
    low, high = offset >> 6, (offset + granules - 1) >> 6
    head = _ALL << np.uint64(offset & 63)
    tail = _ALL >> np.uint64(63 - ((offset + granules - 1) & 63))
    if low == high:
        return words[low] & head & tail == _NONE
    if words[low] & head != _NONE or words[high] & tail != _NONE:
        return False
    # No early exit, so that the loop can be vectorised.
    free = True
    for w in range(low + 1, high):
        free = free and words[w] == _NONE
    return free


@kernel
def mark(words: Words, offset: int, granules: int) -> None:
    """Take `granules` granules from `offset` on; masks as in `is_clear`."""
    low, high = offset >> 6, (offset + granules - 1) >> 6
    head = _ALL << np.uint64(offset & 63)
    tail = _ALL >> np.uint64(63 - ((offset + granules - 1) & 63))
    # Within one word both masks apply to it.
    if low == high:
        words[low] |= head & tail
        return
    words[low] |= head
    for w in range(low + 1, high):
        words[w] = _ALL
    words[high] |= tail


@kernel
def _lowest_gap(words: Words, granules: int, capacity: int) -> int:
    """The first of `granules` free granules in a row below `capacity`; -1: there are none."""
    # All from `start` up to where the scan is are free.
    start = 0
    for w in range(len(words)):
        word = words[w]
        # A word that is free altogether makes the run longer.
        if word == _NONE:
            if (w + 1) * 64 - start >= granules:
                break
            continue
        # Go through the runs of the word: `position` is where a free run begins, then where it ends.
        position = 0
        while True:
            taken = word >> np.uint64(position)
            # Nothing more is taken in this word: the run goes on into the next one.
            if taken == _NONE:
                break
            position += _lowest_bit(taken)
            if w * 64 + position - start >= granules:
                return start if start + granules <= capacity else -1
            free = ~word >> np.uint64(position)
            # Nothing is free above: the shift fills with zeros, so that this is also the end of the word.
            if free == _NONE:
                start = (w + 1) * 64
                break
            position += _lowest_bit(free)
            start = w * 64 + position
    # The last word may have bits beyond the capacity, which are never taken.
    return start if start + granules <= capacity else -1


@kernel
def lowest_offset(tables: Tables, state: GameState, first: int, now: int, granules: int, words: Words) -> int:
    """The lowest offset that is free for an interval which meets all that ends at or after `first` (<= now); or -1."""
    words[:] = _NONE
    # Together the lists have all that the interval meets: what ends from `first` to now, and what ends later.
    placed, room = state.buffer, tables.buffer
    for t in range(first, now + 1):
        other = state.step[t].ends_at
        while other >= 0:
            mark(words, placed[other].offset, room[other].granules)
            other = placed[other].also_ends
    for k in range(state.game[0].active):
        other = placed[k].active
        mark(words, placed[other].offset, room[other].granules)
    return _lowest_gap(words, granules, tables.capacity)


@kernel
def _meets(tables: Tables, state: GameState, other: int, offset: int, granules: int, group: int) -> bool:
    """Whether another buffer lies in these granules and is not of the same alias group."""
    # Members of an alias group share their place.
    there = state.buffer[other].offset
    if there >= offset + granules or offset >= there + tables.buffer[other].granules:
        return False
    return group < 0 or tables.buffer[other].group != group


@kernel
def is_free(
    tables: Tables, state: GameState, first: int, now: int, offset: int, granules: int, group: int
) -> bool:
    """Whether nothing but members of the same alias group lies there in an interval, given as in `lowest_offset`."""
    if offset + granules > tables.capacity:
        return False
    # The latest ends first. The order only matters for how soon a clash is found.
    placed = state.buffer
    for k in range(state.game[0].active):
        other = placed[k].active
        if _meets(tables, state, other, offset, granules, group):
            return False
    for t in range(now, first - 1, -1):
        other = state.step[t].ends_at
        while other >= 0:
            if _meets(tables, state, other, offset, granules, group):
                return False
            other = placed[other].also_ends
    return True
