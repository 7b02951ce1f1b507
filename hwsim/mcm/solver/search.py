"""SAMPLE and FIX as a complete search: one decision at a time, its consequences, and back. Kernels.

Source: MCM paper, section 4.2, algorithms 1 (SAMPLE) and 2 (FIX).
Deviations:
- going back: the last decision is taken back and its chip removed, as in a depth-first search; the paper leaves it to
  CP-SAT;
- restarts: a random order is drawn anew after four decisions deeper than the last were taken back; after that the
  order is the graph's own, with twice as many allowed each time, and each chip of a domain gets half (then a quarter,
  ...) of the weight beside the one before it. Under the triangle rule an early wide spread can leave nothing to a large
  graph, which going back in a random order does not find out in time. Nothing that is valid becomes impossible by it.
  A given order is searched to its end with the weights as they are;
- a node whose probabilities leave nothing in its domain takes any of its chips, equally likely (SAMPLE);
- the nodes that FIX leaves for the end take any of their chips, equally likely, as in the paper; where going back
  reaches a node that had kept its chip, it is one of these from then on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim import keys
from hwsim.jit import kernel
from hwsim.mcm.solver.domains import LATEST, LENGTH, TOP, TRAIL, State, opened, restrict, undo
from hwsim.mcm.solver.draw import pick, shuffle
from hwsim.mcm.solver.propagate import propagate
from hwsim.mcm.solver.relations import Relations

VALID, INFEASIBLE, BUDGET = range(3)
FIRST_RESTART = 4
UNORDERED = 2


@kernel
def search(
    r: Relations,
    s: State,
    weights: NDArray[np.float32],
    wished: NDArray[np.int16],
    order: NDArray[np.int64],
    free_order: bool,
    key: np.uint64,
    budget: int,
    stop: NDArray[np.int64],
) -> tuple[int, int]:
    """One partition in `s.lo`; `s` is a propagated root and is at its end again when `undo` is called with its mark.

    Args:
        weights: float32 [N, C] for SAMPLE; [0, C] for FIX.
        wished: int16 [N] for FIX (-1: no wish); [0] for SAMPLE.
        order: int64 [N], the nodes; changed where `free_order`.
        free_order: whether the order is drawn from the key, and again at restarts.
        budget: decisions that may be taken back.
        stop: int64 [1], not 0 when time is over.

    Returns:
        VALID, INFEASIBLE (proved) or BUDGET, and the number of decisions taken back.
    """
    n = len(r.weight)
    sampling = len(weights) > 0
    any_chip = np.ones(r.chips, np.float32)
    levels = np.empty((n + 1, 7), np.int64)
    counter, failures, allowed, since = 0, 0, FIRST_RESTART, 0
    fall = 1.0
    root, root_latest, root_top = s.registers[TRAIL], s.registers[LATEST], s.registers[TOP]
    if free_order:
        counter = shuffle(order, key, counter)
    depth, at, second, attempts = 0, 0, 0, 0
    while True:
        if at == n:
            if sampling or second:
                return VALID, failures
            at, second = 0, 1
            continue
        v = order[at]
        if s.fixed[v]:
            at += 1
            continue
        keeping = not sampling and not second
        if keeping:
            chip = int(wished[v])
            if chip < 0 or not s.domain[v] >> chip & 1:
                at += 1
                continue
        else:
            where = keys.uniform(key, np.uint64(counter))
            counter += 1
            chip = pick(s.domain[v], weights[v] if sampling else any_chip, where, fall)
        levels[depth, 0], levels[depth, 1], levels[depth, 2] = at, second, s.registers[TRAIL]
        levels[depth, 3], levels[depth, 4] = s.registers[LATEST], s.registers[TOP]
        levels[depth, 5], levels[depth, 6] = v, chip
        depth += 1
        if restrict(r, s, v, 1 << chip) and propagate(r, s):
            continue
        alive, pops = False, 0
        while depth and not alive:
            depth -= 1
            at, second, v, chip = levels[depth, 0], levels[depth, 1], levels[depth, 5], levels[depth, 6]
            undo(r, s, levels[depth, 2])
            s.registers[LATEST], s.registers[TOP] = levels[depth, 3], levels[depth, 4]
            failures += 1
            since += pops
            pops = 1
            alive = restrict(r, s, v, s.domain[v] & ~(1 << chip)) and propagate(r, s)
        if not alive:
            return INFEASIBLE, failures
        if failures >= budget or stop[0]:
            return BUDGET, failures
        if free_order and depth and since >= allowed:
            undo(r, s, root)
            s.registers[LATEST], s.registers[TOP] = root_latest, root_top
            attempts += 1
            if attempts < UNORDERED:
                counter = shuffle(order, key, counter)
            else:
                order[:] = r.order
                fall *= 0.5
                allowed *= 2
            since, depth, at, second = 0, 0, 0, 0


@kernel
def rooted(r: Relations) -> tuple[State, bool]:
    """The state in which everything that follows from the graph alone is known; False where that is a contradiction."""
    s = opened(r)
    alive = True
    for v in range(len(r.weight)):
        keep = 0
        if r.earliest[v] <= r.latest[v]:
            keep = (1 << (r.latest[v] + 1)) - (1 << r.earliest[v])
        s.queued[v] = 1
        s.queue[v] = v
        alive = alive and restrict(r, s, v, keep)
    s.registers[LENGTH] = len(r.weight)
    return s, alive and propagate(r, s)


@kernel
def searches(
    r: Relations,
    weights: NDArray[np.float32],
    wished: NDArray[np.int16],
    orders: NDArray[np.int64],
    key: NDArray[np.uint64],
    budget: NDArray[np.int64],
    stop: NDArray[np.int64],
) -> tuple[NDArray[np.int16], NDArray[np.int64], NDArray[np.int64]]:
    """A partition a key: assignment int16 [B, N] (-1 where none), status int64 [B], decisions taken back int64 [B].

    `weights` [1 or B, N, C] for SAMPLE; `wished` [B, N] for FIX, [0, 0] for SAMPLE; `orders` [1 or B, N] or [0, N] for
    random ones; `budget` int64 [B], decisions that may be taken back; `stop` as in `search`.
    """
    count, n, free, fixing = len(key), len(r.weight), len(orders) == 0, len(wished) > 0
    out = np.full((count, n), -1, np.int16)
    status, failures = np.full(count, BUDGET, np.int64), np.zeros(count, np.int64)
    s, alive = rooted(r)
    root, latest, top = s.registers[TRAIL], s.registers[LATEST], s.registers[TOP]
    no_weights, no_wish = np.zeros((0, r.chips), np.float32), np.zeros(0, np.int16)
    order = np.empty(n, np.int64)
    for k in range(count):
        if not alive:
            status[k] = INFEASIBLE
        if stop[0] or not alive:
            continue
        for v in range(n):
            order[v] = v if free else orders[min(k, len(orders) - 1), v]
        p = no_weights if fixing else weights[min(k, len(weights) - 1)]
        w = wished[k] if fixing else no_wish
        status[k], failures[k] = search(r, s, p, w, order, free, key[k], budget[k], stop)
        if status[k] == VALID:
            for v in range(n):
                out[k, v] = s.lo[v]
        undo(r, s, root)
        s.registers[LATEST], s.registers[TOP] = latest, top
    return out, status, failures
