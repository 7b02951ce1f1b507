"""The state of a game as flat arrays: one of a batch is a row of each.

B games, N buffers, T steps, U tensors, G alias groups. All intervals are closed, (-1, -1) being none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.tables import Tables

DROP, COPY, NO_COPY = 0, 1, 2
UNPLAYED = -1
CURSOR, BACKUP, OPEN, FAST_READ, FAST_WRITE, ACTIVE, LOST, RESETS = range(8)
COUNTERS = 8
UNDECIDED, PLACED, DROPPED, FORCED = range(4)

Ints = NDArray[np.int64]
Steps = NDArray[np.int32]
Bytes = NDArray[np.int8]


class Board(NamedTuple):
    """B games; the same arrays without their first axis are one game.

    Attributes:
        counters: int64 [B, 8]: CURSOR, the buffer to decide on, N at the end; BACKUP, what CURSOR was at the last
            state without an OPEN group; OPEN, groups that are placed and have members to come; FAST_READ and
            FAST_WRITE, bytes of this instruction moved from and to fast memory; ACTIVE, rows of `active` in use;
            LOST, 1 where a game ended without a legal action; RESETS, how often it went back to its backup.
        total_s: float64 [B, 1], the return so far.
        supply_s: float64 [B, T], what is left for copies (W).
        bond: int8 [B, T], 1 where one copy window holds this step and the next.
        down, up: int32 [B, T], of a step without supply: the next step to look at below (above) it, as
            2 (step + 1) + 1 if there is a bond on the way.
        action: int8 [B, N], what was played, -1 = nothing yet.
        offset: int32 [B, N], granules, -1 = in HBM.
        first, last, copy_first, copy_last: int32 [B, N], interval in fast memory and window of the copy.
        ends_at, also_ends: int32 [B, T] and [B, N], lists of the intervals by last step; -1 ends a list.
        active: int32 [B, N], outputs that are still there at the step of CURSOR.
        tensor_last, tensor_offset: int32 [B, U], last step and offset of the tensor's interval that ends last; -1.
        ready: int32 [B, U], first step at which a copy of the tensor from HBM may begin.
        group: int8 [B, G], UNDECIDED, PLACED, DROPPED or FORCED (to be dropped).
        group_offset: int32 [B, G], granules, -1 = not placed.
    """

    counters: Ints
    total_s: NDArray[np.float64]
    supply_s: NDArray[np.float64]
    bond: Bytes
    down: Steps
    up: Steps
    action: Bytes
    offset: Steps
    first: Steps
    last: Steps
    copy_first: Steps
    copy_last: Steps
    ends_at: Steps
    also_ends: Steps
    active: Steps
    tensor_last: Steps
    tensor_offset: Steps
    ready: Steps
    group: Bytes
    group_offset: Steps


def new_boards(tables: Tables, batch: int) -> Board:
    """Room for `batch` games, to be begun by `hwsim.mmap.moves.begin`."""
    buffers, steps = len(tables.step), len(tables.supply_s)
    tensors, groups = len(tables.ready), len(tables.group_last)
    of_buffer = [np.full((batch, buffers), -1, np.int32) for _ in range(7)]
    return Board(
        counters=np.zeros((batch, COUNTERS), np.int64),
        total_s=np.zeros((batch, 1)),
        supply_s=np.zeros((batch, steps)),
        bond=np.zeros((batch, steps), np.int8),
        down=np.zeros((batch, steps), np.int32),
        up=np.zeros((batch, steps), np.int32),
        action=np.full((batch, buffers), UNPLAYED, np.int8),
        offset=of_buffer[0],
        first=of_buffer[1],
        last=of_buffer[2],
        copy_first=of_buffer[3],
        copy_last=of_buffer[4],
        ends_at=np.full((batch, steps), -1, np.int32),
        also_ends=of_buffer[5],
        active=of_buffer[6],
        tensor_last=np.full((batch, tensors), -1, np.int32),
        tensor_offset=np.full((batch, tensors), -1, np.int32),
        ready=np.zeros((batch, tensors), np.int32),
        group=np.zeros((batch, groups), np.int8),
        group_offset=np.full((batch, groups), -1, np.int32),
    )


@kernel
def board_of(boards: Board, row: int) -> Board:
    """One game of a batch: views, not copies."""
    return Board(
        boards.counters[row],
        boards.total_s[row],
        boards.supply_s[row],
        boards.bond[row],
        boards.down[row],
        boards.up[row],
        boards.action[row],
        boards.offset[row],
        boards.first[row],
        boards.last[row],
        boards.copy_first[row],
        boards.copy_last[row],
        boards.ends_at[row],
        boards.also_ends[row],
        boards.active[row],
        boards.tensor_last[row],
        boards.tensor_offset[row],
        boards.ready[row],
        boards.group[row],
        boards.group_offset[row],
    )
