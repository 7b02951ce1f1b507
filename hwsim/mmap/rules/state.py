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
"""A game: the buffer to decide on, N at the end; what that was at the last state without an open group; groups that
are placed and have members to come; outputs that stay beyond the present step; 1 where it ended without a legal action;
how often it went back to its backup; moves made, those that were taken back included; bytes of this instruction moved
from and to fast memory; the return so far."""
STEP = np.dtype(
    [("supply_s", "f8"), ("bond", "i4"), ("down", "i4"), ("up", "i4"), ("ends_at", "i4")], align=True
)
"""A step: what is left for copies (W); 1 where one copy window holds it and the next; of one without supply, the next
step to look at below (above) it, as 2 (step + 1) + 1 if there is a bond on the way; a buffer whose interval ends there,
-1."""
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
"""A buffer: what was played, -1 = nothing yet; granules, -1 = in HBM; interval in fast memory and window of the copy;
the next buffer whose interval ends at the same step, -1. Row k of `active` is no property of buffer k, but entry k of
the list of outputs that stay beyond the step of the cursor."""
TENSOR = np.dtype([("last", "i4"), ("offset", "i4"), ("ready", "i4")], align=True)
"""A tensor: last step and offset of its interval that ends last, -1; first step at which a copy from HBM may begin."""
GROUP = np.dtype([("state", "i4"), ("offset", "i4")], align=True)
"""An alias group: UNDECIDED, PLACED, DROPPED or FORCED (to be dropped); granules, -1 = not placed."""


class Board(NamedTuple):
    """B games; the same arrays without their first axis, but `game` [1], are one game.

    Attributes:
        game: `GAME` [B]; step: `STEP` [B, T]; buffer: `BUFFER` [B, N]; tensor: `TENSOR` [B, U]; group: `GROUP` [B, G].
    """

    game: Records
    step: Records
    buffer: Records
    tensor: Records
    group: Records


def new_boards(tables: Tables, batch: int) -> Board:
    """Room for `batch` games, to be begun by `hwsim.mmap.rules.moves.restart`."""
    return Board(
        np.zeros(batch, GAME),
        np.zeros((batch, len(tables.step)), STEP),
        np.zeros((batch, len(tables.buffer)), BUFFER),
        np.zeros((batch, len(tables.ready)), TENSOR),
        np.zeros((batch, len(tables.group)), GROUP),
    )


@kernel
def copy_board(given: Board, out: Board) -> None:
    """Make one game what another is."""
    out.game[:] = given.game
    out.step[:] = given.step
    out.buffer[:] = given.buffer
    out.tensor[:] = given.tensor
    out.group[:] = given.group


@kernel
def board_of(boards: Board, row: int) -> Board:
    """One game of a batch: views, not copies."""
    return Board(
        boards.game[row : row + 1],
        boards.step[row],
        boards.buffer[row],
        boards.tensor[row],
        boards.group[row],
    )
