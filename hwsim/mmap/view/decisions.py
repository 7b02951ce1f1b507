"""The observation of decisions: the columns of buffers and of actions, and of the game as a whole.

Each kernel fills one row of a batch, of a game that is not over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.rules.outcome import Outcome, outcome_of
from hwsim.mmap.rules.room import Words
from hwsim.mmap.rules.state import DROPPED, PLACED, GameState
from hwsim.mmap.tables import Tables
from hwsim.mmap.view.arrays import Arrays, Fixed, benefit_s, distance_from, scale_count, scale_s
from hwsim.mmap.view.memory import fill_losses
from hwsim.mmap.view.parts import ACTION, BUFFER, GLOBAL


@kernel
def _fill_buffer(
    tables: Tables, fixed: Fixed, state: GameState, b: int, arrays: Arrays, row: int, at: int
) -> None:
    """Fill the columns of buffer b; `present` is the buffer to decide on."""
    buffer, present = tables.buffer[b], tables.buffer[state.game[0].cursor]
    now, columns = present.step, arrays.buffers[row, at]
    columns[BUFFER.present] = 1
    columns[BUFFER.size] = fixed.size[b]
    columns[BUFFER.is_output] = buffer.is_output
    columns[BUFFER.target_time] = distance_from(fixed, buffer.step, now)
    # A tensor lives from the step that makes it, which is one before a copy may begin; parameters from step 0.
    columns[BUFFER.live_first] = distance_from(fixed, max(tables.ready[buffer.tensor] - 1, 0), now)
    columns[BUFFER.live_last] = distance_from(fixed, buffer.last, now)
    columns[BUFFER.demand] = fixed.demand[b]
    columns[BUFFER.benefit] = scale_s(benefit_s(tables, state, b, now))
    columns[BUFFER.same_tensor] = buffer.tensor == present.tensor
    arrays.ids[row, at, 0] = buffer.tensor
    arrays.ids[row, at, 1] = buffer.group
    if buffer.group >= 0:
        group_state = state.group[buffer.group].state
        columns[BUFFER.in_group] = 1
        columns[BUFFER.same_group] = buffer.group == present.group
        columns[BUFFER.group_placed] = group_state == PLACED
        columns[BUFFER.group_dropped] = group_state >= DROPPED


@kernel
def fill_buffers(tables: Tables, fixed: Fixed, state: GameState, arrays: Arrays, row: int) -> None:
    """Fill the present buffer, the next decisions, and the next decisions on the same tensor, in this order."""
    end, b = len(tables.buffer), state.game[0].cursor
    _fill_buffer(tables, fixed, state, b, arrays, row, 0)
    # Where there are fewer than shown the other rows stay as they are: not present.
    other = tables.buffer[b].following
    for k in range(fixed.next_buffers):
        if other >= end:
            break
        _fill_buffer(tables, fixed, state, other, arrays, row, 1 + k)
        other = tables.buffer[other].following
    other = fixed.next_use[b]
    for k in range(fixed.same_tensor):
        if other >= end:
            break
        _fill_buffer(tables, fixed, state, other, arrays, row, 1 + fixed.next_buffers + k)
        other = fixed.next_use[other]


@kernel
def _fill_action(
    tables: Tables, fixed: Fixed, now: int, outcome: Outcome, columns: NDArray[np.float32]
) -> None:
    """Fill the columns of an action with this outcome."""
    columns[ACTION.legal] = outcome.legal
    columns[ACTION.offset] = outcome.offset / tables.capacity if outcome.offset >= 0 else -1.0
    # Steps of no interval stay 0, which `has_interval` distinguishes from the present step.
    if outcome.first >= 0:
        columns[ACTION.has_interval] = 1
        columns[ACTION.first] = distance_from(fixed, outcome.first, now)
        columns[ACTION.last] = distance_from(fixed, outcome.last, now)


@kernel
def fill_actions(
    tables: Tables,
    fixed: Fixed,
    state: GameState,
    held: NDArray[np.int32],
    arrays: Arrays,
    row: int,
    words: Words,
) -> None:
    """Fill what each action would place, and what it would write over of what is held (next uses int32 [K])."""
    now = tables.buffer[state.game[0].cursor].step
    for action in range(3):
        outcome = outcome_of(tables, state, action, words)
        # An action without an interval takes no room and writes over nothing.
        taken = outcome.offset if outcome.first >= 0 else -1
        fill_losses(tables, fixed, state, held, arrays, row, action, taken)
        _fill_action(tables, fixed, now, outcome, arrays.actions[row, action])


@kernel
def fill_game(fixed: Fixed, state: GameState, arrays: Arrays, row: int) -> None:
    """Fill the columns of the game as a whole."""
    b, columns = state.game[0].cursor, arrays.whole[row]
    columns[GLOBAL.move] = scale_count(state.game[0].moves)
    columns[GLOBAL.buffer] = scale_count(b)
    columns[GLOBAL.group_index] = scale_count(fixed.group_before[b])
    columns[GLOBAL.group_left] = scale_count(fixed.group_after[b])
