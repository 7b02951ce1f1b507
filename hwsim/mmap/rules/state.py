"""The state of a game as flat arrays: one of a batch is a row of each.

B games, N buffers, T steps, U tensors, G alias groups. All intervals are closed, (-1, -1) being none.

Offsets: where a buffer finds room in fast memory for an interval of time.

Source: MMapGame paper, appendix A ("Assigning allocation intervals and offsets"): the lowest offset that is free
over the whole interval, a granule being the unit.

Buffers come in the order of their instructions, so every interval that is placed begins at or before the present step.
Therefore a new interval from `first` on, which begins or ends at the present step, meets exactly those that end at or
after `first`. Lists by last step find them without a comparison of times. Past the present step only outputs end, and
those are on a list of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.tables import Records, Tables

DROP, COPY, NO_COPY = 0, 1, 2
UNPLAYED = -1
UNDECIDED, PLACED, DROPPED, FORCED = range(4)

GAME = np.dtype(
    [
        ("cursor", "i4"),
        ("backup", "i4"),
        ("open", "i4"),
        ("active", "i4"),
        ("lost", "i4"),
        ("resets", "i4"),
        ("moves", "i4"),
        ("fast_read_bytes", "i8"),
        ("fast_write_bytes", "i8"),
        ("total_s", "f8"),
    ],
    align=True,
)
"""A game.

cursor: the buffer to decide on, N at the end; backup: the cursor of the last state without an open group.
open: how many alias groups are placed and have members to come; active: how many outputs stay beyond the present step.
lost: 1 if the game ended without a legal action; resets: how often it went back to its backup.
moves: moves made, those that were taken back included.
fast_read_bytes, fast_write_bytes: bytes of the present instruction moved from and to fast memory.
total_s: the return so far, seconds.
"""
STEP = np.dtype(
    [("supply_s", "f8"), ("bond", "i4"), ("down", "i4"), ("up", "i4"), ("ends_at", "i4")], align=True
)
"""A step.

supply_s: seconds that are left for copies (W); bond: 1 if one copy window holds this step and the next.
down, up: of a step without supply, the link to the next step to look at below and above (`hwsim.mmap.rules.outcome`).
ends_at: a buffer whose interval ends at this step, -1 = none; its `also_ends` has the next one.
"""
BUFFER = np.dtype(
    [
        ("action", "i4"),
        ("offset", "i4"),
        ("first", "i4"),
        ("last", "i4"),
        ("copy_first", "i4"),
        ("copy_last", "i4"),
        ("also_ends", "i4"),
        ("active", "i4"),
    ],
    align=True,
)
"""A buffer.

action: what was played, -1 = nothing yet; offset: granules, -1 = in HBM.
first, last: interval in fast memory; copy_first, copy_last: window of the copy.
also_ends: the next buffer whose interval ends at the same step, -1 = none.
active: in row k, no property of buffer k, but entry k of the list of outputs that stay beyond the present step.
"""
TENSOR = np.dtype([("last", "i4"), ("offset", "i4"), ("ready", "i4")], align=True)
"""A tensor. last, offset: last step and granules of its interval that ends last, -1 = none.

ready: first step at which a copy from HBM may begin.
"""
GROUP = np.dtype([("state", "i4"), ("offset", "i4")], align=True)
"""An alias group. state: UNDECIDED, PLACED, DROPPED or FORCED (to be dropped); offset: granules, -1 = not placed."""


class GameState(NamedTuple):
    """B games; the same arrays without their first axis, but `game` [1], are one game.

    Attributes:
        game: `GAME` [B]; step: `STEP` [B, T]; buffer: `BUFFER` [B, N]; tensor: `TENSOR` [B, U]; group: `GROUP` [B, G].
    """

    game: Records
    step: Records
    buffer: Records
    tensor: Records
    group: Records


def new_states(tables: Tables, batch: int) -> GameState:
    """Room for `batch` games, to be begun by `hwsim.mmap.rules.moves.restart`."""
    return GameState(
        np.zeros(batch, GAME),
        np.zeros((batch, len(tables.step)), STEP),
        np.zeros((batch, len(tables.buffer)), BUFFER),
        np.zeros((batch, len(tables.ready)), TENSOR),
        np.zeros((batch, len(tables.group)), GROUP),
    )


@kernel
def copy_state(given: GameState, out: GameState) -> None:
    """Copy one game over another."""
    out.game[:] = given.game
    out.step[:] = given.step
    out.buffer[:] = given.buffer
    out.tensor[:] = given.tensor
    out.group[:] = given.group


@kernel
def state_of(states: GameState, row: int) -> GameState:
    """One game of a batch: views, not copies."""
    return GameState(
        states.game[row : row + 1],
        states.step[row],
        states.buffer[row],
        states.tensor[row],
        states.group[row],
    )


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
