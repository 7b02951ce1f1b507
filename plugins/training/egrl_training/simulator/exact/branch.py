"""Branch and cut on a linear program with whole numbers, and what its bound may claim too much.

Source: HiGHS (Huangfu and Hall, *Math. Prog. Comp.* 10, 2018) through `scipy.optimize.milp`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from hwsim.jit import clock
from hwsim.linear_program import Floats, LinearProgram

DUAL_TOLERANCE = 1e-7
"""Of HiGHS: a reduced cost may have the wrong sign by this many units."""
INFEASIBLE = 2
"""`scipy.optimize.milp`: status of a program without solutions."""
LEAST_S = 1.0
"""Of saying again that there is none; presolving may take all of the time that there is."""


@dataclass(frozen=True)
class Branched:
    """What branch and cut gave.

    Attributes:
        units: a bound on the objective.
        solution: float64 [V]; None if none was found.
        done: whether HiGHS finished.
        impossible: whether it found that there is no solution.
    """

    units: float
    solution: Floats | None
    done: bool
    impossible: bool


def branch_and_cut(program: LinearProgram, time_limit_s: float, gap: float) -> Branched:
    """The program solved to a relative gap, or as far as it comes in that time.

    HiGHS may drop nodes within its gap of the incumbent without lowering the bound it reports, so the gap is
    taken off; and what a dual solution within its tolerance may claim too much. What it presolves before it says that
    there is no solution has been wrong, so that it must say so without presolving, too.
    """
    begun = clock()
    found = _solved(program, time_limit_s, gap, presolve=True)
    if found.status == INFEASIBLE:
        found = _solved(program, max(LEAST_S, time_limit_s - (clock() - begun)), gap, presolve=False)
    reached = -math.inf if found.mip_dual_bound is None else float(found.mip_dual_bound)
    reached -= DUAL_TOLERANCE * float((program.upper - program.lower).sum())
    if found.x is None:
        return Branched(reached, None, found.status == INFEASIBLE, found.status == INFEASIBLE)
    reached = min(reached, float(program.cost @ found.x) * (1.0 - gap))
    return Branched(reached, np.asarray(found.x, np.float64), found.status == 0, False)


def _solved(program: LinearProgram, time_limit_s: float, gap: float, presolve: bool) -> OptimizeResult:
    return milp(
        program.cost,
        integrality=program.integer,
        bounds=Bounds(program.lower, program.upper),
        constraints=LinearConstraint(program.matrix, program.row_lower, program.row_upper),
        options={"time_limit": time_limit_s, "mip_rel_gap": gap, "disp": False, "presolve": presolve},
    )
