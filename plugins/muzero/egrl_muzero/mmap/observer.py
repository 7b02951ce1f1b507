"""The observation of games, batched: the state representation of the MMapGame paper, section 4.3.1.

`parts.py` beside this file has the settings, columns, shapes and ranges, and the deviations;
`plugins/muzero/tests/mmap/observe_twin.py` is the same in plain Python.

Where the paper is silent: a window of n steps around the present one begins n // 2 steps before it. A cell of the map
or of the profile is occupied if any granule of it is, at any of its steps, so that a free cell is free throughout. The
next buffers are the next decisions; buffers without a size are none.

Each kernel fills one row of a batch, of a game that is not over. Every interval that is placed begins at or before the
present step. So those that reach into a window of steps are found by their last steps and by the list of outputs that
are still there, as in `hwsim/mmap/rules/state.py`.

A tensor is *held* if it lies in fast memory, nothing was placed over it, and it has uses to come: a NoCopy at its next
use makes it stay, and what is placed over it takes that chance away.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_muzero.mmap.parts import (
    ACTION,
    ARRAYS,
    BUFFER,
    GLOBAL,
    LIMIT,
    LOSS,
    SCHEMA_VERSION,
    Part,
    View,
    parts,
)
from hwsim.jit import kernel
from hwsim.mmap.game import MmapGame
from hwsim.mmap.observation import SECONDS_SCALE, SIZE_SCALE, STEPS_SCALE
from hwsim.mmap.rules.moves import is_over
from hwsim.mmap.rules.outcome import Outcome, outcome_of
from hwsim.mmap.rules.state import DROPPED, PLACED, GameState, Words, is_clear, mark, new_words, state_of
from hwsim.mmap.tables import Tables, instruction_s

_NONE_IS_MINUS_ONE = ("buffer_ids", "supply", "offsets")


class Observer:
    """Looks at games of one program on one chip.

    Attributes:
        parts: name -> shape, dtype and range of each array of an observation, without the axis of the batch.
    """

    def __init__(self, tables: Tables, view: View) -> None:
        self.view, self._tables, self._fixed = view, tables, build_fixed(tables, view)
        self.parts: dict[str, Part] = parts(
            view, len(tables.buffer), len(tables.ready), len(tables.group), tables.capacity
        )

    def observe(self, states: GameState) -> dict[str, NDArray[Any]]:
        """The arrays of `parts`, [B, …]. Of a game that is over nothing is seen: 0, or -1 where that means none."""
        batch = len(states.game)
        seen = {
            name: part.empty(batch, -1 if name in _NONE_IS_MINUS_ONE else 0)
            for name, part in self.parts.items()
        }
        none = {"held": np.empty((batch, 0), np.float32), "losses": np.empty((batch, 3, 0), np.float32)}
        arrays: Any = list((seen if self.view.held else seen | none).values())
        _observe_all(self._tables, self._fixed, states, Arrays(*arrays), new_words(self._tables))
        return seen


class SeenGame(MmapGame):
    """The MMapGame as an agent sees it; `observer` looks at its states, as much as a `View` says."""

    arrays, view_schema = ARRAYS, SCHEMA_VERSION

    def __init__(self, game: MmapGame, view: View) -> None:
        super().__init__(game.tables, game.granule_bytes)
        self.observer = Observer(game.tables, view)

    def observe(self, state: GameState) -> dict[str, NDArray[Any]]:
        """What the agent sees of B games, arrays [B, …]: `observer.parts` has names, shapes, dtypes and ranges."""
        return self.observer.observe(state)


@kernel
def _observe_all(tables: Tables, fixed: Fixed, states: GameState, arrays: Arrays, words: Words) -> None:
    """Fill the rows of the games that are not over; the others stay as they are."""
    for row in range(len(states.game)):
        state = state_of(states, row)
        if is_over(tables, state):
            continue
        fill_buffers(tables, fixed, state, arrays, row)
        fill_memory(tables, fixed, state, arrays, row)
        fill_supply(tables, state, arrays, row)
        # `words` is scratch for both: what is held must be known before the actions' outcomes are worked out.
        held = _find_held(tables, state, fixed.next_use, fixed.held, words)
        fill_held(tables, state, held, arrays, row)
        fill_actions(tables, fixed, state, held, arrays, row, words)
        fill_game(fixed, state, arrays, row)
        fill_offsets(tables, fixed, state, arrays, row)


@kernel
def _use_to_come(next_use: NDArray[np.int32], b: int, cursor: int) -> int:
    """The first decision on the tensor of buffer b from the cursor on; N: there is none."""
    # N is never below the cursor, so the chain of uses always ends.
    while b < cursor:
        b = next_use[b]
    return b


@kernel
def _find_held(
    tables: Tables, state: GameState, next_use: NDArray[np.int32], steps: int, words: Words
) -> NDArray[np.int32]:
    """Next uses int32 [K] of the held tensors whose last interval ended within so many steps, latest first.

    `next_use` int32 [N] is the next decision on each buffer's tensor. A tensor counts as covered by members of its own
    alias group, too.
    """
    found = np.empty(len(tables.ready) if steps > 0 else 0, np.int32)
    if steps == 0:
        return found
    # Time runs backwards, and `words` has the granules of all intervals that end later than the one looked at: a
    # tensor is still there if none of its granules is taken.
    count, cursor, end = 0, state.game[0].cursor, len(tables.buffer)
    now = tables.buffer[cursor].step
    words[:] = np.uint64(0)
    # What ends past the present step lies there now.
    for k in range(state.game[0].active):
        other = state.buffer[k].active
        if state.buffer[other].last <= now:
            continue
        coming = _use_to_come(next_use, other, cursor)
        if coming < end:
            found[count] = coming
            count += 1
        mark(words, state.buffer[other].offset, tables.buffer[other].granules)
    for t in range(now, max(now - steps, -1), -1):
        other = state.step[t].ends_at
        while other >= 0:
            tensor = state.tensor[tables.buffer[other].tensor]
            # Only a tensor's latest interval says where it lies.
            if tensor.last == t and is_clear(words, tensor.offset, tables.buffer[other].granules):
                coming = _use_to_come(next_use, other, cursor)
                if coming < end and count < len(found):
                    found[count] = coming
                    count += 1
            other = state.buffer[other].also_ends
        # Marked after all of them were looked at: intervals that end at one step do not cover each other.
        other = state.step[t].ends_at
        while other >= 0:
            mark(words, state.buffer[other].offset, tables.buffer[other].granules)
            other = state.buffer[other].also_ends
    return found[:count]


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


_NS = 1e9


class Fixed(NamedTuple):
    """Constants of a game of N buffers and T steps.

    Attributes:
        size, demand: float32 [N], scaled, of each buffer.
        next_use: int32 [N], the next decision on the same tensor, N = none.
        group_before, group_after: int32 [N], members of the buffer's alias group before and after it.
        distance: float32 [T], scaled distances of that many steps.
        next_buffers, same_tensor, map_steps, held: as in the `View`.
        all_offsets: whether the offsets of all buffers are shown, not only of the latest ones.
    """

    size: NDArray[np.float32]
    demand: NDArray[np.float32]
    next_use: NDArray[np.int32]
    group_before: NDArray[np.int32]
    group_after: NDArray[np.int32]
    distance: NDArray[np.float32]
    next_buffers: int
    same_tensor: int
    map_steps: int
    all_offsets: bool
    held: int


class Arrays(NamedTuple):
    """The arrays to fill, [B, …], in the order of `parts.parts`.

    `held` and `losses` have no cells where they are not shown.
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


def build_fixed(tables: Tables, view: View) -> Fixed:
    """The arrays that all observations of a program share."""
    buffer = tables.buffer
    next_use, group_before, group_after = _relations(tables)
    return Fixed(
        size=_clip(np.log1p(buffer["size_bytes"]) * SIZE_SCALE),
        demand=_clip(np.log1p(buffer["demand_s"] * _NS) * SECONDS_SCALE),
        next_use=next_use,
        group_before=group_before,
        group_after=group_after,
        distance=_clip(np.log1p(np.arange(len(tables.step))) * STEPS_SCALE),
        next_buffers=view.next_buffers,
        same_tensor=view.same_tensor,
        map_steps=view.map_steps,
        all_offsets=view.offsets is None,
        held=view.held,
    )


def _clip(scaled: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.minimum(scaled, LIMIT).astype(np.float32)


def _relations(tables: Tables) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """int32 [N] each: next use of the tensor, members of the alias group before, and after. Only decisions count."""
    buffer, number = tables.buffer, len(tables.buffer)
    next_use = np.full(number, number, np.int32)
    before, after = np.zeros((2, number), np.int32)
    later_use: dict[int, int] = {}
    members: dict[int, list[int]] = {}
    for b in reversed(np.flatnonzero(buffer["granules"]).tolist()):
        tensor, group = int(buffer["tensor"][b]), int(buffer["group"][b])
        next_use[b] = later_use.get(tensor, number)
        later_use[tensor] = b
        if group >= 0:
            members.setdefault(group, []).append(b)
    for latest_first in members.values():
        for later, b in enumerate(latest_first):
            before[b], after[b] = len(latest_first) - 1 - later, later
    return next_use, before, after


@kernel
def scale_s(seconds: float) -> float:
    """Seconds as an agent sees them; less than 0 counts as 0."""
    return min(np.log1p(max(seconds, 0.0) * _NS) * SECONDS_SCALE, LIMIT)


@kernel
def scale_count(count: int) -> float:
    """A number of moves or buffers as an agent sees it."""
    return min(np.log1p(count) * STEPS_SCALE, LIMIT)


@kernel
def distance_from(fixed: Fixed, step: int, now: int) -> np.float32:
    """A step as seen from the present one: the scaled distance, less than 0 where it lies before."""
    return fixed.distance[step - now] if step >= now else -fixed.distance[now - step]


@kernel
def benefit_s(tables: Tables, state: GameState, b: int, now: int) -> float:
    """Seconds that buffer b saves beside what of its instruction lies in fast memory by now."""
    buffer = tables.buffer[b]
    # Of later instructions nothing is placed yet.
    read, write = 0, 0
    if buffer.step == now:
        read, write = state.game[0].fast_read_bytes, state.game[0].fast_write_bytes
    before_s = instruction_s(tables, buffer.step, read, write)
    return before_s - instruction_s(tables, buffer.step, read + buffer.read_bytes, write + buffer.write_bytes)
