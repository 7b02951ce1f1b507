"""The rules of the MMapGame: what an action changes, what replaces an illegal one, and what happens at a dead end.

Source: MMapGame paper, sections 4.2 and 4.3.2 and appendix A. `docs/explanations/mmap.md` has the rulings where it
is silent or contradicts itself; `tests/hwsim/mmap/mmap_twin.py` is the same in plain Python.

Deviations: a backup is a position, not a second game: what was played up to there is played again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.cost import roofline_s
from hwsim.mmap.rules.outcome import Outcome, link_all, outcome_of, take_after, take_before
from hwsim.mmap.rules.state import (
    COPY,
    DROP,
    DROPPED,
    FORCED,
    NO_COPY,
    PLACED,
    UNDECIDED,
    UNPLAYED,
    GameState,
    Words,
)
from hwsim.mmap.tables import Tables, instruction_s


@kernel
def _present_s(tables: Tables, state: GameState, step: int) -> float:
    """Seconds of an instruction with what is in fast memory now."""
    # Not `instruction_s`: to pass all tables on costs this, the innermost kernel of a move, 4 % of all moves.
    return roofline_s(
        tables.step[step].compute_s,
        tables.step[step].traffic_bytes,
        state.game[0].fast_read_bytes,
        state.game[0].fast_write_bytes,
        tables.hbm_Bps,
        tables.read_Bps,
        tables.write_Bps,
    )


@kernel
def _place(tables: Tables, state: GameState, b: int) -> None:
    """Record that buffer b lies in fast memory as its row says: benefit, interval, copy, tensor."""
    buffer, placed, game = tables.buffer[b], state.buffer[b], state.game[0]
    # The return grows by what this buffer saves beside those of its instruction that are placed already.
    before_s = _present_s(tables, state, buffer.step)
    game.fast_read_bytes += buffer.read_bytes
    game.fast_write_bytes += buffer.write_bytes
    game.total_s += before_s - _present_s(tables, state, buffer.step)
    tensor, last = state.tensor[buffer.tensor], placed.last
    # A NoCopy inside an earlier interval of its tensor (last = -1) takes no room of its own.
    if last >= 0:
        # Push the buffer on the list of those whose interval ends at `last`.
        placed.also_ends = state.step[last].ends_at
        state.step[last].ends_at = b
        if last >= tensor.last:
            tensor.last = last
            tensor.offset = placed.offset
    # Only outputs end past the present step; they have a list of their own, so that it stays short.
    if buffer.is_output and last > buffer.step:
        state.buffer[game.active].active = b
        game.active += 1
    if placed.copy_first < 0:
        return
    if buffer.is_output:
        take_after(state.step, placed.copy_first, placed.copy_last, buffer.demand_s)
        # The tensor is in HBM, and can be copied back, only after its copy out.
        tensor.ready = placed.copy_last + 1
    else:
        take_before(state.step, placed.copy_first, placed.copy_last, buffer.demand_s)


@kernel
def _begin_step(tables: Tables, state: GameState, step: int) -> None:
    """Forget what held for the instruction before: its traffic, and outputs whose interval has ended by `step`."""
    game = state.game[0]
    game.fast_read_bytes = 0
    game.fast_write_bytes = 0
    # In place: what stays moves up, in its order.
    kept = 0
    for k in range(game.active):
        other = state.buffer[k].active
        if state.buffer[other].last > step:
            state.buffer[kept].active = other
            kept += 1
    game.active = kept


@kernel
def _advance(tables: Tables, state: GameState, b: int) -> None:
    """Go from buffer b to the next decision."""
    game, following = state.game[0], tables.buffer[b].following
    game.cursor = following
    if following < len(tables.buffer) and tables.buffer[following].step != tables.buffer[b].step:
        _begin_step(tables, state, tables.buffer[following].step)
    # A dead end goes back to here: no group is open, so none has to be placed because a member is.
    if game.open == 0:
        game.backup = following


@kernel
def _decide_group(tables: Tables, state: GameState, b: int, placed: bool) -> None:
    """Record in the alias group of buffer b whether the buffer was placed."""
    game, number = state.game[0], tables.buffer[b].group
    group, is_last = state.group[number], tables.group[number].last == b
    if not placed:
        # A group that is FORCED stays so: it must be dropped however often the game goes back.
        if group.state == UNDECIDED:
            group.state = DROPPED
    elif group.state == UNDECIDED:
        # The first member decides for all. Until the last one is placed the group is open.
        group.state = PLACED
        group.offset = state.buffer[b].offset
        if not is_last:
            game.open += 1
    elif is_last:
        game.open -= 1


@kernel
def apply_move(tables: Tables, state: GameState) -> None:
    """Do what the row of the present buffer says was played, and go on."""
    b = state.game[0].cursor
    # Only what is not dropped takes room; the group must know of a drop, too.
    placed = state.buffer[b].action != DROP
    if tables.buffer[b].group >= 0:
        _decide_group(tables, state, b, placed)
    if placed:
        _place(tables, state, b)
    _advance(tables, state, b)


@kernel
def play(tables: Tables, state: GameState, action: int, outcome: Outcome) -> None:
    """Play a legal action with its outcome."""
    row = state.buffer[state.game[0].cursor]
    row.action = action
    state.game[0].moves += 1
    row.first = outcome.first
    row.last = outcome.last
    row.copy_first = outcome.copy_first
    row.copy_last = outcome.copy_last
    row.offset = outcome.offset
    apply_move(tables, state)


@kernel
def _clear(tables: Tables, state: GameState, keep: int) -> None:
    """Put a game to its first decision; rows of the buffers before `keep` keep their moves, FORCED groups stay."""
    game = state.game[0]
    game.cursor = tables.first
    game.backup = tables.first
    game.open = 0
    game.active = 0
    game.fast_read_bytes = 0
    game.fast_write_bytes = 0
    game.total_s = 0.0
    for t in range(len(state.step)):
        state.step[t].supply_s = tables.step[t].supply_s
        state.step[t].ends_at = -1
    link_all(state.step)
    for b in range(len(state.buffer)):
        row = state.buffer[b]
        # Lists are built anew by `apply_move`, for moves that are kept, too.
        row.also_ends = -1
        row.active = -1
        if b >= keep:
            row.action = UNPLAYED
            row.offset = -1
            row.first = -1
            row.last = -1
            row.copy_first = -1
            row.copy_last = -1
    for u in range(len(state.tensor)):
        state.tensor[u].last = -1
        state.tensor[u].offset = -1
        state.tensor[u].ready = tables.ready[u]
    for g in range(len(state.group)):
        # A group with a member that can never fit is FORCED from the start.
        if state.group[g].state != FORCED:
            state.group[g].state = FORCED if tables.group[g].oversized else UNDECIDED
        state.group[g].offset = -1


@kernel
def replay(tables: Tables, state: GameState, keep: int) -> None:
    """Go to the state after the moves on the buffers before `keep`; groups that are FORCED stay so."""
    # The rows before `keep` say what was played; their outcomes need not be worked out again.
    _clear(tables, state, keep)
    while state.game[0].cursor < keep:
        apply_move(tables, state)


@kernel
def restart(tables: Tables, state: GameState) -> None:
    """Begin a new game."""
    # What dead ends forced in the game before is forgotten; `_clear` would keep it.
    for g in range(len(state.group)):
        state.group[g].state = UNDECIDED
    state.game[0].lost = 0
    state.game[0].resets = 0
    state.game[0].moves = 0
    _clear(tables, state, 0)


@kernel
def is_over(tables: Tables, state: GameState) -> bool:
    """Whether there is nothing more to decide."""
    return state.game[0].cursor >= len(tables.buffer) or state.game[0].lost > 0


@kernel
def find_legal(tables: Tables, state: GameState, proposal: int, words: Words) -> tuple[int, Outcome]:
    """The proposed action, or the first legal one of its fallbacks, with its outcome; illegal: a dead end.

    Copy, NoCopy, Drop; NoCopy, Copy, Drop; Drop, NoCopy, Copy.
    """
    # A loop, so that `outcome_of` is compiled into this once.
    action = proposal
    for turn in range(3):
        # The second choice keeps the buffer in fast memory if the proposal did; the third is what is left.
        if turn == 1:
            action = COPY if proposal == NO_COPY else NO_COPY
        elif turn == 2:
            action = COPY if proposal == DROP else DROP
        outcome = outcome_of(tables, state, action, words)
        if outcome.legal:
            break
    return action, outcome


@kernel
def leave_dead_end(tables: Tables, state: GameState) -> None:
    """Where no action is legal, go back to the backup with the group dropped, or lose the game."""
    game = state.game[0]
    if not tables.drop_backup:
        game.lost = 1
        game.total_s = 0.0
        return
    # Only a member of a placed group may not be dropped, so the present buffer has a group.
    state.group[tables.buffer[game.cursor].group].state = FORCED
    game.resets += 1
    replay(tables, state, game.backup)


@kernel
def play_proposal(tables: Tables, state: GameState, proposal: NDArray[np.int16], words: Words) -> None:
    """Play a whole game by a proposal int16 [N]; `find_legal` says what replaces an illegal action."""
    restart(tables, state)
    while not is_over(tables, state):
        action, outcome = find_legal(tables, state, proposal[state.game[0].cursor], words)
        # A dead end takes the cursor back, so that one buffer may be decided twice.
        if outcome.legal:
            play(tables, state, action, outcome)
        else:
            leave_dead_end(tables, state)


@kernel
def program_s(tables: Tables, state: GameState) -> float:
    """Seconds of the program under what was played: the sum of L_I(S) over its instructions."""
    steps = len(tables.step)
    read, write = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    for b in range(len(tables.buffer)):
        if state.buffer[b].action > DROP:
            read[tables.buffer[b].step] += tables.buffer[b].read_bytes
            write[tables.buffer[b].step] += tables.buffer[b].write_bytes
    # Added from the first to the last, as everywhere, so that equal layouts cost the same to the last bit.
    total_s = 0.0
    for t in range(steps):
        total_s += instruction_s(tables, t, read[t], write[t])
    return total_s
