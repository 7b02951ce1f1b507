"""Local search on the real latency model: better maps near a given one.

Source: simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 1983) with geometric cooling and restarts from the
best map.

Deviations: every proposal is rectified before it is measured and what was measured becomes the state, so that the
walk never leaves the valid maps. The temperature is a share of the current cost, not an energy.

A step is one move, which changes one mapping: one of `hwsim.order_moves`, or

    room    one or two weights exchange memories, and activations that no longer fit go to other memories that
            have room at all their steps, faster ones first (the compiler alone would only send them to slower ones)
    repack  one weight exchanges its memory with several smaller ones that hold about as many bytes, then as in room:
            in a full memory no chain of exchanges of two leads there without a much slower map in between
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import uniform
from hwsim.nnpi.latency import Trace, inference_seconds, trace_latency
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Tables, decisions
from hwsim.order_moves import PAIR, move_in_order
from hwsim.problem import Mapping16

DRAWS = 8
"""Random numbers set apart for a step; a move uses the first four, and the one after CHANCE."""
CHANCE = 4
"""The number of the draw that decides whether a move is taken."""
REPACK = 0.92
"""From `PAIR` on, a step repacks if its first random number is below REPACK; else it makes room."""
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
    """Change a mapping int16 [N, 2], equal to `before`, in place; False if nothing came of it.

    `tensors` int64 [K, 2] are the live decisions, `weight_ops` the ops with a weight, `usage` int64 [L, N] is scratch.
    The draws depend on the step's number alone, so that slices of an annealing add up to the whole.
    """
    levels = len(usage)
    draw = np.uint64(step) * np.uint64(DRAWS)
    kind = uniform(key, draw)
    u = uniform(key, draw + np.uint64(1))
    v = uniform(key, draw + np.uint64(2))
    w = uniform(key, draw + np.uint64(3))
    if kind < PAIR:
        return move_in_order(before, mapping, tensors, levels, kind, (u, v, w))
    if kind < REPACK:
        draws = (u, v, w, uniform(key, draw + np.uint64(CHANCE + 1)))
        changed = _repack(tables, mapping, weight_ops, levels, draws)
    else:
        changed = _move_weights(mapping, weight_ops, levels, u, v, w)
    if changed:
        _make_room(tables, mapping, usage)
    return changed


HOT = 2e-3
COLD = 2e-6
"""Shares of the cost: temperatures at the beginning and at the end of an annealing."""

SLICE, OPS_A_SLICE = 2_000, 1_000_000
"""Steps between two looks at the clock, and how many ops these may measure together."""

_RESTART = 0x9E3779B97F4A7C15


@kernel
def _anneal(
    tables: Tables,
    start: Mapping16,
    tensors: NDArray[np.int64],
    trace: Trace,
    steps: tuple[int, int, int],
    temperature: tuple[float, float],
    key: np.uint64,
) -> tuple[Mapping16, float, Mapping16, float]:
    """Steps steps[0] .. steps[1] - 1 of an annealing of steps[2]; the best map, its cost, the last map, its cost."""
    levels, ops = len(tables.capacity_bytes), start.shape[1]
    traffic, transfers = np.zeros(levels), np.zeros(levels, np.int64)
    usage = np.zeros((levels, ops), np.int64)
    weight_ops = tensors[np.nonzero(tensors[:, 1] == 0)[0], 0]
    current = start.copy()
    cost = inference_seconds(tables, current[0], traffic, transfers, trace)
    best, best_cost = current.copy(), cost
    begin, end, whole = steps
    for step in range(begin, end):
        proposal = current.copy()
        if not move(tables, current[0], proposal[0], tensors, weight_ops, usage, key, step):
            continue
        chance = uniform(key, np.uint64(step) * np.uint64(DRAWS) + np.uint64(CHANCE))

        # Only maps that run are measured, and what was measured becomes the state.
        proposal = rectify(tables, proposal)[0]
        new = inference_seconds(tables, proposal[0], traffic, transfers, trace)
        # Metropolis: a slower map is taken too, the less likely the slower it is and the colder the walk.
        hot = cost * temperature[0] * (temperature[1] / temperature[0]) ** (step / whole)
        if new <= cost or chance < math.exp((cost - new) / hot):
            current, cost = proposal, new
            if cost < best_cost:
                best, best_cost = current.copy(), cost
    return best, best_cost, current, cost


def anneal(
    tables: Tables,
    mapping: Mapping16,
    *,
    steps: int = 200_000,
    seconds: float | None = None,
    key: int = 0,
    restarts: int = 1,
    hot: float = HOT,
    enough_s: float = 0.0,
) -> tuple[Mapping16, float]:
    """A valid map at least as fast as what the compiler makes of the given one.

    Args:
        tables: the workload on the chip.
        mapping: int16 [N, 2], canonical.
        steps: proposals of all annealings together. Equal steps and key give equal maps.
        seconds: stop then. If that is too short for all steps there are fewer, and each annealing still ends cold
            (with it a result depends on the machine).
        key: of the random draws, 0 <= key < 2**64.
        restarts: annealings, each from the best map so far, each half as hot as the one before.
        hot: temperature of the first one at its beginning, a share of the cost.
        enough_s: end when a map of this latency or less is found, which is looked at every some thousand proposals.

    Returns:
        int16 [N, 2] and its noise-free latency in seconds.

    Raises:
        ValueError: a wrong shape or dtype, or `steps` or `restarts` not positive.
    """
    if mapping.dtype != np.int16 or mapping.shape != (len(tables.weight_bytes), 2):
        raise ValueError(
            f"mapping: expected int16 of shape ({len(tables.weight_bytes)}, 2), "
            f"received {mapping.dtype} of shape {mapping.shape}"
        )
    if steps < 1 or restarts < 1:
        raise ValueError(f"steps, restarts: expected positive numbers, received {steps} and {restarts}")
    until = math.inf if seconds is None else time.monotonic() + seconds
    best = rectify(tables, np.ascontiguousarray(mapping)[None])[0]
    best_s = trace_latency(tables, best[0])[0]
    tensors = decisions(tables)
    if not len(tensors):
        return best[0], best_s
    for run in range(restarts):
        before = time.monotonic()
        if before >= until or best_s <= enough_s:
            break
        stream = np.uint64((key + run * _RESTART) % 2**64)
        deadline = before + (until - before) / (restarts - run)
        warm = max(hot * 0.5**run, COLD)
        limits = (deadline, enough_s)
        found, found_s = _annealing(tables, best, tensors, max(steps // restarts, 1), warm, stream, limits)
        if found_s < best_s:
            best, best_s = found, found_s
    return best[0], best_s


def _annealing(
    tables: Tables,
    start: Mapping16,
    tensors: NDArray[np.int64],
    steps: int,
    warm: float,
    stream: np.uint64,
    limits: tuple[float, float],
) -> tuple[Mapping16, float]:
    """The best map [1, N, 2] of one annealing and its cost: as many steps as there is time for, ending cold.

    `limits`: when to stop by `time.monotonic`, and the cost that is enough.
    """
    deadline, enough_s = limits
    untraced = Trace.empty(0, len(tables.capacity_bytes))
    length = min(SLICE, max(OPS_A_SLICE // start.shape[1], 1))
    best, best_s, state, begin, whole = start, math.inf, start, 0, steps
    while begin < whole and best_s > enough_s:
        before, end = time.monotonic(), min(begin + length, whole)
        span = (begin, end, whole)
        found, found_s, state, _ = _anneal(tables, state, tensors, untraced, span, (warm, COLD), stream)
        if found_s < best_s:
            best, best_s = found, found_s
        if deadline < math.inf:
            now = time.monotonic()
            whole = min(steps, end + int((deadline - now) * (end - begin) / max(now - before, 1e-9)))
        begin = end
    return best, best_s
