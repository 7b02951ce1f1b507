"""Branch and cut on the relaxation of a whole inference, with a ceiling on the objective that rises.

Source: HiGHS (Huangfu and Hall, Math. Prog. Comp. 2018) through `scipy.optimize.milp`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from hwsim.nnpi.exact.model import Model
from hwsim.problem import Floats

OBJECTIVE = 1e4
"""The program is scaled so that the trivial bound is this many units."""

DUAL_TOLERANCE = 1e-7
"""Of HiGHS: a reduced cost may have the wrong sign by this many units."""

FIRST_STEP = 1e-3
"""The first ceiling is at least this share above the bound."""

LAST_STEP = 0.5
"""A ceiling this share above the bound is no longer put."""

SHARE_OF_A_STEP = 0.5
"""Of the time left, for one ceiling."""

QUICK = 0.05
"""Of the time left: a ceiling done sooner makes the next one half as high again."""

INFEASIBLE = 2
"""`scipy.optimize.milp`: status of a program without solutions."""


def margin(model: Model) -> float:
    """Objective units that are taken off HiGHS's dual bound.

    A dual solution whose reduced costs have the wrong sign by up to the tolerance proves a bound that is too
    high by at most the tolerance times the range of each variable, summed.
    """
    program = model.program
    return DUAL_TOLERANCE * float((program.upper - program.lower).sum())


@dataclass(frozen=True)
class Search:
    """A bound in objective units before the margin, the best solution float64 [V], whether they met."""

    bound: float
    solution: Floats | None
    proved: bool


def search(model: Model, bound: float, gap: float, until: float) -> Search:
    """Branch and cut with a ceiling on the objective a little above the bound, raised as long as nothing is below.

    Under a low ceiling most columns price out, and what is left is quickly searched. A ceiling that nothing
    reaches is itself a bound. `bound` is the one known so far, in objective units.
    """
    step = max(gap, FIRST_STEP)
    best, best_value = None, np.inf
    while (left_s := until - time.monotonic()) > 0:
        ceiling = bound * (1.0 + step)
        last = step >= LAST_STEP
        limit_s = left_s if last else min(left_s, max(left_s * SHARE_OF_A_STEP, 1.0))
        reached, solution, done = _branch_and_cut(model, limit_s, gap / 2, np.inf if last else ceiling)
        bound = max(bound, min(reached, np.inf if last else ceiling))
        if solution is not None and (value := float(model.program.cost @ solution)) < best_value:
            best, best_value = solution, value
        if last or (done and solution is not None) or best_value <= bound * (1.0 + gap):
            return Search(min(bound, best_value), best, done or best_value <= bound * (1.0 + gap))
        if not done:
            step *= 8.0
        elif time.monotonic() - (until - left_s) < QUICK * left_s:
            step *= 1.5
    return Search(min(bound, best_value), best, False)


def _branch_and_cut(
    model: Model, time_limit_s: float, gap: float, ceiling: float
) -> tuple[float, Floats | None, bool]:
    """A bound below the ceiling in objective units, a solution float64 [V] if any, and whether HiGHS finished.

    HiGHS may drop nodes within its gap of the incumbent without lowering the bound it reports, so the gap is
    taken off.
    """
    program = model.program
    constraints = [LinearConstraint(program.matrix, program.row_lower, program.row_upper)]
    if np.isfinite(ceiling):
        constraints.append(LinearConstraint(program.cost[None] / OBJECTIVE, -np.inf, ceiling / OBJECTIVE))
    found = milp(
        program.cost,
        integrality=program.integer,
        bounds=Bounds(program.lower, program.upper),
        constraints=constraints,
        options={"time_limit": time_limit_s, "mip_rel_gap": gap, "disp": False},
    )
    if found.status == INFEASIBLE:
        return ceiling, None, True
    reached = -np.inf if found.mip_dual_bound is None else float(found.mip_dual_bound)
    if found.x is None:
        return reached, None, False
    reached = min(reached, float(program.cost @ found.x) * (1.0 - gap))
    return reached, np.asarray(found.x, np.float64), found.status == 0
