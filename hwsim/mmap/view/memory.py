"""The observation of fast memory: its map and profile, offsets, what copies may take, and what is held.

Each kernel fills one row of a batch, of a game that is not over. Every interval that is placed begins at or before the
present step. So those that reach into a window of steps are found by their last steps and by the list of outputs that
are still there, as in `hwsim/mmap/rules/room.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.rules.state import GameState
from hwsim.mmap.tables import Tables
from hwsim.mmap.view.arrays import Arrays, Fixed, benefit_s, scale_s
from hwsim.mmap.view.parts import LOSS


@kernel
def _fill_interval(
    tables: Tables, state: GameState, b: int, begin: int, stride: int, now: int, arrays: Arrays, row: int
) -> None:
    """Mark buffer b in the map, whose first column begins at step `begin`, and, if it is there now, in the profile."""
    placed, capacity = state.buffer[b], tables.capacity
    low, high = placed.offset, placed.offset + tables.buffer[b].granules
    # A cell is [r, r + 1) * capacity / cells, so the cells of granules [low, high) run from the one that `low` lies in
    # (rounded down) to the one that `high` ends in (rounded up). Columns likewise, clipped to the window.
    cells = arrays.map.shape[1]
    left = max(placed.first - begin, 0) // stride
    right = min((placed.last - begin) // stride, cells - 1)
    for r in range(low * cells // capacity, -(-high * cells // capacity)):
        for c in range(left, right + 1):
            arrays.map[row, r, c] = 1
    if placed.last >= now:
        cells = arrays.profile.shape[1]
        for r in range(low * cells // capacity, -(-high * cells // capacity)):
            arrays.profile[row, r] = 1


@kernel
def fill_memory(tables: Tables, fixed: Fixed, state: GameState, arrays: Arrays, row: int) -> None:
    """Fill the map of memory over steps and the profile of memory at the present step."""
    now = tables.buffer[state.game[0].cursor].step
    begin, stride = now - fixed.map_steps // 2, fixed.map_steps // arrays.map.shape[1]
    for t in range(max(begin, 0), now + 1):
        other = state.step[t].ends_at
        while other >= 0:
            _fill_interval(tables, state, other, begin, stride, now, arrays, row)
            other = state.buffer[other].also_ends
    for k in range(state.game[0].active):
        other = state.buffer[k].active
        # What ends at the present step was found above.
        if state.buffer[other].last > now:
            _fill_interval(tables, state, other, begin, stride, now, arrays, row)


@kernel
def fill_supply(tables: Tables, state: GameState, arrays: Arrays, row: int) -> None:
    """Fill the seconds that are left for copies in the steps around the present one."""
    shown = arrays.supply.shape[1]
    # Steps outside the program stay -1.
    begin = tables.buffer[state.game[0].cursor].step - shown // 2
    for t in range(max(begin, 0), min(begin + shown, len(state.step))):
        arrays.supply[row, t - begin] = scale_s(state.step[t].supply_s)


@kernel
def fill_offsets(tables: Tables, fixed: Fixed, state: GameState, arrays: Arrays, row: int) -> None:
    """Fill the offsets of the buffers before the present one: of all by number, or of the latest, the last one last."""
    b = state.game[0].cursor
    # What lies in HBM, and what is before the first buffer, stays -1.
    begin = 0 if fixed.all_offsets else b - arrays.offsets.shape[1]
    for other in range(max(begin, 0), b):
        if state.buffer[other].offset >= 0:
            arrays.offsets[row, other - begin] = state.buffer[other].offset / tables.capacity


@kernel
def fill_held(tables: Tables, state: GameState, held: NDArray[np.int32], arrays: Arrays, row: int) -> None:
    """Fill the profile of what is held, next uses int32 [K] of tensors: the greatest benefit in each cell."""
    cells, capacity = arrays.held.shape[1], tables.capacity
    now = tables.buffer[state.game[0].cursor].step
    for b in held:
        # Where the tensor lies, not where its next use would be placed; cells as in `_fill_interval`.
        low = state.tensor[tables.buffer[b].tensor].offset
        high = low + tables.buffer[b].granules
        benefit = scale_s(benefit_s(tables, state, b, now))
        for r in range(low * cells // capacity, -(-high * cells // capacity)):
            arrays.held[row, r] = max(arrays.held[row, r], benefit)


@kernel
def fill_losses(
    tables: Tables,
    fixed: Fixed,
    state: GameState,
    held: NDArray[np.int32],
    arrays: Arrays,
    row: int,
    action: int,
    offset: int,
) -> None:
    """Fill what an action that takes room at an offset (-1: it takes none) would write over of what is held."""
    if offset < 0 or len(held) == 0:
        return
    present = tables.buffer[state.game[0].cursor]
    now, lost_s, first = present.step, 0.0, len(tables.step)
    for b in held:
        other = tables.buffer[b]
        low = state.tensor[other.tensor].offset
        if low >= offset + present.granules or offset >= low + other.granules:
            continue
        # Nothing is lost to a buffer of the same tensor, nor to one that may lie at the same place.
        if other.tensor == present.tensor or (other.group >= 0 and other.group == present.group):
            continue
        lost_s += max(benefit_s(tables, state, b, now), 0.0)
        first = min(first, other.step)
    if first < len(tables.step):
        arrays.losses[row, action, LOSS.benefit] = scale_s(lost_s)
        arrays.losses[row, action, LOSS.target_time] = fixed.distance[first - now]
