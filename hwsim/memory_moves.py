"""Moves of local searches over memories, and the rule that takes them. Kernels.

Along the execution order, in which networks repeat themselves (`move_in_order`):

    flip    one tensor to another memory
    swap    two tensors exchange their memories, mostly two that are close to each other in execution order
    fill    the tensors of one head of up to `BLOCK` consecutive ops all go to one memory
    copy    a run of ops takes over the memories of another run of ops of the same length
    pair    one tensor to the faster memory of another tensor, which goes one memory down

Of tensors that are always held (weights), after which passing tensors that no longer fit go to memories that have room
at all their steps, faster ones first (a compiler alone would only send them to slower ones):

    repack  one exchanges its memory with several smaller ones that hold about as many bytes: in a full memory no chain
            of exchanges of two leads there without a much slower map in between
    room    one goes to another memory, or two exchange theirs

Shapes: N ops, H heads, L memories (slowest first, which holds everything), K tensors that are free to move, of which A
are always held.

Source of the rule: simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 1983) with geometric cooling.

Deviations: the temperature is a share of the current cost, not an energy.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import inlined, kernel
from hwsim.keys import uniform
from hwsim.problem import Mapping16

DRAWS = 8
"""Random numbers set apart for a step; a move uses the first four, and the one after CHANCE."""
CHANCE = 4
"""The number of the draw that decides whether a move is taken."""
REPACK = 0.92
"""From `PAIR` on, a step repacks if its first random number is below REPACK; else it makes room."""
SMALLEST = 16
"""A tensor is exchanged for others of at least its bytes over so many: biases beside matrices change nothing."""

NEAR, BLOCK = 24, 16
"""A near tensor is less than so many tensors away; a run is at most so many ops long."""
FLIP, SWAP, FILL, COPY, PAIR = 0.33, 0.61, 0.71, 0.81, 0.88
"""A step flips if its first random number is below FLIP, swaps if below SWAP, and so on."""


@kernel
def move_in_order(
    before: Mapping16,
    mapping: Mapping16,
    tensors: NDArray[np.int64],
    levels: int,
    kind: float,
    draws: tuple[float, float, float],
) -> bool:
    """Change a mapping int16 [N, H], equal to `before`, in place, by one of the moves; False: nothing changed.

    Args:
        before: int16 [N, H], the mapping as it was: the runs of a copy may overlap.
        tensors: int64 [K, 2], op and head of each.
        levels: number of memories, slowest first.
        kind: random number below `PAIR`, which picks the move.
        draws: three random numbers in [0, 1); the first picks the tensor.
    """
    u, v, w = draws
    count = len(tensors)
    k = int(u * count)
    i, head = tensors[k, 0], tensors[k, 1]
    if kind < FLIP:
        mapping[i, head] = (mapping[i, head] + 1 + int(v * (levels - 1))) % levels
    elif kind < SWAP:
        # Now and then with any tensor, so that far ones can meet.
        other = int(v * count) if w < 0.3 else min(max(k + int((2.0 * v - 1.0) * NEAR), 0), count - 1)
        return exchange(mapping, tensors[k], tensors[other])
    elif kind < FILL:
        for op in range(i, min(i + 2 + int(v * (BLOCK - 1)), len(mapping))):
            if mapping[op, head] >= 0:
                mapping[op, head] = int(w * levels)
    elif kind < COPY:
        source = int(w * len(mapping))
        for d in range(min(1 + int(v * BLOCK), len(mapping) - max(i, source))):
            for h in range(mapping.shape[1]):
                # Only if both ops have such a tensor: a decision without one stays -1.
                if mapping[i + d, h] >= 0 and before[source + d, h] >= 0:
                    mapping[i + d, h] = before[source + d, h]
    else:
        other = int(v * count)
        j, other_head = tensors[other, 0], tensors[other, 1]
        if mapping[i, head] >= mapping[j, other_head]:
            return False
        mapping[i, head] = mapping[j, other_head]
        mapping[j, other_head] -= 1
    return True


@kernel
def exchange(mapping: Mapping16, one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Two tensors, int64 [2] each, exchange their memories in place; False if they lie in the same one."""
    first, second = mapping[one[0], one[1]], mapping[other[0], other[1]]
    mapping[one[0], one[1]], mapping[other[0], other[1]] = second, first
    return bool(first != second)


class Held(NamedTuple):
    """What tensors hold, and when. Bytes, or shares of some tensor's bytes.

    Attributes:
        size: [N, H] of each tensor.
        first, last: int64 [N, H], the steps at which it is held (closed).
        capacity: [L].
    """

    size: NDArray[Any]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    capacity: NDArray[Any]


@kernel
def fill_free(held: Held, mapping: Mapping16, memory: int, free: NDArray[Any]) -> None:
    """Fill `free` [N]: what a mapping [N, H] leaves in a memory while each op runs; may be below 0."""
    nodes, heads = held.size.shape
    free[:] = 0
    for i in range(nodes):
        for h in range(heads):
            if mapping[i, h] == memory:
                free[held.first[i, h]] -= held.size[i, h]
                if held.last[i, h] + 1 < nodes:
                    free[held.last[i, h] + 1] += held.size[i, h]
    free[0] += held.capacity[memory]
    for i in range(1, nodes):
        free[i] += free[i - 1]


@kernel
def make_room(held: Held, mapping: Mapping16, free: NDArray[Any]) -> None:
    """Move passing tensors from memories that overflow to others with room, in place; `free` [L, N] is scratch.

    It follows every move, so that a later tensor sees what is left. Where nothing has room a tensor stays.
    """
    nodes, heads = held.size.shape
    overflow = False
    for m in range(1, len(free)):
        fill_free(held, mapping, m, free[m])
        overflow |= free[m].min() < 0
    if not overflow:
        return
    for i in range(nodes):
        for h in range(heads):
            m = mapping[i, h]
            begin, end = held.first[i, h], held.last[i, h] + 1
            if m <= 0 or end - begin == nodes or free[m, begin:end].min() >= 0:
                continue
            size = held.size[i, h]
            for to in range(len(free) - 1, 0, -1):
                if to != m and free[to, begin:end].min() >= size:
                    free[m, begin:end] += size
                    free[to, begin:end] -= size
                    mapping[i, h] = to
                    break


@kernel
def repack(
    held: Held, mapping: Mapping16, always: NDArray[np.int64], draws: tuple[float, float, float, float]
) -> bool:
    """Exchange the memory of one tensor with that of several smaller ones, in place; False: there are none.

    `always` int64 [A, 2]; `draws` pick the tensor, the other memory, where the search for others begins, its stride.
    """
    count, levels = len(always), len(held.capacity)
    k = int(draws[0] * count)
    i, h = always[k, 0], always[k, 1]
    home = mapping[i, h]
    away = (home + 1 + int(draws[1] * (levels - 1))) % levels
    size = held.size[i, h]
    # From a random tensor on: half of the time the following ones (those of a layer), else with a random stride.
    at = int(draws[2] * count)
    stride = 1 + max(0, int((2.0 * draws[3] - 1.0) * count))
    left = size
    for _ in range(count):
        j, g = always[at, 0], always[at, 1]
        at = (at + stride) % count
        # What was moved is at home now, so that a stride that comes back takes nothing twice.
        if mapping[j, g] == away and held.size[j, g] <= left and held.size[j, g] * SMALLEST >= size:
            mapping[j, g] = home
            left -= held.size[j, g]
            if left * SMALLEST < size:
                break
    if left == size:
        return False
    mapping[i, h] = away
    return True


@kernel
def _move_always(
    held: Held,
    mapping: Mapping16,
    always: NDArray[np.int64],
    several: bool,
    draws: tuple[float, float, float, float],
) -> bool:
    """Put one tensor elsewhere, or exchange it with another one or `several`; False: nothing changed."""
    count, levels = len(always), len(held.capacity)
    if count == 0:
        return False
    if several:
        return repack(held, mapping, always, draws)
    one, other, kind = int(draws[0] * count), int(draws[1] * count), draws[2]
    if kind >= 0.5:
        return exchange(mapping, always[one], always[other])
    # Below 1/2, 2 * kind is uniform again: it picks one of the other memories.
    i, h = always[one, 0], always[one, 1]
    mapping[i, h] = (mapping[i, h] + 1 + int(2.0 * kind * (levels - 1))) % levels
    return True


@kernel
def move(
    held: Held,
    before: Mapping16,
    mapping: Mapping16,
    tensors: NDArray[np.int64],
    always: NDArray[np.int64],
    free: NDArray[Any],
    key: np.uint64,
    step: int,
) -> bool:
    """Change a mapping int16 [N, H], equal to `before`, in place; False if nothing came of it.

    `tensors` int64 [K, 2], `always` int64 [A, 2] are op and head; `free` [L, N] is scratch. The draws depend on the
    step's number alone, so that slices of an annealing add up to the whole.
    """
    draw = np.uint64(step) * np.uint64(DRAWS)
    kind = uniform(key, draw)
    u = uniform(key, draw + np.uint64(1))
    v = uniform(key, draw + np.uint64(2))
    w = uniform(key, draw + np.uint64(3))
    if kind < PAIR:
        return move_in_order(before, mapping, tensors, len(held.capacity), kind, (u, v, w))
    draws = (u, v, w, uniform(key, draw + np.uint64(CHANCE + 1)))
    if not _move_always(held, mapping, always, kind < REPACK, draws):
        return False
    make_room(held, mapping, free)
    return True


@inlined
def is_taken(
    cost: float, found: float, temperature: tuple[float, float], step: int, steps: int, key: np.uint64
) -> bool:
    """Metropolis: a worse map is taken too, the less likely the worse it is and the colder the walk.

    `temperature` is the first and the last of `steps` steps, as shares of the cost.
    """
    warm = abs(cost) * temperature[0] * (temperature[1] / temperature[0]) ** (step / steps)
    chance = uniform(key, np.uint64(step) * np.uint64(DRAWS) + np.uint64(CHANCE))
    return found <= cost or chance < math.exp((cost - found) / warm)
