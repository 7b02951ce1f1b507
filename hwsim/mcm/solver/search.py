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
from hwsim.mcm.solver.assignment import pick, shuffle
from hwsim.mcm.solver.domains import LENGTH, State, mark_of, new_state, restrict, undo
from hwsim.mcm.solver.propagate import propagate
from hwsim.mcm.solver.relations import Relations

VALID, INFEASIBLE, BUDGET = range(3)
FIRST_RESTART = 4
"""How much deeper decisions must be taken back than before until the first restart."""
UNORDERED = 2
"""Restarts before this one draw a random order; from it on the order is the graph's own."""
AT, ANY_CHIP, NODE, CHIP, TRAIL, LATEST, TOP = range(7)
"""The columns of the decisions: place in the order, pass and state before it was made; what was decided."""


@kernel
def search(
    relations: Relations,
    state: State,
    weights: NDArray[np.float32],
    proposed: NDArray[np.int16],
    order: NDArray[np.int64],
    free_order: bool,
    key: np.uint64,
    budget: int,
    stop: NDArray[np.int64],
) -> tuple[int, int]:
    """One partition in `state.lo`; `state` is a propagated root, to which `undo` leads back by its `mark_of`.

    Args:
        relations, state: the graph and the root.
        weights: float32 [N, C] for SAMPLE; [0, C] for FIX.
        proposed: int16 [N] for FIX (-1: none); [0] for SAMPLE.
        order: int64 [N], the nodes; changed where `free_order`.
        free_order: whether the order is drawn from the key, and again at restarts.
        budget: decisions that may be taken back.
        stop: int64 [1], not 0 when time is over.

    Returns:
        VALID, INFEASIBLE (proved) or BUDGET, and the number of decisions taken back.
    """
    n, sampling = len(relations.weight), len(weights) > 0
    even = np.ones(relations.chips, np.float32)
    decisions = np.empty((n + 1, 7), np.int64)
    counter, failures, fall = 0, 0, 1.0
    restarts, patience, deeper = 0, FIRST_RESTART, 0
    root = mark_of(state)
    if free_order:
        counter = shuffle(order, key, counter)
    # Invariant: the first `depth` decisions are made, and `state` holds all their consequences. Nodes before `at` in
    # the order are fixed or, in the first pass of FIX, cannot have their proposed chip.
    depth, at, any_chip = 0, 0, int(sampling)
    while True:
        at = _next_open(state.fixed, state.domain, proposed, order, at, any_chip)
        if at == n:
            if any_chip:
                return VALID, failures
            # FIX: all proposed chips that can be kept are kept. The second pass gives the other nodes any chip.
            at, any_chip = 0, 1
            continue
        node = order[at]
        if any_chip:
            where = keys.uniform(key, np.uint64(counter))
            counter += 1
            chip = pick(state.domain[node], weights[node] if sampling else even, where, fall)
        else:
            chip = int(proposed[node])
        decisions[depth, AT], decisions[depth, ANY_CHIP] = at, any_chip
        decisions[depth, NODE], decisions[depth, CHIP] = node, chip
        decisions[depth, TRAIL], decisions[depth, LATEST], decisions[depth, TOP] = mark_of(state)
        depth += 1
        if restrict(relations, state, node, 1 << chip) and propagate(relations, state):
            continue
        left = depth
        depth = _go_back(relations, state, decisions, depth)
        failures += left - max(depth, 0)
        if depth < 0:
            return INFEASIBLE, failures
        # The last decision is always taken back: what counts is how many more.
        deeper += left - depth - 1
        at, any_chip = decisions[depth, AT], decisions[depth, ANY_CHIP]
        if failures >= budget or stop[0]:
            return BUDGET, failures
        if free_order and depth and deeper >= patience:
            undo(relations, state, root[0], root[1], root[2])
            restarts += 1
            if restarts < UNORDERED:
                counter = shuffle(order, key, counter)
            else:
                order[:] = relations.order
                fall *= 0.5
                patience *= 2
            deeper, depth, at, any_chip = 0, 0, 0, int(sampling)


@kernel
def _next_open(
    fixed: NDArray[np.int64],
    domain: NDArray[np.int64],
    proposed: NDArray[np.int16],
    order: NDArray[np.int64],
    at: int,
    any_chip: int,
) -> int:
    """The next place in the order, from `at` on, whose node is to be decided; N if there is none.

    That is one with more than one chip left, and in the first pass of FIX (not `any_chip`) one that can have its
    proposed chip.
    """
    is_open = False
    while not is_open and at < len(order):
        node = order[at]
        is_open = fixed[node] == 0
        if is_open and not any_chip:
            chip = int(proposed[node])
            is_open = chip >= 0 and domain[node] >> chip & 1 == 1
        at += 1
    return at - 1 if is_open else len(order)


@kernel
def _go_back(relations: Relations, state: State, decisions: NDArray[np.int64], depth: int) -> int:
    """Take decisions back until another chip than the last one's is possible; the number left, -1 at a contradiction.

    The chip of the last decision taken back is removed below those that stay: with it there is no partition there.
    """
    while depth:
        depth -= 1
        last = decisions[depth]
        undo(relations, state, last[TRAIL], last[LATEST], last[TOP])
        node = last[NODE]
        if restrict(relations, state, node, state.domain[node] & ~(1 << last[CHIP])) and propagate(
            relations, state
        ):
            return depth
    return -1


@kernel
def propagate_root(relations: Relations) -> tuple[State, bool]:
    """The state in which everything that follows from the graph alone is known; False if that is a contradiction."""
    state = new_state(relations)
    alive = True
    for v in range(len(relations.weight)):
        keep = 0
        if relations.earliest[v] <= relations.latest[v]:
            keep = (1 << (relations.latest[v] + 1)) - (1 << relations.earliest[v])
        # Every node is queued, changed or not: edges alone restrict their ends.
        state.queued[v] = 1
        state.queue[v] = v
        alive = alive and restrict(relations, state, v, keep)
    state.registers[LENGTH] = len(relations.weight)
    return state, alive and propagate(relations, state)


@kernel
def search_keys(
    relations: Relations,
    weights: NDArray[np.float32],
    proposed: NDArray[np.int16],
    orders: NDArray[np.int64],
    key: NDArray[np.uint64],
    budget: NDArray[np.int64],
    stop: NDArray[np.int64],
) -> tuple[NDArray[np.int16], NDArray[np.int64], NDArray[np.int64]]:
    """A partition per key: assignment int16 [B, N] (-1 if none), status int64 [B], decisions taken back int64 [B].

    `weights` [1 or B, N, C] for SAMPLE; `proposed` [B, N] for FIX, [0, 0] for SAMPLE; `orders` [1 or B, N] or [0, N]
    for random ones; `budget` int64 [B], decisions that may be taken back; `stop` as in `search`.
    """
    count, n, free, fixing = len(key), len(relations.weight), len(orders) == 0, len(proposed) > 0
    out = np.full((count, n), -1, np.int16)
    status, failures = np.full(count, BUDGET, np.int64), np.zeros(count, np.int64)
    state, alive = propagate_root(relations)
    root = mark_of(state)
    no_weights, no_proposal = np.zeros((0, relations.chips), np.float32), np.zeros(0, np.int16)
    order = np.empty(n, np.int64)
    for k in range(count):
        if not alive:
            status[k] = INFEASIBLE
        # The keys that are left when time is over keep the status BUDGET.
        if stop[0] or not alive:
            continue
        for v in range(n):
            order[v] = v if free else orders[min(k, len(orders) - 1), v]
        row = no_weights if fixing else weights[min(k, len(weights) - 1)]
        proposal = proposed[k] if fixing else no_proposal
        status[k], failures[k] = search(relations, state, row, proposal, order, free, key[k], budget[k], stop)
        if status[k] == VALID:
            for v in range(n):
                out[k, v] = state.lo[v]
        undo(relations, state, root[0], root[1], root[2])
    return out, status, failures
