"""The least peak of a training step: a plan that takes as little memory as can be found, whatever time it takes.

Source: `rules.py`, each relieved (`repair.py`) within limits that are halved towards what no plan can
be below; then annealing (`search.py`) below the best; and, of few values, programs in whole numbers (`exact/fits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.exact.facts import facts_of
from egrl_training.simulator.exact.fits import find_fit
from egrl_training.simulator.exact.solve import plan as solve
from egrl_training.simulator.repair import relieved
from egrl_training.simulator.rules import plans_by_rule
from egrl_training.simulator.search import annealed
from egrl_training.simulator.simulate import canonical, simulate
from egrl_training.simulator.tables import Tables
from egrl_training.steps.step import TrainingStep
from hwsim.jit import clock

Plan = NDArray[np.int16]
STARTS = 6
"""Plans of the rules that are relieved, those with the least peaks."""
NEAR = 0.002
"""The least peak is looked for to this share of itself."""
FEW = 64
"""With no more decisions, programs in whole numbers are solved as well: of more they found nothing in half a minute."""
MOVES, PER_DECISION, HOTTER = 4_000, 50, 0.2
"""Of each annealing below the best peak: at most so many moves, and per decision; and its first temperature. Sixteen
times the moves found no less."""
SHARE = 0.4
"""Of the time that is left, for one program in whole numbers."""
LOWER = (0.9, 0.95, 0.97, 0.99, 0.997)
"""Limits that annealing aims at, as shares of the best peak."""


def floor_bytes(t: Tables) -> int:
    """Bytes that no plan is below: the fullest moment of what is in memory whatever is kept."""
    facts = facts_of(t)
    moments = (facts.forward_bytes, facts.backward_bytes, facts.between_bytes)
    return max(int(each.max(initial=0)) for each in moments)


def peak_of(t: Tables, plan: Plan) -> int:
    """Bytes at the peak under a plan int16 [N]."""
    return int(simulate(t, plan[None])[1][0])


def least_peak(step: TrainingStep, t: Tables, seconds: float, known: Sequence[Plan] = ()) -> Plan:
    """A plan int16 [N] with the least peak that is found within about so many seconds.

    `known` are plans with little peaks, of the same step at another batch, say.
    """
    until = clock() + seconds
    best = small_peak(step, t, seconds, known)
    if len(best) > FEW:
        return best
    return _halved(t, best, lambda best, limit: find_fit(t, limit, SHARE * (until - clock()))[0], until)


def small_peak(step: TrainingStep, t: Tables, seconds: float, known: Sequence[Plan] = ()) -> Plan:
    """As `least_peak`, without programs in whole numbers: the same whenever the time is long enough."""
    until = clock() + seconds
    plans = canonical(t, np.stack([*known, *plans_by_rule(step, t).values()]))
    peaks = simulate(t, plans)[1]
    starts = plans[np.argsort(peaks, kind="stable")[:STARTS]]
    best = _halved(t, starts[0], lambda best, limit: _relieved(t, [best, *starts], limit), until)
    return _cooled(t, best, until)


def _halved(t: Tables, best: Plan, fit: Callable[[Plan, int], Plan | None], until: float) -> Plan:
    """The last plan that `fit` finds within limits halfway from what no plan is below to the peak of the best.

    `fit` gets the best plan so far and a limit.
    """
    low = floor_bytes(t) - 1
    while (high := peak_of(t, best)) - low > max(1, NEAR * high) and clock() < until:
        limit = (low + high) // 2
        found = fit(best, limit)
        if found is None:
            low = limit
        else:
            best = canonical(t, found[None])[0]
    return best


def _relieved(t: Tables, starts: Sequence[Plan], limit: int) -> Plan | None:
    """The first of the plans that fits the limit when less of it is kept."""
    for start in starts:
        plan, fits = relieved(t, start, limit)
        if fits:
            return plan
    return None


def _cooled(t: Tables, best: Plan, until: float) -> Plan:
    """The plan, annealed towards lower limits as long as that helps."""
    key, floor, moves = 0, floor_bytes(t), min(MOVES, PER_DECISION * len(best))
    for share in LOWER:
        while clock() < until and (peak := peak_of(t, best)) > floor:
            key += 1
            found = annealed(t, best, max(int(share * peak), floor), key, moves, HOTTER)
            if peak_of(t, found) >= peak * (1 - NEAR / 4):
                break
            best = canonical(t, found[None])[0]
    return best


def fastest_within(t: Tables, starts: list[Plan], limit: int, seconds: float, gap: float) -> Plan | None:
    """The fastest plan int16 [N] within a limit that the exact search finds from the best start that fits; or None."""
    plans = np.stack(starts)
    spent, peaks = simulate(t, plans)
    if not (peaks <= limit).any():
        return None
    first = plans[int(np.where(peaks <= limit, spent, np.inf).argmin())]
    return solve(t, limit, first, seconds, 0, gap).mapping[:, 0]
