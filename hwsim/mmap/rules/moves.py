"""The rules of the MMapGame: what an action changes, what replaces an illegal one, and what happens at a dead end.

Source: MMapGame paper, sections 4.2 and 4.3.2 and appendix A. `docs/mmap.md` has the rulings where it is silent or
contradicts itself; `tests/hwsim/mmap/mmap_twin.py` is the same in plain Python.

Deviations: a backup is a position, not a second game: what was played up to there is played again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.cost import roofline_s
from hwsim.mmap.rules.copies import link_all, take_after, take_before
from hwsim.mmap.rules.placing import Plan, plan
from hwsim.mmap.rules.room import Words
from hwsim.mmap.rules.state import COPY, DROP, DROPPED, FORCED, NO_COPY, PLACED, UNDECIDED, UNPLAYED, Board
from hwsim.mmap.tables import Tables


@kernel
def _present_s(tables: Tables, board: Board, step: int) -> float:
    """Seconds of an instruction with what is in fast memory now."""
    return roofline_s(
        tables.step[step].compute_s,
        tables.step[step].traffic_bytes,
        board.game[0].fast_read_bytes,
        board.game[0].fast_write_bytes,
        tables.hbm_Bps,
        tables.read_Bps,
        tables.write_Bps,
    )


@kernel
def _place(tables: Tables, board: Board, b: int) -> None:
    """Benefit, room, copy and tensor of buffer b, whose row says where it lies."""
    buffer, placed, game = tables.buffer[b], board.buffer[b], board.game[0]
    before = _present_s(tables, board, buffer.step)
    game.fast_read_bytes += buffer.read_bytes
    game.fast_write_bytes += buffer.write_bytes
    game.total_s += before - _present_s(tables, board, buffer.step)
    tensor, last = board.tensor[buffer.tensor], placed.last
    if last >= 0:
        placed.also_ends = board.step[last].ends_at
        board.step[last].ends_at = b
        if last >= tensor.last:
            tensor.last = last
            tensor.offset = placed.offset
    if buffer.is_output and last > buffer.step:
        board.buffer[game.active].active = b
        game.active += 1
    if placed.copy_first < 0:
        return
    if buffer.is_output:
        take_after(board.step, placed.copy_first, placed.copy_last, buffer.demand_s)
        tensor.ready = placed.copy_last + 1
    else:
        take_before(board.step, placed.copy_first, placed.copy_last, buffer.demand_s)


@kernel
def _advance(tables: Tables, board: Board, b: int) -> None:
    """Go from buffer b to the next decision."""
    game, following = board.game[0], tables.buffer[b].following
    game.cursor = following
    if following < len(tables.buffer) and tables.buffer[following].step != tables.buffer[b].step:
        game.fast_read_bytes = 0
        game.fast_write_bytes = 0
        kept, now = 0, tables.buffer[following].step
        for k in range(game.active):
            other = board.buffer[k].active
            if board.buffer[other].last > now:
                board.buffer[kept].active = other
                kept += 1
        game.active = kept
    if game.open == 0:
        game.backup = following


@kernel
def settle(tables: Tables, board: Board) -> None:
    """Do what the row of the present buffer says was played, and go on."""
    game = board.game[0]
    b = game.cursor
    number, placed = tables.buffer[b].group, board.buffer[b].action != DROP
    if number >= 0:
        group, ends = board.group[number], tables.group[number].last == b
        if not placed:
            if group.state == UNDECIDED:
                group.state = DROPPED
        elif group.state == UNDECIDED:
            group.state = PLACED
            group.offset = board.buffer[b].offset
            if not ends:
                game.open += 1
        elif ends:
            game.open -= 1
    if placed:
        _place(tables, board, b)
    _advance(tables, board, b)


@kernel
def play(tables: Tables, board: Board, action: int, planned: Plan) -> None:
    """Play a legal action as `plan` said."""
    row = board.buffer[board.game[0].cursor]
    row.action = action
    board.game[0].moves += 1
    _, row.first, row.last, row.copy_first, row.copy_last, row.offset = planned
    settle(tables, board)


@kernel
def begin(tables: Tables, board: Board, keep: int) -> None:
    """The game after the moves on the buffers before `keep`, whose rows stay; groups that are FORCED stay so."""
    game = board.game[0]
    game.cursor = tables.first
    game.backup = tables.first
    game.open = 0
    game.active = 0
    game.fast_read_bytes = 0
    game.fast_write_bytes = 0
    game.total_s = 0.0
    for t in range(len(board.step)):
        board.step[t].supply_s = tables.step[t].supply_s
        board.step[t].ends_at = -1
    link_all(board.step)
    for b in range(len(board.buffer)):
        row = board.buffer[b]
        row.also_ends = -1
        row.active = -1
        if b >= keep:
            row.action = UNPLAYED
            row.offset = -1
            row.first = -1
            row.last = -1
            row.copy_first = -1
            row.copy_last = -1
    for u in range(len(board.tensor)):
        board.tensor[u].last = -1
        board.tensor[u].offset = -1
        board.tensor[u].ready = tables.ready[u]
    for g in range(len(board.group)):
        if board.group[g].state != FORCED:
            board.group[g].state = FORCED if tables.group[g].oversized else UNDECIDED
        board.group[g].offset = -1
    while game.cursor < keep:
        settle(tables, board)


@kernel
def restart(tables: Tables, board: Board) -> None:
    """A new game."""
    for g in range(len(board.group)):
        board.group[g].state = UNDECIDED
    board.game[0].lost = 0
    board.game[0].resets = 0
    board.game[0].moves = 0
    begin(tables, board, 0)


@kernel
def over(tables: Tables, board: Board) -> bool:
    """Whether there is nothing more to decide."""
    return board.game[0].cursor >= len(tables.buffer) or board.game[0].lost > 0


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
    game = board.game[0]
    if not tables.drop_backup:
        game.lost = 1
        game.total_s = 0.0
        return
    board.group[tables.buffer[game.cursor].group].state = FORCED
    game.resets += 1
    begin(tables, board, game.backup)


@kernel
def play_proposal(tables: Tables, board: Board, proposal: NDArray[np.int16], words: Words) -> None:
    """Play a whole game by wishes int16 [N]; `find_legal` says what replaces an illegal one."""
    restart(tables, board)
    while not over(tables, board):
        action, planned = find_legal(tables, board, proposal[board.game[0].cursor], words)
        if planned[0]:
            play(tables, board, action, planned)
        else:
            dead_end(tables, board)


@kernel
def seconds(tables: Tables, board: Board) -> float:
    """Seconds of the program under what was played: the sum of L_I(S) over its instructions."""
    steps = len(tables.step)
    read, write = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    for b in range(len(tables.buffer)):
        if board.buffer[b].action > DROP:
            read[tables.buffer[b].step] += tables.buffer[b].read_bytes
            write[tables.buffer[b].step] += tables.buffer[b].write_bytes
    total = 0.0
    for t in range(steps):
        total += roofline_s(
            tables.step[t].compute_s,
            tables.step[t].traffic_bytes,
            read[t],
            write[t],
            tables.hbm_Bps,
            tables.read_Bps,
            tables.write_Bps,
        )
    return total
