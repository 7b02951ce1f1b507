"""What an agent sees of a game, batched: the state representation of the MMapGame paper, section 4.3.1.

`hwsim/mmap/view/parts.py` has the settings, columns, shapes and ranges; `tests/hwsim/mmap/observe_twin.py` is the
same in plain Python.

Deviations: those of `view.py`. Where the paper is silent: a window of n steps around the present one begins n // 2
steps before it; a cell of the map or of the profile is occupied if any granule of it is, at any of its steps, so that a
free cell is free throughout; the next buffers are the next decisions (buffers without a size are none).

Every interval that is placed begins at or before the present step, so those that reach into the window are found by
their last steps and by the list of outputs that are still there, as in `hwsim/mmap/rules/room.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.cost import roofline_s
from hwsim.mmap.observation import SECONDS_SCALE, SIZE_SCALE, STEPS_SCALE
from hwsim.mmap.rules.held import find_held
from hwsim.mmap.rules.moves import over
from hwsim.mmap.rules.placing import plan
from hwsim.mmap.rules.room import Words, new_words
from hwsim.mmap.rules.state import DROPPED, PLACED, Board, board_of
from hwsim.mmap.tables import Tables
from hwsim.mmap.view.parts import LIMIT, Part, View, parts

_NS = 1e9


class _Fixed(NamedTuple):
    """What does not change in a game, of N buffers: `scaled` float32 [N, 2], size and demand; `next_use` int32 [N], the
    next decision on the same tensor (N: none); `in_group` int32 [N, 2], members of the group before and after;
    `distance` float32 [T], scaled distances of that many steps; and of the `View` what shapes do not say."""

    scaled: NDArray[np.float32]
    next_use: NDArray[np.int32]
    in_group: NDArray[np.int32]
    distance: NDArray[np.float32]
    next_buffers: int
    same_tensor: int
    map_steps: int
    all_offsets: bool
    held: int


class _Seen(NamedTuple):
    """The arrays to fill, [B, …], in the order of `hwsim.mmap.view.parts.parts`; the last two are empty where not
    shown.
    """

    buffers: NDArray[np.float32]
    ids: NDArray[np.int32]
    map: NDArray[np.uint8]
    profile: NDArray[np.uint8]
    supply: NDArray[np.float32]
    actions: NDArray[np.float32]
    whole: NDArray[np.float32]
    offsets: NDArray[np.float32]
    held: NDArray[np.float32]
    losses: NDArray[np.float32]


class Observer:
    """Looks at games of one program on one chip.

    Attributes:
        parts: name -> shape, dtype and range of each array of an observation, without the axis of the batch.
    """

    def __init__(self, tables: Tables, view: View) -> None:
        self.view, self._tables, self._fixed = view, tables, _fixed(tables, view)
        self.parts: dict[str, Part] = parts(
            view, len(tables.buffer), len(tables.ready), len(tables.group), tables.capacity
        )

    def observe(self, boards: Board) -> dict[str, NDArray[Any]]:
        """The arrays of `parts`, [B, …]. Of a game that is over nothing is seen: 0, or -1 where that means none."""
        batch = len(boards.game)
        seen = {
            name: part.empty(batch, -1 if name in _NONE_IS_MINUS_ONE else 0)
            for name, part in self.parts.items()
        }
        none = {"held": np.empty((batch, 0), np.float32), "losses": np.empty((batch, 3, 0), np.float32)}
        arrays: Any = list((seen if self.view.held else seen | none).values())
        _look_all(self._tables, self._fixed, boards, _Seen(*arrays), new_words(self._tables))
        return seen


_NONE_IS_MINUS_ONE = ("buffer_ids", "supply", "offsets")


def _fixed(tables: Tables, view: View) -> _Fixed:
    own = tables.buffer
    number = len(own)
    scaled = np.stack(
        [np.log1p(own["size_bytes"]) * SIZE_SCALE, np.log1p(own["demand_s"] * _NS) * SECONDS_SCALE], axis=1
    )
    next_use = np.full(number, number, np.int32)
    in_group = np.zeros((number, 2), np.int32)
    later_use: dict[int, int] = {}
    members: dict[int, list[int]] = {}
    for n in reversed(np.flatnonzero(own["granules"]).tolist()):
        tensor, group = int(own["tensor"][n]), int(own["group"][n])
        next_use[n] = later_use.get(tensor, number)
        later_use[tensor] = n
        if group >= 0:
            members.setdefault(group, []).append(n)
    for found in members.values():
        for after, n in enumerate(found):
            in_group[n] = len(found) - 1 - after, after
    distance = np.log1p(np.arange(len(tables.step))) * STEPS_SCALE
    return _Fixed(
        np.minimum(scaled, LIMIT).astype(np.float32),
        next_use,
        in_group,
        np.minimum(distance, LIMIT).astype(np.float32),
        view.next_buffers,
        view.same_tensor,
        view.map_steps,
        view.offsets is None,
        view.held,
    )


@kernel
def _from(fixed: _Fixed, step: int, now: int) -> np.float32:
    """A step as seen from another: the scaled distance, less than 0 where it lies before."""
    return fixed.distance[step - now] if step >= now else -fixed.distance[now - step]


@kernel
def _benefit_s(tables: Tables, board: Board, b: int, now: int) -> float:
    """Seconds that buffer b saves beside what of its instruction lies in fast memory by now."""
    buffer, step = tables.buffer[b], tables.step[tables.buffer[b].step]
    read, write = 0, 0
    if buffer.step == now:
        read, write = board.game[0].fast_read_bytes, board.game[0].fast_write_bytes
    rates = (tables.hbm_Bps, tables.read_Bps, tables.write_Bps)
    before = roofline_s(step.compute_s, step.traffic_bytes, read, write, rates[0], rates[1], rates[2])
    read += buffer.read_bytes
    write += buffer.write_bytes
    return before - roofline_s(step.compute_s, step.traffic_bytes, read, write, rates[0], rates[1], rates[2])


@kernel
def _see_buffer(tables: Tables, fixed: _Fixed, board: Board, b: int, seen: _Seen, row: int, at: int) -> None:
    """Fill the columns of buffer b; b_t is that of the cursor."""
    buffer, present = tables.buffer[b], tables.buffer[board.game[0].cursor]
    now, out = present.step, seen.buffers[row, at]
    out[0] = 1
    out[1] = fixed.scaled[b, 0]
    out[2] = buffer.is_output
    out[3] = _from(fixed, buffer.step, now)
    out[4] = _from(fixed, max(tables.ready[buffer.tensor] - 1, 0), now)
    out[5] = _from(fixed, buffer.last, now)
    out[6] = fixed.scaled[b, 1]
    out[7] = min(np.log1p(max(_benefit_s(tables, board, b, now), 0.0) * _NS) * SECONDS_SCALE, LIMIT)
    out[8] = buffer.tensor == present.tensor
    seen.ids[row, at, 0] = buffer.tensor
    seen.ids[row, at, 1] = buffer.group
    if buffer.group >= 0:
        state = board.group[buffer.group].state
        out[9] = 1
        out[10] = buffer.group == present.group
        out[11] = state == PLACED
        out[12] = state >= DROPPED


@kernel
def _see_buffers(tables: Tables, fixed: _Fixed, board: Board, seen: _Seen, row: int) -> None:
    end, b = len(tables.buffer), board.game[0].cursor
    _see_buffer(tables, fixed, board, b, seen, row, 0)
    other = tables.buffer[b].following
    for k in range(fixed.next_buffers):
        if other >= end:
            break
        _see_buffer(tables, fixed, board, other, seen, row, 1 + k)
        other = tables.buffer[other].following
    other = fixed.next_use[b]
    for k in range(fixed.same_tensor):
        if other >= end:
            break
        _see_buffer(tables, fixed, board, other, seen, row, 1 + fixed.next_buffers + k)
        other = fixed.next_use[other]


@kernel
def _paint(
    tables: Tables, board: Board, b: int, begin: int, stride: int, now: int, seen: _Seen, row: int
) -> None:
    """Mark buffer b in the map, whose first column begins at step `begin`, and, if it is there now, in the profile."""
    placed, capacity = board.buffer[b], tables.capacity
    low, high = placed.offset, placed.offset + tables.buffer[b].granules
    cells = seen.map.shape[1]
    left = max(placed.first - begin, 0) // stride
    right = min((placed.last - begin) // stride, cells - 1)
    for r in range(low * cells // capacity, -(-high * cells // capacity)):
        for c in range(left, right + 1):
            seen.map[row, r, c] = 1
    if placed.last >= now:
        cells = seen.profile.shape[1]
        for r in range(low * cells // capacity, -(-high * cells // capacity)):
            seen.profile[row, r] = 1


@kernel
def _see_memory(tables: Tables, fixed: _Fixed, board: Board, seen: _Seen, row: int) -> None:
    now = tables.buffer[board.game[0].cursor].step
    begin, stride = now - fixed.map_steps // 2, fixed.map_steps // seen.map.shape[1]
    for t in range(max(begin, 0), now + 1):
        other = board.step[t].ends_at
        while other >= 0:
            _paint(tables, board, other, begin, stride, now, seen, row)
            other = board.buffer[other].also_ends
    for k in range(board.game[0].active):
        other = board.buffer[k].active
        if board.buffer[other].last > now:
            _paint(tables, board, other, begin, stride, now, seen, row)


@kernel
def _see_held(tables: Tables, board: Board, held: NDArray[np.int32], seen: _Seen, row: int) -> None:
    """Fill the profile of what is held, next uses int32 [K] of tensors: the greatest benefit in each cell."""
    cells, capacity = seen.held.shape[1], tables.capacity
    now = tables.buffer[board.game[0].cursor].step
    for b in held:
        low = board.tensor[tables.buffer[b].tensor].offset
        high = low + tables.buffer[b].granules
        saved = min(np.log1p(max(_benefit_s(tables, board, b, now), 0.0) * _NS) * SECONDS_SCALE, LIMIT)
        for r in range(low * cells // capacity, -(-high * cells // capacity)):
            seen.held[row, r] = max(seen.held[row, r], saved)


@kernel
def _see_losses(
    tables: Tables,
    fixed: _Fixed,
    board: Board,
    held: NDArray[np.int32],
    seen: _Seen,
    row: int,
    action: int,
    offset: int,
) -> None:
    """Fill what an action that takes room at an offset (-1: it takes none) would write over of what is held."""
    if offset < 0 or len(held) == 0:
        return
    present = tables.buffer[board.game[0].cursor]
    now, lost_s, first = present.step, 0.0, len(tables.step)
    for b in held:
        other = tables.buffer[b]
        low = board.tensor[other.tensor].offset
        if low >= offset + present.granules or offset >= low + other.granules:
            continue
        if other.tensor == present.tensor or (other.group >= 0 and other.group == present.group):
            continue
        lost_s += max(_benefit_s(tables, board, b, now), 0.0)
        first = min(first, other.step)
    if first < len(tables.step):
        seen.losses[row, action, 0] = min(np.log1p(lost_s * _NS) * SECONDS_SCALE, LIMIT)
        seen.losses[row, action, 1] = fixed.distance[first - now]


@kernel
def _look(tables: Tables, fixed: _Fixed, board: Board, seen: _Seen, row: int, words: Words) -> None:
    """Fill one row; the game must not be over."""
    game = board.game[0]
    b, now = game.cursor, tables.buffer[game.cursor].step
    _see_buffers(tables, fixed, board, seen, row)
    _see_memory(tables, fixed, board, seen, row)
    begin = now - seen.supply.shape[1] // 2
    for t in range(max(begin, 0), min(begin + seen.supply.shape[1], len(board.step))):
        left = max(board.step[t].supply_s, 0.0)
        seen.supply[row, t - begin] = min(np.log1p(left * _NS) * SECONDS_SCALE, LIMIT)
    held = find_held(tables, board, fixed.next_use, fixed.held, words)
    _see_held(tables, board, held, seen, row)
    for action in range(3):
        legal, first, last, _, _, offset = plan(tables, board, action, words)
        _see_losses(tables, fixed, board, held, seen, row, action, offset if first >= 0 else -1)
        out = seen.actions[row, action]
        out[0] = legal
        out[4] = offset / tables.capacity if offset >= 0 else -1.0
        if first >= 0:
            out[1] = 1
            out[2] = _from(fixed, first, now)
            out[3] = _from(fixed, last, now)
    seen.whole[row, 0] = min(np.log1p(game.moves) * STEPS_SCALE, LIMIT)
    seen.whole[row, 1] = min(np.log1p(b) * STEPS_SCALE, LIMIT)
    for k in range(2):
        seen.whole[row, 2 + k] = min(np.log1p(fixed.in_group[b, k]) * STEPS_SCALE, LIMIT)
    begin = 0 if fixed.all_offsets else b - seen.offsets.shape[1]
    for other in range(max(begin, 0), b):
        if board.buffer[other].offset >= 0:
            seen.offsets[row, other - begin] = board.buffer[other].offset / tables.capacity


@kernel
def _look_all(tables: Tables, fixed: _Fixed, boards: Board, seen: _Seen, words: Words) -> None:
    for row in range(len(boards.game)):
        board = board_of(boards, row)
        if not over(tables, board):
            _look(tables, fixed, board, seen, row, words)
