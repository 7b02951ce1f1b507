"""The moves of local search on the real latency model: one step changes one mapping.

The neighbourhoods follow the execution order, in which networks repeat themselves:

    flip    one tensor to another memory, or back to where it would like to be: one faster
    swap    two tensors close to each other in execution order exchange their memories
    block   the weights (or activations) of up to BLOCK consecutive ops all go to one memory
    copy    a run of ops takes over the memories of another run of ops of the same length
    pair    one tensor to a faster memory and another tensor of that memory to a slower one
    room    one or two weights exchange memories, and activations that no longer fit go to other memories that
            have room at all their steps, faster ones first (the compiler alone would only send them to slower ones)
    repack  one weight exchanges its memory with several smaller ones that hold about as many bytes, then as in room:
            in a full memory no chain of exchanges of two leads there without a much slower map in between
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import uniform
from hwsim.nnpi.tables import Tables
from hwsim.problem import Mapping16

NEAR = 24
"""A near tensor is less than so many tensors away in execution order."""
BLOCK = 16
"""A block or a copied run is at most so many ops long."""
DRAWS = 8
"""Random numbers set apart for a step; a move uses the first four, and the one after CHANCE."""
CHANCE = 4
"""The number of the draw that decides whether a move is taken."""
FLIP, SWAP, FILL, COPY, PAIR, REPACK = 0.33, 0.61, 0.71, 0.81, 0.88, 0.92
"""A step flips where its first random number is below FLIP, swaps below SWAP, and so on; else it makes room."""
SMALLEST = 16
"""A weight is exchanged for others of at least its bytes over so many: biases beside matrices change nothing."""


@kernel
def _bytes_held(tables: Tables, mapping: Mapping16, usage: NDArray[np.int64]) -> None:
    """Fill `usage` int64 [L, N] with the bytes that a map int16 [N, 2] holds in each memory at each step.

    Row 0 stays 0: the slowest memory holds everything.
    """
    ops, levels = len(mapping), len(tables.capacity_bytes)
    usage[:] = 0
    # First what begins at a step less what ended before it, then sums of that; a weight begins at step 0.
    for i in range(ops):
        if mapping[i, 0] > 0:
            usage[mapping[i, 0], 0] += tables.weight_bytes[i]
        m = mapping[i, 1]
        if m > 0:
            usage[m, i] += tables.activation_bytes[i]
            if tables.last_use[i] + 1 < ops:
                usage[m, tables.last_use[i] + 1] -= tables.activation_bytes[i]
    for m in range(levels):
        for step in range(1, ops):
            usage[m, step] += usage[m, step - 1]


@kernel
def _make_room(tables: Tables, mapping: Mapping16, usage: NDArray[np.int64]) -> None:
    """Move activations of a map int16 [N, 2], in place, from memories that overflow to others that have room.

    `usage` int64 [L, N] is scratch. It follows every move, so that a later activation sees what is left.
    """
    ops, levels = len(mapping), len(tables.capacity_bytes)
    _bytes_held(tables, mapping, usage)
    for i in range(ops):
        m = mapping[i, 1]
        if m <= 0:
            continue
        last = tables.last_use[i] + 1
        if usage[m, i:last].max() <= tables.capacity_bytes[m]:
            continue
        size = tables.activation_bytes[i]
        # Fastest first. Where nothing has room the activation stays, and the compiler moves it to a slower memory.
        for to in range(levels - 1, 0, -1):
            if to != m and usage[to, i:last].max() + size <= tables.capacity_bytes[to]:
                usage[m, i:last] -= size
                usage[to, i:last] += size
                mapping[i, 1] = to
                break


@kernel
def _fill_run(mapping: Mapping16, head: int, begin: int, length: int, memory: int) -> None:
    """The tensors of one kind of `length` ops from `begin` on all go to one memory."""
    for i in range(begin, min(begin + length, len(mapping))):
        if mapping[i, head] >= 0:
            mapping[i, head] = memory


@kernel
def _copy_run(mapping: Mapping16, before: Mapping16, target: int, source: int, length: int) -> None:
    """`length` ops from `target` on take over the memories of those from `source` on, weights and activations.

    `before` is the map as it was, since the runs may overlap.
    """
    for d in range(min(length, len(mapping) - max(target, source))):
        for head in range(2):
            # Only where both ops have such a tensor: a decision without one stays -1.
            if mapping[target + d, head] >= 0 and before[source + d, head] >= 0:
                mapping[target + d, head] = before[source + d, head]


@kernel
def _move_weights(
    mapping: Mapping16, weight_ops: NDArray[np.int64], levels: int, u: float, v: float, w: float
) -> bool:
    """Put one weight into another memory, or exchange those of two, by three random numbers; False: nothing changed."""
    count = len(weight_ops)
    if count == 0:
        return False
    i, j = weight_ops[int(u * count)], weight_ops[int(v * count)]
    if w < 0.5:
        # Below 1/2, 2 * w is uniform again: it picks one of the levels - 1 other memories.
        mapping[i, 0] = (mapping[i, 0] + 1 + int(2.0 * w * (levels - 1))) % levels
    elif mapping[i, 0] == mapping[j, 0]:
        return False
    else:
        mapping[i, 0], mapping[j, 0] = mapping[j, 0], mapping[i, 0]
    return True


@kernel
def _repack(
    tables: Tables,
    mapping: Mapping16,
    weight_ops: NDArray[np.int64],
    levels: int,
    draws: tuple[float, float, float, float],
) -> bool:
    """Exchange the memory of one weight with that of several smaller ones, in place; False: there are none.

    `draws`, four random numbers, pick the weight, the other memory, where the search for others begins, and its stride.
    """
    count = len(weight_ops)
    if count == 0:
        return False
    i = weight_ops[int(draws[0] * count)]
    home = mapping[i, 0]
    away = (home + 1 + int(draws[1] * (levels - 1))) % levels
    size = tables.weight_bytes[i]
    # From a random weight on: half of the time the following ones (those of a layer), else with a random stride.
    at = int(draws[2] * count)
    stride = 1 + max(0, int((2.0 * draws[3] - 1.0) * count))
    left = size
    for _ in range(count):
        j = weight_ops[at]
        at = (at + stride) % count
        # What was moved is at home now, so that a stride that comes back takes nothing twice.
        if (
            mapping[j, 0] == away
            and tables.weight_bytes[j] <= left
            and tables.weight_bytes[j] * SMALLEST >= size
        ):
            mapping[j, 0] = home
            left -= tables.weight_bytes[j]
            if left * SMALLEST < size:
                break
    if left == size:
        return False
    mapping[i, 0] = away
    return True


@kernel
def move(
    tables: Tables,
    before: Mapping16,
    mapping: Mapping16,
    tensors: NDArray[np.int64],
    weight_ops: NDArray[np.int64],
    usage: NDArray[np.int64],
    key: np.uint64,
    step: int,
) -> bool:
    """Change a mapping int16 [N, 2], equal to `before`, in place; False where nothing came of it.

    `tensors` int64 [K, 2] are the live decisions, `weight_ops` the ops with a weight, `usage` int64 [L, N] is scratch.
    The draws depend on the step's number alone, so that slices of an annealing add up to the whole.
    """
    levels, ops, count = len(usage), len(mapping), len(tensors)
    # What v and w decide depends on the kind of move; u always picks the first tensor.
    draw = np.uint64(step) * np.uint64(DRAWS)
    kind = uniform(key, draw)
    u = uniform(key, draw + np.uint64(1))
    v = uniform(key, draw + np.uint64(2))
    w = uniform(key, draw + np.uint64(3))
    k = int(u * count)
    i, head = tensors[k, 0], tensors[k, 1]
    if kind < FLIP:
        # One of the levels - 1 other memories.
        mapping[i, head] = (mapping[i, head] + 1 + int(v * (levels - 1))) % levels
    elif kind < SWAP:
        # Mostly with a near tensor; now and then with any, so that far ones can meet.
        partner = min(max(k + int((2.0 * v - 1.0) * NEAR), 0), count - 1)
        if w < 0.3:
            partner = int(v * count)
        j, other_head = tensors[partner, 0], tensors[partner, 1]
        if mapping[i, head] == mapping[j, other_head]:
            return False
        mapping[i, head], mapping[j, other_head] = mapping[j, other_head], mapping[i, head]
    elif kind < FILL:
        _fill_run(mapping, head, i, 2 + int(v * (BLOCK - 1)), int(w * levels))
    elif kind < COPY:
        _copy_run(mapping, before, i, int(w * ops), 1 + int(v * BLOCK))
    elif kind < PAIR:
        partner = int(v * count)
        j, other_head = tensors[partner, 0], tensors[partner, 1]
        if mapping[i, head] >= mapping[j, other_head]:
            return False
        # The tensor takes the partner's faster memory; the partner goes one memory down.
        mapping[i, head] = mapping[j, other_head]
        mapping[j, other_head] -= 1
    else:
        draws = (u, v, w, uniform(key, draw + np.uint64(CHANCE + 1)))
        if kind < REPACK:
            changed = _repack(tables, mapping, weight_ops, levels, draws)
        else:
            changed = _move_weights(mapping, weight_ops, levels, u, v, w)
        if changed:
            _make_room(tables, mapping, usage)
        return changed
    return True
