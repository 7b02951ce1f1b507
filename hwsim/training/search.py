"""Local search on a plan with the true simulation: flips of one value, or of two that depend on each other.

Source: simulated annealing (Kirkpatrick, Gelatt, Vecchi, *Science* 220, 1983), geometric cooling.

Deviations: bytes above the limit are priced in seconds, so that the search may pass through plans that do not fit; what
is returned fits if any plan that was met did.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import uniform
from hwsim.training.simulate import KEEP, RECOMPUTE, memory_of, runs_of, seconds_of
from hwsim.training.tables import Tables

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
def flip(
    t: Tables, plan: NDArray[np.int16], decided: NDArray[np.int64], key: np.uint64, counter: np.uint64
) -> tuple[int, int]:
    """Change a plan in place: a value takes its other choice, and often one that it is made from takes the opposite.

    So what is kept moves along the network. Returns both decisions, to undo the change; -1 for none.
    """
    s = decided[min(int(uniform(key, counter) * len(decided)), len(decided) - 1)]
    one, other = t.decision[s], -1
    if uniform(key, counter + np.uint64(1)) < PAIRS:
        near = _partner(t, s, uniform(key, counter + np.uint64(2)))
        if near >= 0 and plan[t.decision[near]] != plan[one]:
            other = t.decision[near]
            plan[other] = KEEP + RECOMPUTE - plan[other]
    plan[one] = KEEP + RECOMPUTE - plan[one]
    return one, other


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
    for move in range(moves):
        temperature = hot * whole * COLD ** (move / moves)
        counter = np.uint64(move) * DRAWS
        one, other = flip(t, plan, decided, np.uint64(key), counter)
        runs = runs_of(t, plan)
        over = max(memory_of(t, runs, held) - limit, 0)
        after = seconds_of(t, runs) + price * over
        draw = uniform(np.uint64(key), counter + np.uint64(3))
        if after <= energy or draw < np.exp((energy - after) / temperature):
            energy = after
            if over < best_over or (over == best_over and after < best_energy):
                best[:], best_energy, best_over = plan, after, over
            continue
        plan[one] = KEEP + RECOMPUTE - plan[one]
        if other >= 0:
            plan[other] = KEEP + RECOMPUTE - plan[other]
    return best
