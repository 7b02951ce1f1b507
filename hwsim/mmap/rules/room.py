"""Offsets: where a buffer finds room in fast memory for an interval of time.

Source: MMapGame paper, appendix A ("Assigning allocation intervals and offsets"): the lowest offset that is free
over the whole interval, a granule being the unit.

Buffers come in the order of their instructions, so every interval that is placed begins at or before the present step.
Therefore another interval [first, ...] that begins or ends at the present step meets exactly those that end at or after
`first`: lists by last step find them, without their times being compared. Past the present step only outputs end, and
those are on a list of their own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.rules.state import Board
from hwsim.mmap.tables import Tables

Words = NDArray[np.uint64]

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
    """Scratch for `lowest`: a bit a granule."""
    return np.zeros(-(-tables.capacity // 64), np.uint64)


@kernel
def _lowest_bit(word: np.uint64) -> int:
    return _POSITION[((word & (~word + _ONE)) * _DE_BRUIJN) >> _SHIFT]


@kernel
def is_clear(words: Words, offset: int, granules: int) -> bool:
    """Whether none of some bits is set."""
    low, high = offset >> 6, (offset + granules - 1) >> 6
    head = _ALL << np.uint64(offset & 63)
    tail = _ALL >> np.uint64(63 - ((offset + granules - 1) & 63))
    if low == high:
        return words[low] & head & tail == _NONE
    if words[low] & head != _NONE or words[high] & tail != _NONE:
        return False
    free = True
    for w in range(low + 1, high):
        free = free and words[w] == _NONE
    return free


@kernel
def mark(words: Words, offset: int, granules: int) -> None:
    """Set some bits."""
    low, high = offset >> 6, (offset + granules - 1) >> 6
    head = _ALL << np.uint64(offset & 63)
    tail = _ALL >> np.uint64(63 - ((offset + granules - 1) & 63))
    if low == high:
        words[low] |= head & tail
        return
    words[low] |= head
    for w in range(low + 1, high):
        words[w] = _ALL
    words[high] |= tail


@kernel
def _lowest_gap(words: Words, granules: int, capacity: int) -> int:
    """The first of `granules` clear bits in a row below `capacity`; -1: there are none."""
    start = 0
    for w in range(len(words)):
        word = words[w]
        if word == _NONE:
            if (w + 1) * 64 - start >= granules:
                break
            continue
        position = 0
        while True:
            above = word >> np.uint64(position)
            if above == _NONE:
                break
            position += _lowest_bit(above)
            if w * 64 + position - start >= granules:
                return start if start + granules <= capacity else -1
            clear = ~word >> np.uint64(position)
            if clear == _NONE:
                start = (w + 1) * 64
                break
            position += _lowest_bit(clear)
            start = w * 64 + position
    return start if start + granules <= capacity else -1


@kernel
def lowest(tables: Tables, board: Board, first: int, now: int, granules: int, words: Words) -> int:
    """The lowest offset that is free for an interval which meets all that ends at or after `first` (<= now); or -1."""
    words[:] = _NONE
    placed, room = board.buffer, tables.buffer
    for t in range(first, now + 1):
        other = board.step[t].ends_at
        while other >= 0:
            mark(words, placed[other].offset, room[other].granules)
            other = placed[other].also_ends
    for k in range(board.game[0].active):
        other = placed[k].active
        mark(words, placed[other].offset, room[other].granules)
    return _lowest_gap(words, granules, tables.capacity)


@kernel
def _meets(tables: Tables, board: Board, other: int, offset: int, granules: int, group: int) -> bool:
    there = board.buffer[other].offset
    if there >= offset + granules or offset >= there + tables.buffer[other].granules:
        return False
    return group < 0 or tables.buffer[other].group != group


@kernel
def is_free(
    tables: Tables, board: Board, first: int, now: int, offset: int, granules: int, group: int
) -> bool:
    """Whether nothing but members of the same alias group lies there in an interval, told as to `lowest`."""
    if offset + granules > tables.capacity:
        return False
    placed = board.buffer
    for k in range(board.game[0].active):
        other = placed[k].active
        if _meets(tables, board, other, offset, granules, group):
            return False
    for t in range(now, first - 1, -1):
        other = board.step[t].ends_at
        while other >= 0:
            if _meets(tables, board, other, offset, granules, group):
                return False
            other = placed[other].also_ends
    return True
