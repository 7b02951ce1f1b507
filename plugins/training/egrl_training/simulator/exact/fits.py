"""A plan that fits, whatever it costs; or the proof that there is none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.exact.branch import branch_and_cut
from egrl_training.simulator.exact.facts import facts_of
from egrl_training.simulator.exact.moments import Moments
from egrl_training.simulator.repair import relieved
from egrl_training.simulator.tables import Tables
from hwsim.jit import clock

LOOSE = 0.5
"""The relative gap at which branch and cut stops: any solution will do."""


def find_fit(tables: Tables, limit_bytes: int, time_limit_s: float) -> tuple[NDArray[np.int16] | None, bool]:
    """A plan int16 [N] within the limit, or None; and whether it was found that there is none.

    Solutions of the program in whole numbers are simulated, and what they break gets rows. A program without
    solutions proves that no plan fits, as far as HiGHS is trusted.
    """
    until = clock() + time_limit_s
    moments = Moments(tables, facts_of(tables), limit_bytes)
    while (left_s := until - clock()) > 0:
        found = branch_and_cut(moments.program(), left_s, LOOSE)
        if found.solution is None:
            return None, found.impossible
        plan = moments.rounded(found.solution)
        fit, fits = relieved(tables, plan, limit_bytes)
        if fits:
            return fit, False
        if not moments.add(plan):
            return None, False
    return None, False
