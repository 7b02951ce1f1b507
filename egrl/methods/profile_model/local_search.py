"""Local search on a learned model of op times: 10^5 proposals per second at 400 ops.

Source: simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 1983) with geometric cooling.

Deviations: every proposal is repaired, as compilers do it, before its cost is predicted: nodes in order, each tensor
in the fastest memory from the wanted one downwards that has room. The temperature is a share of the current cost. The
moves are those of `hwsim.order_moves`; and tensors that are always held are exchanged, one for another or for several,
and the search makes room for them.

Only ops whose accesses or whose part of the bucket changed are computed again; the sum is over all.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from egrl.methods.profile_model.accesses import Accesses
from egrl.methods.profile_model.times import (
    Constants,
    fetched_bytes,
    free_bytes,
    op_seconds,
    quotient,
    wanted_bytes,
)
from hwsim.jit import inlined, kernel
from hwsim.keys import uniform
from hwsim.order_moves import PAIR, exchange, move_in_order
from hwsim.problem import Floats, Mapping16

SMALLEST = 16
"""A tensor is exchanged for others of at least its bytes over so many."""
REPACK = 0.92
"""From `PAIR` on, a step below REPACK exchanges one tensor with several, any other step with one."""
DRAWS = 8
"""Random numbers set apart for a step."""
COLD = 2e-6
"""The last temperature, a share of the cost."""
SECONDS, AHEAD, USED, WANTED = 0, 1, 2, 3
"""Rows of what is kept of every op."""


@kernel
def repair(accesses: Accesses, mapping: Mapping16, live: Floats, peak: Floats) -> None:
    """Move tensors of a mapping int16 [N, H] to slower memories, in place, until all fit; scratch float64 [L] each."""
    nodes, heads = accesses.tensor.shape
    live[:] = 0.0
    peak[:] = 0.0
    for i in range(nodes):
        for h in range(heads):
            m = mapping[i, h]
            if m < 0:
                continue
            size = accesses.tensor[i, h]
            always = accesses.first[i, h] == 0 and accesses.last[i, h] == nodes - 1
            # What is held always needs its bytes at the fullest step so far, too.
            while m > 0 and (peak[m] if always else live[m]) + size > accesses.capacity[m]:
                m -= 1
            mapping[i, h] = m
            live[m] += size
            if always:
                peak[m] += size
            else:
                peak[m] = max(peak[m], live[m])
        for e in range(accesses.end_start[i], accesses.end_start[i + 1]):
            j, h = accesses.end_node[e], accesses.end_head[e]
            live[mapping[j, h]] -= accesses.tensor[j, h]


@kernel
def make_room(accesses: Accesses, mapping: Mapping16, free: Floats) -> None:
    """Move passing tensors from memories that overflow to others with room, in place; `free` float64 [L, N] scratch."""
    nodes, heads = accesses.tensor.shape
    overflow = False
    for m in range(len(free)):
        free_bytes(accesses, mapping, m, free[m])
        overflow |= m > 0 and free[m].min() < 0.0
    if not overflow:
        return
    for i in range(nodes):
        for h in range(heads):
            m = mapping[i, h]
            begin, end = accesses.first[i, h], accesses.last[i, h] + 1
            if m <= 0 or end - begin == nodes or free[m, begin:end].min() >= 0.0:
                continue
            size = accesses.tensor[i, h]
            for to in range(len(free) - 1, 0, -1):
                if to != m and free[to, begin:end].min() >= size:
                    free[m, begin:end] += size
                    free[to, begin:end] -= size
                    mapping[i, h] = to
                    break


@inlined
def _repack(
    accesses: Accesses,
    mapping: Mapping16,
    always: NDArray[np.int64],
    draws: tuple[float, float, float, float],
) -> bool:
    """Exchange an always-held tensor's memory with that of several smaller ones; False: there are none."""
    count, levels = len(always), len(accesses.capacity)
    k = int(draws[0] * count)
    i, h = always[k, 0], always[k, 1]
    home = mapping[i, h]
    away = (home + 1 + int(draws[1] * (levels - 1))) % levels
    size = accesses.tensor[i, h]
    at = int(draws[2] * count)
    stride = 1 + max(0, int((2.0 * draws[3] - 1.0) * count))
    left = size
    for _ in range(count):
        j, other = always[at, 0], always[at, 1]
        at = (at + stride) % count
        held = accesses.tensor[j, other]
        if mapping[j, other] == away and held <= left and held * SMALLEST >= size:
            mapping[j, other] = home
            left -= held
            if left * SMALLEST < size:
                break
    if left == size:
        return False
    mapping[i, h] = away
    return True


@inlined
def _move_always(
    accesses: Accesses,
    mapping: Mapping16,
    always: NDArray[np.int64],
    several: bool,
    draws: tuple[float, float, float, float],
) -> bool:
    """Put an always-held tensor elsewhere, or exchange it with another one or `several`; False: nothing changed."""
    count, levels = len(always), len(accesses.capacity)
    if count == 0:
        return False
    if several:
        return _repack(accesses, mapping, always, draws)
    one, other, kind = int(draws[0] * count), int(draws[1] * count), draws[2]
    if kind >= 0.5:
        return exchange(mapping, always[one], always[other])
    # Below 1/2, 2 * kind is uniform again: it picks one of the other memories.
    i, h = always[one, 0], always[one, 1]
    mapping[i, h] = (mapping[i, h] + 1 + int(2.0 * kind * (levels - 1))) % levels
    return True


@inlined
def _move(
    accesses: Accesses,
    before: Mapping16,
    mapping: Mapping16,
    tensors: NDArray[np.int64],
    always: NDArray[np.int64],
    free: Floats,
    key: np.uint64,
    step: int,
) -> bool:
    """Change a mapping int16 [N, H], equal to `before`, in place; False if nothing came of it."""
    draw = np.uint64(step) * np.uint64(DRAWS)
    kind, u = uniform(key, draw), uniform(key, draw + np.uint64(1))
    v, w = uniform(key, draw + np.uint64(2)), uniform(key, draw + np.uint64(3))
    if kind < PAIR:
        return move_in_order(before, mapping, tensors, len(accesses.capacity), kind, (u, v, w))
    draws = (u, v, w, uniform(key, draw + np.uint64(5)))
    if not _move_always(accesses, mapping, always, kind < REPACK, draws):
        return False
    make_room(accesses, mapping, free)
    return True


@inlined
def _recost(
    accesses: Accesses,
    constants: Constants,
    mapping: Mapping16,
    changed: NDArray[np.bool_],
    old: Floats,
    new: Floats,
    free: Floats,
    tau: Floats,
) -> float:
    """Seconds of all ops; `new` float64 [4, N] is filled from `old` where nothing changed.

    `changed` bool [N] marks ops whose accesses lie elsewhere. The loop is that of `times.predict`.
    """
    nodes = len(changed)
    if constants.into >= 0:
        free_bytes(accesses, mapping, constants.into, free)
    later = 0.0
    for i in range(nodes):
        new[WANTED, i] = wanted_bytes(accesses, constants, mapping, i) if changed[i] else old[WANTED, i]
        later += new[WANTED, i]
    total, held = 0.0, 0.0
    for i in range(nodes):
        room = max(0.0, constants.room + constants.free_share * free[i])
        held = min(held, room)
        wanted = new[WANTED, i]
        used = min(held, wanted)
        new[USED, i] = used
        if changed[i] or used != old[USED, i]:
            new[SECONDS, i] = op_seconds(accesses, constants, mapping, i, used, wanted, tau)
            new[AHEAD, i] = fetched_bytes(constants, new[SECONDS, i], tau)
        else:
            new[SECONDS, i] = old[SECONDS, i]
            new[AHEAD, i] = old[AHEAD, i]
        total += new[SECONDS, i]
        later -= wanted
        held = max(0.0, min(held - used + new[AHEAD, i], min(room - used, later)))
    return total


@kernel
def _anneal(
    accesses: Accesses,
    constants: Constants,
    start: Mapping16,
    tensors: NDArray[np.int64],
    always: NDArray[np.int64],
    steps: int,
    hot: float,
    key: np.uint64,
) -> tuple[Mapping16, float]:
    nodes, heads = start.shape
    levels = len(accesses.capacity)
    live, peak, tau = np.zeros(levels), np.zeros(levels), np.zeros(2 * levels)
    free, rooms = np.zeros(nodes), np.zeros((levels, nodes))
    old, new = np.zeros((4, nodes)), np.zeros((4, nodes))
    changed = np.ones(nodes, np.bool_)
    current = start.copy()
    repair(accesses, current, live, peak)
    cost = _recost(accesses, constants, current, changed, old, new, free, tau)
    old, new = new, old
    best, best_cost, trial = current.copy(), cost, current.copy()
    for step in range(steps):
        trial[:] = current
        if not _move(accesses, current, trial, tensors, always, rooms, key, step):
            continue
        repair(accesses, trial, live, peak)
        changed[:] = False
        same = True
        for i in range(nodes):
            for h in range(heads):
                if trial[i, h] != current[i, h]:
                    same = False
                    at = i * heads + h
                    for e in range(accesses.reader_start[at], accesses.reader_start[at + 1]):
                        changed[accesses.reader[e]] = True
        if same:
            continue
        found = _recost(accesses, constants, trial, changed, old, new, free, tau)
        warm = cost * hot * quotient(COLD, hot) ** quotient(step, steps)
        chance = uniform(key, np.uint64(step) * np.uint64(DRAWS) + np.uint64(4))
        if found <= cost or chance < math.exp(quotient(cost - found, warm)):
            cost = found
            current, trial = trial, current
            old, new = new, old
            if cost < best_cost:
                best_cost = cost
                best[:] = current
    return best, best_cost


def anneal(
    accesses: Accesses, constants: Constants, start: Mapping16, *, steps: int, hot: float, key: int
) -> tuple[Mapping16, float]:
    """The best mapping int16 [N, H] of so many steps from `start` [N, H], and its predicted seconds.

    `hot` is the first temperature, a share of the cost. Equal arguments give equal mappings.
    """
    nodes = len(accesses.output)
    tensors = np.argwhere(accesses.tensor > 0)
    at = tensors[:, 0], tensors[:, 1]
    always = tensors[(accesses.first[at] == 0) & (accesses.last[at] == nodes - 1)]
    found, cost = _anneal(
        accesses, constants, start.astype(np.int16), tensors, always, steps, hot, np.uint64(key)
    )
    return found, float(cost)
