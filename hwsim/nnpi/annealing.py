"""Local search on the real latency model: better maps near a given one.

Source: simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 1983) with geometric cooling and restarts from the
best map.

Deviations: every proposal is rectified before it is measured and what was measured becomes the state, so that the
walk never leaves the valid maps. The temperature is a share of the current cost, not an energy.

A step is one of the moves of `hwsim.memory_moves`.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.memory_moves import Held, is_taken, move
from hwsim.nnpi.latency import Trace, inference_seconds, trace_latency
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Tables, decisions
from hwsim.problem import Mapping16

HOT = 2e-3
COLD = 2e-6
"""Shares of the cost: temperatures at the beginning and at the end of an annealing."""

SLICE, OPS_A_SLICE = 2_000, 1_000_000
"""Steps between two looks at the clock, and how many ops these may measure together."""

_RESTART = 0x9E3779B97F4A7C15


@kernel
def held_by(tables: Tables) -> Held:
    """What weights (head 0) and activations hold, and when."""
    ops = len(tables.weight_bytes)
    size, first, last = (
        np.empty((ops, 2), np.int64),
        np.zeros((ops, 2), np.int64),
        np.empty((ops, 2), np.int64),
    )
    size[:, 0], size[:, 1] = tables.weight_bytes, tables.activation_bytes
    first[:, 1] = np.arange(ops)
    last[:, 0], last[:, 1] = ops - 1, tables.last_use
    return Held(size, first, last, tables.capacity_bytes)


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
    held, free = held_by(tables), np.zeros((levels, ops), np.int64)
    weights = tensors[np.nonzero(tensors[:, 1] == 0)[0]]
    current = start.copy()
    cost = inference_seconds(tables, current[0], traffic, transfers, trace)
    best, best_cost = current.copy(), cost
    begin, end, whole = steps
    for step in range(begin, end):
        proposal = current.copy()
        if not move(held, current[0], proposal[0], tensors, weights, free, key, step):
            continue
        # Only maps that run are measured, and what was measured becomes the state.
        proposal = rectify(tables, proposal)[0]
        new = inference_seconds(tables, proposal[0], traffic, transfers, trace)
        if is_taken(cost, new, temperature, step, whole, key):
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
