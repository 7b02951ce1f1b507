"""Local search on a plan with the true simulation: changes of one value, or of two that depend on each other.

Source: simulated annealing (Kirkpatrick, Gelatt, Vecchi, *Science* 220, 1983), geometric cooling.

Deviations: bytes above the limit are priced in seconds, so that the search may pass through plans that do not fit; what
is returned fits if any plan that was met did.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.simulate import (
    KEEP,
    OFFLOAD,
    RECOMPUTE,
    may_leave,
    memory_of,
    runs_of,
    seconds_of,
)
from egrl_training.simulator.tables import Tables
from hwsim.jit import kernel
from hwsim.keys import uniform

PRICE = 4.0
"""Seconds of the whole step that a peak of twice the limit costs."""
COLD = 1e-3
"""The last temperature over the first."""
PAIRS = 0.6
"""Share of the moves that change a neighbour, too."""
DRAWS = np.uint64(4)
"""Random numbers per move."""


@kernel
def _partner(t: Tables, s: int, draw: float) -> int:
    """A storage with a decision that the maker of `s` reads, drawn evenly; -1 if there is none."""
    k = t.maker[s]
    count = 0
    for i in range(t.input_first[k], t.input_first[k + 1]):
        count += t.decision[t.inputs[i]] >= 0
    at = int(draw * count)
    for i in range(t.input_first[k], t.input_first[k + 1]):
        if t.decision[t.inputs[i]] >= 0:
            if at == 0:
                return t.inputs[i]
            at -= 1
    return -1


@kernel
def move(
    t: Tables, plan: NDArray[np.int16], decided: NDArray[np.int64], key: np.uint64, counter: np.uint64
) -> tuple[int, int, int, int]:
    """Change a plan in place: a value takes another choice, and often one that it is made from the one it had.

    So what is kept moves along the network. Returns both decisions, -1 for none, each with what it was before.
    """
    draw = uniform(key, counter) * len(decided)
    s = decided[min(int(draw), len(decided) - 1)]
    one, other = t.decision[s], -1
    was, other_was = int(plan[one]), -1
    if uniform(key, counter + np.uint64(1)) < PAIRS:
        near = _partner(t, s, uniform(key, counter + np.uint64(2)))
        if near >= 0 and plan[t.decision[near]] != was and (was != OFFLOAD or may_leave(t, near)):
            other = t.decision[near]
            other_was = int(plan[other])
            plan[other] = was
    if may_leave(t, s):
        plan[one] = (was + 1 + (draw - int(draw) >= 0.5)) % 3
    else:
        plan[one] = KEEP + RECOMPUTE - was
    return one, was, other, other_was


@kernel
def annealed(
    t: Tables, start: NDArray[np.int16], limit: int, key: int, moves: int, hot: float
) -> NDArray[np.int16]:
    """The best plan int16 [N] that annealing meets: the least seconds that fit, or else the least peak.

    `hot` is the first temperature as a share of the seconds of a step.
    """
    held = np.empty(2 * len(t.phase), np.int64)
    decided = np.flatnonzero(t.decision >= 0)
    whole = t.seconds.sum()
    price = PRICE * whole / max(limit, 1)
    plan = start.copy()
    runs = runs_of(t, plan)
    peak = memory_of(t, runs, held)
    energy = seconds_of(t, runs) + price * max(peak - limit, 0)
    best, best_energy, best_over = plan.copy(), energy, max(peak - limit, 0)
    for at in range(moves):
        temperature = hot * whole * COLD ** (at / moves)
        counter = np.uint64(at) * DRAWS
        one, was, other, other_was = move(t, plan, decided, np.uint64(key), counter)
        runs = runs_of(t, plan)
        over = max(memory_of(t, runs, held) - limit, 0)
        after = seconds_of(t, runs) + price * over
        draw = uniform(np.uint64(key), counter + np.uint64(3))
        if after <= energy or draw < np.exp((energy - after) / temperature):
            energy = after
            if over < best_over or (over == best_over and after < best_energy):
                best[:], best_energy, best_over = plan, after, over
            continue
        plan[one] = was
        if other >= 0:
            plan[other] = other_was
    return best
