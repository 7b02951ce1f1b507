"""The state of a game as flat arrays: one of a batch is a row of each.

B games, N buffers, T steps, U tensors, G alias groups. All intervals are closed, (-1, -1) being none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
