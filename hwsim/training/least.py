"""The least peak of a training step: a plan that takes as little memory as can be found, whatever time it takes.

Source: the rules of `baseline.py`, each relieved (`repair.py`) within limits that are halved towards what no plan can
be below; then annealing (`search.py`) below the best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import clock
from hwsim.training.baseline import HOT, plans_by_rule
from hwsim.training.exact.facts import facts_of
from hwsim.training.exact.solve import plan as solve
from hwsim.training.repair import relieved
from hwsim.training.search import annealed
from hwsim.training.simulate import canonical, simulate
from hwsim.training.tables import Tables
from workloads.training_step import TrainingStep

Plan = NDArray[np.int16]
STARTS = 6
"""Plans of the rules that are relieved, those with the least peaks."""
NEAR = 0.002
"""The least peak is looked for to this share of itself."""
MOVES = 4_000
"""Of each annealing below the best peak."""
LOWER = (0.97, 0.99, 0.997)
"""Limits that annealing aims at, as shares of the best peak."""


def floor_bytes(t: Tables) -> int:
    """Bytes that no plan is below: the fullest moment of what is in memory whatever is kept."""
    facts = facts_of(t)
    moments = (facts.forward_bytes, facts.backward_bytes, facts.between_bytes)
    return max(int(each.max(initial=0)) for each in moments)


def peak_of(t: Tables, plan: Plan) -> int:
    """Bytes at the peak under a plan int16 [N]."""
    return int(simulate(t, plan[None])[1][0])


def least_peak(step: TrainingStep, t: Tables, seconds: float) -> Plan:
    """A plan int16 [N] with the least peak that is found within about so many seconds."""
    until = clock() + seconds
    plans = canonical(t, np.stack(list(plans_by_rule(step, t).values())))
    peaks = simulate(t, plans)[1]
    starts = plans[np.argsort(peaks, kind="stable")[:STARTS]]
    best, low = starts[0], floor_bytes(t)
    while (high := peak_of(t, best)) - low > NEAR * high and clock() < until:
        limit = (low + high) // 2
        found = _relieved(t, [best, *starts], limit)
        best, low = (best, limit) if found is None else (found, low)
    return _cooled(t, best, until)


def _relieved(t: Tables, starts: list[Plan], limit: int) -> Plan | None:
    """The first of the plans that fits the limit when less of it is kept."""
    for start in starts:
        plan, fits = relieved(t, start, limit)
        if fits:
            return canonical(t, plan[None])[0]
    return None


def _cooled(t: Tables, best: Plan, until: float) -> Plan:
    """The plan, annealed towards lower limits as long as that helps."""
    key, floor = 0, floor_bytes(t)
    for share in LOWER:
        while clock() < until and (peak := peak_of(t, best)) > floor:
            key += 1
            found = annealed(t, best, max(int(share * peak), floor), key, MOVES, HOT)
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
