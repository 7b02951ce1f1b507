"""The arrays of an observation while they are filled, what of them is the same in every state, and scales.

`hwsim/mmap/view/parts.py` has shapes, columns and ranges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.observation import SECONDS_SCALE, SIZE_SCALE, STEPS_SCALE
from hwsim.mmap.rules.state import GameState
from hwsim.mmap.tables import Tables, instruction_s
from hwsim.mmap.view.parts import LIMIT
from hwsim.stepwise import View

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
    """The arrays to fill, [B, …], in the order of `hwsim.mmap.view.parts.parts`.

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
