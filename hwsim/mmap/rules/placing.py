"""What an action would place: legality, interval, window of the copy, offset.

Source: MMapGame paper, section 4.2 and appendix A ("Assigning allocation intervals and offsets"). `docs/mmap.md` has
the rulings where it is silent.
"""

from __future__ import annotations

from hwsim.jit import kernel
from hwsim.mmap.rules.copies import window_after, window_before
from hwsim.mmap.rules.room import Words, is_free, lowest
from hwsim.mmap.rules.state import COPY, DROP, DROPPED, PLACED, UNDECIDED, Board
from hwsim.mmap.tables import Tables

Plan = tuple[bool, int, int, int, int, int]
"""Legal; first and last step of the interval; first and last of the copy window; offset in granules. -1 = none."""

_ILLEGAL = (False, -1, -1, -1, -1, -1)


@kernel
def _offset(tables: Tables, board: Board, first: int, fixed: int, words: Words) -> int:
    """Where the present buffer finds room from `first` (<= its step) on: at `fixed`, or lowest if that is -1; or -1."""
    buffer = tables.buffer[board.game[0].cursor]
    now, room = buffer.step, buffer.granules
    if fixed < 0:
        return lowest(tables, board, first, now, room, words)
    return fixed if is_free(tables, board, first, now, fixed, room, buffer.group) else -1


@kernel
def _plan_copy(tables: Tables, board: Board, fixed: int, words: Words) -> Plan:
    buffer = tables.buffer[board.game[0].cursor]
    now, demand, literal = buffer.step, buffer.demand_s, tables.literal_copies
    if buffer.is_output:
        start, end = window_after(board.step, now + 1, demand, literal)
        first, last, reach = now, end, now
    else:
        start, end = window_before(board.step, now - 1, board.tensor[buffer.tensor].ready, demand, literal)
        first, last, reach = start, now, start
    if start < 0:
        return _ILLEGAL
    offset = _offset(tables, board, reach, fixed, words)
    return (True, first, last, start, end, offset) if offset >= 0 else _ILLEGAL


@kernel
def _plan_no_copy(tables: Tables, board: Board, fixed: int, words: Words) -> Plan:
    buffer = tables.buffer[board.game[0].cursor]
    now = buffer.step
    if buffer.is_output:
        if buffer.leaves:
            return _ILLEGAL
        first, last = now, buffer.last
    else:
        tensor = board.tensor[buffer.tensor]
        if tensor.last < 0 or (fixed >= 0 and fixed != tensor.offset):
            return _ILLEGAL
        if tensor.last >= now:
            return True, -1, -1, -1, -1, tensor.offset
        first, last, fixed = tensor.last + 1, now, tensor.offset
    offset = _offset(tables, board, first, fixed, words)
    return (True, first, last, -1, -1, offset) if offset >= 0 else _ILLEGAL


@kernel
def plan(tables: Tables, board: Board, action: int, words: Words) -> Plan:
    """What an action would place now; the game must not be over."""
    buffer = tables.buffer[board.game[0].cursor]
    state, fixed = UNDECIDED, -1
    if buffer.group >= 0:
        state, fixed = board.group[buffer.group].state, board.group[buffer.group].offset
    if action == DROP:
        return state != PLACED, -1, -1, -1, -1, -1
    if state >= DROPPED or buffer.granules > tables.capacity:
        return _ILLEGAL
    if action == COPY:
        return _plan_copy(tables, board, fixed, words)
    return _plan_no_copy(tables, board, fixed, words)
