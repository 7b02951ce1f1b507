"""The rules of the MMapGame: what an action would place, what it changes, and what happens at a dead end.

Source: MMapGame paper, sections 4.2 and 4.3.2 and appendix A. `docs/mmap.md` has the rulings where it is silent or
contradicts itself; `tests/hwsim/mmap/mmap_twin.py` is the same in plain Python.

Deviations: a backup is a position, not a second game: what was played up to there is played again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.board import (
    ACTIVE,
    BACKUP,
    COPY,
    CURSOR,
    DROP,
    DROPPED,
    FAST_READ,
    FAST_WRITE,
    FORCED,
    LOST,
    NO_COPY,
    OPEN,
    PLACED,
    RESETS,
    UNDECIDED,
    UNPLAYED,
    Board,
)
from hwsim.mmap.copies import link_all, take_after, take_before, window_after, window_before
from hwsim.mmap.cost import roofline_s
from hwsim.mmap.room import Words, is_free, lowest
from hwsim.mmap.tables import Tables

Plan = tuple[bool, int, int, int, int, int]
"""Legal; first and last step of the interval; first and last of the copy window; offset in granules. -1 = none."""

_ILLEGAL = (False, -1, -1, -1, -1, -1)


@kernel
def _plan_copy(tables: Tables, board: Board, words: Words) -> Plan:
    b = board.counters[CURSOR]
    now, room, group = tables.step[b], tables.granules[b], tables.group[b]
    if room > tables.capacity or (group >= 0 and board.group[group] >= DROPPED):
        return _ILLEGAL
    if tables.is_output[b]:
        copy_first, copy_last = window_after(
            board.supply_s, board.bond, board.up, now + 1, tables.demand_s[b], tables.literal_copies
        )
        first, last, reach = now, copy_last, now
    else:
        copy_first, copy_last = window_before(
            board.supply_s,
            board.bond,
            board.down,
            now - 1,
            board.ready[tables.tensor[b]],
            tables.demand_s[b],
            tables.literal_copies,
        )
        first, last, reach = copy_first, now, copy_first
    if copy_first < 0:
        return _ILLEGAL
    if group >= 0 and board.group[group] == PLACED:
        offset = board.group_offset[group]
        if not is_free(tables, board, reach, now, offset, room, group):
            return _ILLEGAL
    else:
        offset = lowest(tables, board, reach, now, room, words)
        if offset < 0:
            return _ILLEGAL
    return True, first, last, copy_first, copy_last, offset


@kernel
def _plan_no_copy(tables: Tables, board: Board, words: Words) -> Plan:
    b = board.counters[CURSOR]
    now, room, group = tables.step[b], tables.granules[b], tables.group[b]
    if room > tables.capacity or (group >= 0 and board.group[group] >= DROPPED):
        return _ILLEGAL
    fixed = board.group_offset[group] if group >= 0 else -1
    if tables.is_output[b]:
        if tables.leaves[b]:
            return _ILLEGAL
        if fixed < 0:
            offset = lowest(tables, board, now, now, room, words)
            return (True, now, tables.last[b], -1, -1, offset) if offset >= 0 else _ILLEGAL
        if not is_free(tables, board, now, now, fixed, room, group):
            return _ILLEGAL
        return True, now, tables.last[b], -1, -1, fixed
    until, offset = board.tensor_last[tables.tensor[b]], board.tensor_offset[tables.tensor[b]]
    if until < 0 or (fixed >= 0 and fixed != offset):
        return _ILLEGAL
    if until >= now:
        return True, -1, -1, -1, -1, offset
    if not is_free(tables, board, until + 1, now, offset, room, group):
        return _ILLEGAL
    return True, until + 1, now, -1, -1, offset


@kernel
def plan(tables: Tables, board: Board, action: int, words: Words) -> Plan:
    """What an action would place now; the game must not be over."""
    if action == COPY:
        return _plan_copy(tables, board, words)
    if action == NO_COPY:
        return _plan_no_copy(tables, board, words)
    group = tables.group[board.counters[CURSOR]]
    return group < 0 or board.group[group] != PLACED, -1, -1, -1, -1, -1


@kernel
def _benefit(tables: Tables, board: Board, b: int) -> float:
    counters, step = board.counters, tables.step[b]
    before = roofline_s(
        tables.compute_s[step],
        tables.traffic_bytes[step],
        counters[FAST_READ],
        counters[FAST_WRITE],
        tables.hbm_Bps,
        tables.read_Bps,
        tables.write_Bps,
    )
    counters[FAST_READ] += tables.fast_read_bytes[b]
    counters[FAST_WRITE] += tables.fast_write_bytes[b]
    return before - roofline_s(
        tables.compute_s[step],
        tables.traffic_bytes[step],
        counters[FAST_READ],
        counters[FAST_WRITE],
        tables.hbm_Bps,
        tables.read_Bps,
        tables.write_Bps,
    )


@kernel
def _place(tables: Tables, board: Board, b: int) -> None:
    """Room, copy and tensor of buffer b, whose row says where it lies."""
    tensor, last, now = tables.tensor[b], board.last[b], tables.step[b]
    if last >= 0:
        board.also_ends[b] = board.ends_at[last]
        board.ends_at[last] = b
        if last >= board.tensor_last[tensor]:
            board.tensor_last[tensor] = last
            board.tensor_offset[tensor] = board.offset[b]
    if tables.is_output[b] and last > now:
        board.active[board.counters[ACTIVE]] = b
        board.counters[ACTIVE] += 1
    copy_first, copy_last, demand = board.copy_first[b], board.copy_last[b], tables.demand_s[b]
    if copy_first < 0:
        return
    if tables.is_output[b]:
        take_after(board.supply_s, board.bond, board.down, board.up, copy_first, copy_last, demand)
        board.ready[tensor] = copy_last + 1
    else:
        take_before(board.supply_s, board.bond, board.down, copy_first, copy_last, demand)


@kernel
def _advance(tables: Tables, board: Board, b: int) -> None:
    """Go from buffer b to the next decision."""
    counters = board.counters
    following = tables.next_live[b + 1]
    counters[CURSOR] = following
    if following < len(tables.step) and tables.step[following] != tables.step[b]:
        counters[FAST_READ] = 0
        counters[FAST_WRITE] = 0
        kept, now = 0, tables.step[following]
        for k in range(counters[ACTIVE]):
            if board.last[board.active[k]] >= now:
                board.active[kept] = board.active[k]
                kept += 1
        board.active[kept : counters[ACTIVE]] = -1
        counters[ACTIVE] = kept
    if counters[OPEN] == 0:
        counters[BACKUP] = following


@kernel
def _settle(tables: Tables, board: Board) -> None:
    """Do what the row of the present buffer says was played, and go on."""
    b = board.counters[CURSOR]
    group, placed = tables.group[b], board.action[b] != DROP
    if group >= 0:
        ends = tables.group_last[group] == b
        if not placed:
            if board.group[group] == UNDECIDED:
                board.group[group] = DROPPED
        elif board.group[group] == UNDECIDED:
            board.group[group] = PLACED
            board.group_offset[group] = board.offset[b]
            if not ends:
                board.counters[OPEN] += 1
        elif ends:
            board.counters[OPEN] -= 1
    if placed:
        board.total_s[0] += _benefit(tables, board, b)
        _place(tables, board, b)
    _advance(tables, board, b)


@kernel
def play(tables: Tables, board: Board, action: int, planned: Plan) -> None:
    """Play a legal action as `plan` said."""
    b = board.counters[CURSOR]
    board.action[b] = action
    _, board.first[b], board.last[b], board.copy_first[b], board.copy_last[b], board.offset[b] = planned
    _settle(tables, board)


@kernel
def begin(tables: Tables, board: Board, keep: int) -> None:
    """The game after the moves on the buffers before `keep`, whose rows stay; groups that are FORCED stay so."""
    for g in range(len(board.group)):
        if board.group[g] != FORCED:
            board.group[g] = FORCED if tables.oversized[g] else UNDECIDED
        board.group_offset[g] = -1
    resets, lost = board.counters[RESETS], board.counters[LOST]
    board.counters[:] = 0
    board.counters[RESETS], board.counters[LOST] = resets, lost
    board.total_s[0] = 0.0
    board.supply_s[:] = tables.supply_s
    link_all(board.supply_s, board.bond, board.down, board.up)
    board.ends_at[:] = -1
    board.also_ends[:] = -1
    board.active[:] = -1
    board.tensor_last[:] = -1
    board.tensor_offset[:] = -1
    board.ready[:] = tables.ready
    board.action[keep:] = UNPLAYED
    board.offset[keep:] = -1
    board.first[keep:] = -1
    board.last[keep:] = -1
    board.copy_first[keep:] = -1
    board.copy_last[keep:] = -1
    board.counters[CURSOR] = tables.next_live[0]
    board.counters[BACKUP] = tables.next_live[0]
    while board.counters[CURSOR] < keep:
        _settle(tables, board)


@kernel
def restart(tables: Tables, board: Board) -> None:
    """A new game."""
    board.group[:] = UNDECIDED
    board.counters[:] = 0
    begin(tables, board, 0)


@kernel
def over(tables: Tables, board: Board) -> bool:
    """Whether there is nothing more to decide."""
    return board.counters[CURSOR] >= len(tables.step) or board.counters[LOST] > 0


@kernel
def find_legal(tables: Tables, board: Board, wish: int, words: Words) -> tuple[int, Plan]:
    """The wish or the first legal action of its fixed order of fallbacks, with its plan; illegal: a dead end.

    Copy, NoCopy, Drop; NoCopy, Copy, Drop; Drop, NoCopy, Copy.
    """
    action = wish
    for turn in range(3):
        if turn == 1:
            action = COPY if wish == NO_COPY else NO_COPY
        elif turn == 2:
            action = COPY if wish == DROP else DROP
        planned = plan(tables, board, action, words)
        if planned[0]:
            break
    return action, planned


@kernel
def dead_end(tables: Tables, board: Board) -> None:
    """What happens where no action is legal: back to the backup with the group dropped, or the game is lost."""
    if not tables.drop_backup:
        board.counters[LOST] = 1
        board.total_s[0] = 0.0
        return
    board.group[tables.group[board.counters[CURSOR]]] = FORCED
    board.counters[RESETS] += 1
    begin(tables, board, board.counters[BACKUP])


@kernel
def play_proposal(tables: Tables, board: Board, proposal: NDArray[np.int16], words: Words) -> None:
    """Play a whole game by wishes int16 [N]; `find_legal` says what replaces an illegal one."""
    restart(tables, board)
    while not over(tables, board):
        action, planned = find_legal(tables, board, proposal[board.counters[CURSOR]], words)
        if planned[0]:
            play(tables, board, action, planned)
        else:
            dead_end(tables, board)


@kernel
def seconds(tables: Tables, board: Board) -> float:
    """Seconds of the program under what was played: the sum of L_I(S) over its instructions."""
    steps = len(tables.supply_s)
    read, write = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    for b in range(len(tables.step)):
        if board.action[b] > DROP:
            read[tables.step[b]] += tables.fast_read_bytes[b]
            write[tables.step[b]] += tables.fast_write_bytes[b]
    total = 0.0
    for t in range(steps):
        total += roofline_s(
            tables.compute_s[t],
            tables.traffic_bytes[t],
            read[t],
            write[t],
            tables.hbm_Bps,
            tables.read_Bps,
            tables.write_Bps,
        )
    return total
