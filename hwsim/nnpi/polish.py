"""Local search on the real latency model: better maps near a given one.

Source: simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 1983) with geometric cooling and restarts from
the best map. The neighbourhoods follow the execution order, in which networks repeat themselves.

Deviations: every proposal is rectified before it is measured and what was measured becomes the state, so that the
walk never leaves the valid maps. The temperature is a share of the current cost, not an energy.

One step proposes one map:

    flip    one tensor to another memory, or back to where it would like to be: one faster
    swap    two tensors close to each other in execution order exchange their memories
    block   the weights (or activations) of up to BLOCK consecutive ops all go to one memory
    copy    a run of ops takes over the memories of another run of ops of the same length
    pair    one tensor to a faster memory and another tensor of that memory to a slower one
    room    one or two weights exchange memories, and activations that no longer fit go to other memories that
            have room at all their steps, faster ones first (the compiler alone would only send them to slower ones)
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import uniform
from hwsim.nnpi.latency import Trace, _latency, trace_latency
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Tables
from hwsim.problem import Mapping16

HOT = 2e-3
COLD = 2e-6
"""Shares of the cost: temperatures at the beginning and at the end of an annealing."""

NEAR = 24
BLOCK = 16
SLICE = 20_000
"""Steps between two looks at the clock."""

_RESTART = 0x9E3779B97F4A7C15


@kernel
def _make_room(tables: Tables, mapping: Mapping16, usage: NDArray[np.int64]) -> None:
    """Move activations of a map int16 [N, 2], in place, from memories that overflow to others that have room.

    `usage` int64 [L, N] is scratch: bytes held in each memory at each step.
    """
    ops, levels = len(mapping), len(tables.capacity_bytes)
    usage[:] = 0
    for i in range(ops):
        if mapping[i, 0] > 0:
            usage[mapping[i, 0], 0] += tables.weight_bytes[i]
    for m in range(levels):
        usage[m, 1:] = usage[m, 0]
    for i in range(ops):
        m = mapping[i, 1]
        if m > 0:
            for step in range(i, tables.last_use[i] + 1):
                usage[m, step] += tables.activation_bytes[i]
    for i in range(ops):
        m = mapping[i, 1]
        if m <= 0:
            continue
        last = tables.last_use[i] + 1
        if usage[m, i:last].max() <= tables.capacity_bytes[m]:
            continue
        size = tables.activation_bytes[i]
        for to in range(levels - 1, 0, -1):
            if to != m and usage[to, i:last].max() + size <= tables.capacity_bytes[to]:
                usage[m, i:last] -= size
                usage[to, i:last] += size
                mapping[i, 1] = to
                break


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
    levels = len(tables.capacity_bytes)
    ops, count = start.shape[1], len(tensors)
    traffic = np.zeros(levels, np.int64)
    usage = np.zeros((levels, ops), np.int64)
    current = start.copy()
    cost = _latency(tables, current[0], traffic, trace)
    best, best_cost = current.copy(), cost
    begin, end, whole = steps
    heads = np.nonzero(tensors[:, 1] == 0)[0]
    weights = len(heads)
    one = np.uint64(1)
    for step in range(begin, end):
        draw = np.uint64(step) * np.uint64(8)
        kind = uniform(key, draw)
        u = uniform(key, draw + one)
        v = uniform(key, draw + np.uint64(2))
        w = uniform(key, draw + np.uint64(3))
        x = uniform(key, draw + np.uint64(4))
        proposal = current.copy()
        map_ = proposal[0]
        k = int(u * count)
        i, h = tensors[k, 0], tensors[k, 1]
        if kind < 0.35:
            map_[i, h] = (map_[i, h] + 1 + int(v * (levels - 1))) % levels
        elif kind < 0.65:
            other = min(max(k + int((2.0 * v - 1.0) * NEAR), 0), count - 1)
            if w < 0.3:
                other = int(v * count)
            j, g = tensors[other, 0], tensors[other, 1]
            if map_[i, h] == map_[j, g]:
                continue
            map_[i, h], map_[j, g] = map_[j, g], map_[i, h]
        elif kind < 0.75:
            length = 2 + int(v * (BLOCK - 1))
            memory = int(w * levels)
            for j in range(i, min(i + length, ops)):
                if map_[j, h] >= 0:
                    map_[j, h] = memory
        elif kind < 0.85:
            length = 1 + int(v * BLOCK)
            far = int(w * ops)
            for d in range(length):
                if i + d >= ops or far + d >= ops:
                    break
                for g in range(2):
                    if map_[i + d, g] >= 0 and current[0, far + d, g] >= 0:
                        map_[i + d, g] = current[0, far + d, g]
        elif kind < 0.92:
            other = int(v * count)
            j, g = tensors[other, 0], tensors[other, 1]
            if map_[i, h] >= map_[j, g]:
                continue
            map_[i, h] = map_[j, g]
            map_[j, g] -= 1
        else:
            if weights == 0:
                continue
            i = tensors[heads[int(u * weights)], 0]
            j = tensors[heads[int(v * weights)], 0]
            if w < 0.5:
                map_[i, 0] = (map_[i, 0] + 1 + int(2.0 * w * (levels - 1))) % levels
            elif map_[i, 0] == map_[j, 0]:
                continue
            else:
                map_[i, 0], map_[j, 0] = map_[j, 0], map_[i, 0]
            _make_room(tables, map_, usage)
        proposal = rectify(tables, proposal)[0]
        new = _latency(tables, proposal[0], traffic, trace)
        hot = cost * temperature[0] * (temperature[1] / temperature[0]) ** (step / whole)
        if new <= cost or x < math.exp((cost - new) / hot):
            current, cost = proposal, new
            if cost < best_cost:
                best, best_cost = current.copy(), cost
    return best, best_cost, current, cost


def polish(
    tables: Tables,
    mapping: Mapping16,
    *,
    steps: int = 200_000,
    seconds: float | None = None,
    key: int = 0,
    restarts: int = 1,
    hot: float = HOT,
) -> tuple[Mapping16, float]:
    """A valid map at least as fast as what the compiler makes of the given one.

    Args:
        tables: the workload on the chip.
        mapping: int16 [N, 2], canonical.
        steps: proposals of all annealings together. Equal steps and key give equal maps.
        seconds: stop then, however many steps are left (with it a result depends on the machine).
        key: of the random draws, 0 <= key < 2**64.
        restarts: annealings, each from the best map so far, each half as hot as the one before.
        hot: temperature of the first one at its beginning, a share of the cost.

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
    tensors = np.argwhere(np.stack([tables.weight_bytes, tables.activation_bytes], axis=1) > 0)
    if not len(tensors):
        return best[0], best_s
    nothing = Trace.empty(0, len(tables.capacity_bytes))
    each = max(steps // restarts, 1)
    for run in range(restarts):
        state = best
        stream = np.uint64((key + run * _RESTART) % 2**64)
        warm = max(hot * 0.5**run, COLD)
        for begin in range(0, each, SLICE):
            if time.monotonic() >= until:
                return best[0], best_s
            limits = (begin, min(begin + SLICE, each), each)
            found, found_s, state, _ = _anneal(tables, state, tensors, nothing, limits, (warm, COLD), stream)
            if found_s < best_s:
                best, best_s = found, found_s
    return best[0], best_s
