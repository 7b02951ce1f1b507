"""A partition per key by quick attempts, or else by runs of the graph's order. Kernels.

Source: MCM paper, section 4.2, algorithms 1 (SAMPLE) and 2 (FIX), which leave to CP-SAT what a dead end takes back.
Deviations:
- SAMPLE and FIX are carried out where only precedence is propagated (`hwsim/mcm/solver/assignment.py`); a sweep from
  front to back (`hwsim/mcm/solver/sweep.py`) then changes what the other rules forbid. Every partition can be reached,
  since what is valid stays as it is; but how likely each is differs from a search that propagates all rules at once;
- an attempt ends after `FIRST_LIMIT` placements were taken back, the next after twice as many, and so on, each with
  new random numbers and in a new random order (a given order stays). The fifth and the seventh begin with runs of the
  graph's order that fit instead of draws, the seventh with the longest: where
  memory is tight few draws leave no gaps;
- where all have failed, runs that keep the triangle rule as they are, if there are some. These and the runs above
  ignore the probabilities. After that `hwsim/mcm/solver/solver.py` turns to the complete search of
  `hwsim/mcm/solver/search.py`.

Partitions that cut the graph's own order into runs, one per chip, are the last resort. Whether there is one is known in
time linear in the lengths of the runs. Under the
triangle rule no edge may jump over a chip: then the only arrows are those from a chip to the next. A chain of layers
with residual connections has such partitions; other graphs may have none, which says nothing about their partitions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim import keys
from hwsim.jit import kernel
from hwsim.mcm.solver.assignment import draw_assignment, shuffle
from hwsim.mcm.solver.relations import Positions
from hwsim.mcm.solver.sweep import sweep
from hwsim.mcm.solver.sweep_state import SweepState, new_sweep_state

NONE = 1 << 40


@kernel
def least_ends(graph: Positions) -> NDArray[np.int64]:
    """Where a run that begins at a position ends at the earliest, exclusive, int64 [N]."""
    n = len(graph.node)
    ends, reach = np.zeros(n, np.int64), 0
    for start in range(n):
        # The last node that reads a node before `start` must lie in this run: a later one would jump over it.
        ends[start] = max(start + 1, reach + 1 if graph.triangle else 0)
        for k in range(graph.out_start[start], graph.out_start[start + 1]):
            reach = max(reach, graph.out[k])
    return ends


@kernel
def runs_needed(graph: Positions, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fewest runs from each position to the end, int64 [N + 1]; `NONE` or more if there are none."""
    n = len(graph.node)
    needed = np.full(n + 1, NONE, np.int64)
    needed[n] = 0
    # From the back: the run that begins at a position may end at each place that memory and `ends` allow.
    for start in range(n - 1, -1, -1):
        held = 0
        for end in range(start + 1, n + 1):
            held += graph.weight[end - 1]
            if held > graph.capacity:
                break
            if end >= ends[start]:
                needed[start] = min(needed[start], needed[end] + 1)
    return needed


@kernel
def cut(
    graph: Positions,
    ends: NDArray[np.int64],
    needed: NDArray[np.int64],
    key: np.uint64,
    counter: int,
    full: bool,
    chip: NDArray[np.int64],
) -> int:
    """A partition into runs, int64 [N] by position into `chip`, each next end equally likely; returns the next counter.

    With `full` each run is as long as can be. There must be a partition: `needed[0]` is no more than the chips.
    """
    n, start = len(graph.node), 0
    for c in range(graph.chips):
        # Invariant: the chips from c on suffice for the nodes from `start` on. Only ends that keep that are choices.
        held, choices, chosen = 0, 0, start
        for end in range(start + 1, n + 1):
            held += graph.weight[end - 1]
            if held > graph.capacity:
                break
            if end >= ends[start] and needed[end] < graph.chips - c:
                # The i-th choice replaces the one before with probability 1 / i: in the end each is equally likely.
                choices += 1
                if full or keys.uniform(key, np.uint64(counter)) * choices < 1.0:
                    chosen = end
                counter += 1
        for i in range(start, chosen):
            chip[i] = c
        start = chosen
        if start == n:
            break
    return counter


FIRST_LIMIT = 50
DRAWN, ATTEMPTS = 4, 8


@kernel
def attempt(
    graph: Positions,
    state: SweepState,
    weights: NDArray[np.float32],
    proposed: NDArray[np.int16],
    order: NDArray[np.int64],
    free_order: bool,
    key: np.uint64,
    counter: int,
    budget: int,
    stop: NDArray[np.int64],
    assigned: NDArray[np.int64],
    scratch: NDArray[np.int64],
    ends: NDArray[np.int64],
    needed: NDArray[np.int64],
) -> tuple[bool, int, int]:
    """A partition in `state.chip` by position, or none; the next counter; placements taken back.

    Args:
        graph, state: the graph and room for sweeps.
        weights, proposed: as in `draw_assignment`.
        order: int64 [N], the nodes; shuffled where `free_order`.
        key, counter: random numbers.
        budget: placements that may be taken back.
        stop: int64 [1], not 0 when time is over.
        assigned, scratch: int64 [N] and [3, N + 1], overwritten.
        ends, needed: where runs may end, for the attempts from `DRAWN` on; [0] for those before.
    """
    failures, later = 0, len(needed) > 0
    for number in range(DRAWN if later else 0, ATTEMPTS if later else DRAWN):
        if stop[0] or failures > budget:
            break
        # Of the later attempts the even ones begin with runs, the second of these with the longest.
        if not number & 1 and later and needed[0] <= graph.chips:
            counter = cut(graph, ends, needed, key, counter, number > DRAWN, assigned)
        else:
            if free_order:
                counter = shuffle(order, key, counter)
            counter = draw_assignment(graph, weights, proposed, order, key, counter, assigned, scratch)
        limit = min(FIRST_LIMIT << number, budget - failures)
        found, counter, more = sweep(graph, state, weights, assigned, key, counter, limit)
        failures += more
        if found:
            return True, counter, failures
    return False, counter, failures


@kernel
def attempt_keys(
    graph: Positions,
    weights: NDArray[np.float32],
    proposed: NDArray[np.int16],
    orders: NDArray[np.int64],
    key: NDArray[np.uint64],
    budget: int,
    stop: NDArray[np.int64],
) -> tuple[NDArray[np.int16], NDArray[np.bool_], NDArray[np.int64]]:
    """A partition per key, without complete search: assignment int16 [B, N] (-1 if none), found [B], taken back [B].

    `weights` [1 or B, N, C] or [1, 1, C] for all nodes; `proposed` [B, N] or [0, 0]; `orders` [1 or B, N] or [0, N] for
    random ones; `stop` int64 [1], set to another value than 0 from outside when time is over.
    """
    count, n, free = len(key), len(graph.node), len(orders) == 0
    out = np.full((count, n), -1, np.int16)
    found, failures = np.zeros(count, np.bool_), np.zeros(count, np.int64)
    state, assigned, work = new_sweep_state(graph), np.empty(n, np.int64), np.empty((3, n + 1), np.int64)
    order, no_proposal, no_runs = np.empty(n, np.int64), np.zeros(0, np.int16), np.zeros(0, np.int64)
    # Runs that a sweep corrects may end anywhere; those that stand as they are end where no edge jumps over a run.
    ends, needed = np.arange(1, n + 1), no_runs
    strict, strict_needed = least_ends(graph), no_runs
    possible = (graph.earliest <= graph.latest).all()
    for k in range(count if possible else 0):
        for v in range(n):
            order[v] = v if free else orders[min(k, len(orders) - 1), v]
        fix, row = proposed[k] if len(proposed) else no_proposal, weights[min(k, len(weights) - 1)]
        found[k], counter, failures[k] = attempt(
            graph, state, row, fix, order, free, key[k], 0, budget, stop, assigned, work, ends, no_runs
        )
        if not found[k] and not stop[0]:
            # The tables of the runs are made for the first key that needs them.
            if len(needed) == 0:
                needed, strict_needed = runs_needed(graph, ends), runs_needed(graph, strict)
            left = budget - failures[k]
            found[k], counter, more = attempt(
                graph, state, row, fix, order, free, key[k], counter, left, stop, assigned, work, ends, needed
            )
            failures[k] += more
            if not found[k] and strict_needed[0] <= graph.chips:
                cut(graph, strict, strict_needed, key[k], counter, False, state.chip)
                found[k] = True
        if found[k]:
            for i in range(n):
                out[k, graph.node[i]] = state.chip[i]
    return out, found, failures
