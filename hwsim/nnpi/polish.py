"""Local search on the real latency model: better maps near a given one.

Source: simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 1983) with geometric cooling and restarts from
the best map. A step is one of the moves of `hwsim.nnpi.local_moves`.

Deviations: every proposal is rectified before it is measured and what was measured becomes the state, so that the
walk never leaves the valid maps. The temperature is a share of the current cost, not an energy.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import uniform
from hwsim.nnpi.latency import Trace, inference_seconds, trace_latency
from hwsim.nnpi.local_moves import CHANCE, DRAWS, move
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Tables
from hwsim.problem import Mapping16

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
    traffic = np.zeros(levels)
    usage = np.zeros((levels, ops), np.int64)
    weight_ops = tensors[np.nonzero(tensors[:, 1] == 0)[0], 0]
    current = start.copy()
    cost = inference_seconds(tables, current[0], traffic, trace)
    best, best_cost = current.copy(), cost
    begin, end, whole = steps
    for step in range(begin, end):
        proposal = current.copy()
        if not move(tables, current[0], proposal[0], tensors, weight_ops, usage, key, step):
            continue
        chance = uniform(key, np.uint64(step) * np.uint64(DRAWS) + np.uint64(CHANCE))

        # Only maps that run are measured, and what was measured becomes the state.
        proposal = rectify(tables, proposal)[0]
        new = inference_seconds(tables, proposal[0], traffic, trace)
        # Metropolis: a slower map is taken too, the less likely the slower it is and the colder the walk.
        hot = cost * temperature[0] * (temperature[1] / temperature[0]) ** (step / whole)
        if new <= cost or chance < math.exp((cost - new) / hot):
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
        seconds: stop then. Where that is too short for all steps there are fewer, and each annealing still ends cold
            (with it a result depends on the machine).
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
    for run in range(restarts):
        before = time.monotonic()
        if before >= until:
            break
        stream = np.uint64((key + run * _RESTART) % 2**64)
        deadline = before + (until - before) / (restarts - run)
        warm = max(hot * 0.5**run, COLD)
        found, found_s = _annealing(tables, best, tensors, max(steps // restarts, 1), warm, stream, deadline)
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
    deadline: float,
) -> tuple[Mapping16, float]:
    """The best map [1, N, 2] of one annealing and its cost: as many steps as there is time for, ending cold."""
    untraced = Trace.empty(0, len(tables.capacity_bytes))
    length = min(SLICE, max(OPS_A_SLICE // start.shape[1], 1))
    best, best_s, state, begin, whole = start, math.inf, start, 0, steps
    while begin < whole:
        before, end = time.monotonic(), min(begin + length, whole)
        limits = (begin, end, whole)
        found, found_s, state, _ = _anneal(tables, state, tensors, untraced, limits, (warm, COLD), stream)
        if found_s < best_s:
            best, best_s = found, found_s
        if deadline < math.inf:
            now = time.monotonic()
            whole = min(steps, end + int((deadline - now) * (end - begin) / max(now - before, 1e-9)))
        begin = end
    return best, best_s
