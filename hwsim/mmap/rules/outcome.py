"""The outcome of an action: whether it is legal, and the interval, copy window and offset that it would place.

Source: MMapGame paper, section 4.2 and appendix A ("Assigning allocation intervals and offsets").
`docs/explanations/mmap.md` has the rulings where it is silent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hwsim.jit import kernel
from hwsim.mmap.rules.copies import window_after, window_before
from hwsim.mmap.rules.room import Words, is_free, lowest_offset
from hwsim.mmap.rules.state import COPY, DROP, DROPPED, PLACED, UNDECIDED, GameState
from hwsim.mmap.tables import Tables


class Outcome(NamedTuple):
    """What an action would place. Steps are closed intervals; -1 = none.

    Attributes:
        legal: whether the action may be played.
        first, last: interval in fast memory.
        copy_first, copy_last: window in which the copy is transferred.
        offset: place in fast memory, in granules.
    """

    legal: bool
    first: int
    last: int
    copy_first: int
    copy_last: int
    offset: int


_ILLEGAL = Outcome(False, -1, -1, -1, -1, -1)
_int64: Any = np.int64
"""Widens int32 fields of records: numba wants the same type from every `return` of a kernel."""


@kernel
def _placement(first: int, last: int, copy_first: int, copy_last: int, offset: int) -> Outcome:
    """A legal outcome with these numbers."""
    return Outcome(True, _int64(first), _int64(last), _int64(copy_first), _int64(copy_last), _int64(offset))


@kernel
def _find_offset(tables: Tables, state: GameState, first: int, fixed: int, words: Words) -> int:
    """Where the present buffer fits from step `first` on: at `fixed`, or lowest if that is -1; -1: nowhere.

    `first` is at most the present step.
    """
    buffer = tables.buffer[state.game[0].cursor]
    now, granules = buffer.step, buffer.granules
    # Without a fixed offset no member of the alias group is placed yet, so that there is no place to share.
    if fixed < 0:
        return lowest_offset(tables, state, first, now, granules, words)
    return fixed if is_free(tables, state, first, now, fixed, granules, buffer.group) else -1


@kernel
def _outcome_of_copy(tables: Tables, state: GameState, fixed: int, words: Words) -> Outcome:
    """Outcome of a Copy, whose interval is its instruction's step and the window of the copy."""
    buffer = tables.buffer[state.game[0].cursor]
    now, demand, literal = buffer.step, buffer.demand_s, tables.literal_copies
    if buffer.is_output:
        # The window follows the instruction, so the interval ends with the window. `_find_offset` gets the present
        # step: what is placed past it are outputs, and it always compares those.
        copy_first, copy_last = window_after(state.step, now + 1, demand, literal)
        first, last, meets_from = now, copy_last, now
    else:
        # The window precedes the instruction, and the tensor must exist in HBM when the window begins.
        ready = state.tensor[buffer.tensor].ready
        copy_first, copy_last = window_before(state.step, now - 1, ready, demand, literal)
        first, last, meets_from = copy_first, now, copy_first
    if copy_first < 0:
        return _ILLEGAL
    offset = _find_offset(tables, state, meets_from, fixed, words)
    return _placement(first, last, copy_first, copy_last, offset) if offset >= 0 else _ILLEGAL


@kernel
def _outcome_of_no_copy(tables: Tables, state: GameState, fixed: int, words: Words) -> Outcome:
    """Outcome of a NoCopy: an output stays for its live range, an input uses what lies in fast memory already."""
    buffer = tables.buffer[state.game[0].cursor]
    now = buffer.step
    if buffer.is_output:
        # A result of the program must reach HBM, and without a copy it would not.
        if buffer.leaves:
            return _ILLEGAL
        first, last = now, buffer.last
    else:
        # An input stays at the offset of its tensor, so the alias group must not lie elsewhere.
        tensor = state.tensor[buffer.tensor]
        if tensor.last < 0 or (fixed >= 0 and fixed != tensor.offset):
            return _ILLEGAL
        # The tensor's latest interval covers this use: nothing more is placed.
        if tensor.last >= now:
            return _placement(-1, -1, -1, -1, tensor.offset)
        # Otherwise the tensor must stay from the end of that interval to this use.
        first, last, fixed = tensor.last + 1, now, tensor.offset
    offset = _find_offset(tables, state, first, fixed, words)
    return _placement(first, last, -1, -1, offset) if offset >= 0 else _ILLEGAL


@kernel
def outcome_of(tables: Tables, state: GameState, action: int, words: Words) -> Outcome:
    """What an action on the present buffer would place; the game must not be over."""
    buffer = tables.buffer[state.game[0].cursor]
    group_state, fixed = UNDECIDED, -1
    if buffer.group >= 0:
        group = state.group[buffer.group]
        group_state, fixed = group.state, group.offset
    # An alias group lies in fast memory wholly or not at all: once a member is placed none may be dropped, and once
    # a member is dropped (or must be) none may be placed.
    if action == DROP:
        return Outcome(group_state != PLACED, -1, -1, -1, -1, -1)
    if group_state >= DROPPED or buffer.granules > tables.capacity:
        return _ILLEGAL
    if action == COPY:
        return _outcome_of_copy(tables, state, fixed, words)
    return _outcome_of_no_copy(tables, state, fixed, words)
