"""The best plan within a time, and what is proved about all plans.

First a bound and options by a small program; then a search; then, if the whole is small enough, HiGHS on all of it;
the rest of the time goes to the search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from egrl_torchrec.instance import Instance, Plan
from egrl_torchrec.program import GAP, best_plan, least_average, size
from egrl_torchrec.search import Search

WHOLE = 5_000
"""Columns up to which HiGHS gets the whole."""
SEARCHED, SOLVED = 0.1, 0.8
"""Shares of the time for the search before, and of what is left for HiGHS."""


@dataclass(frozen=True)
class Solution:
    """What was found.

    Attributes:
        plan: by the instance's options; None if none was found.
        rating: its dearest rank; inf if there is none.
        bound: no plan is rated below this; inf if there is proved to be no plan.
        seconds: how long it took.
    """

    plan: Plan | None
    rating: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """By how large a share the rating is at most above the best plan's."""
        return self.rating / self.bound - 1.0 if 0 < self.bound < math.inf else math.inf


def solve(
    instance: Instance, seconds: float, seed: int = 0, clock: Callable[[], float] = time.monotonic
) -> Solution:
    """Plan and bound within about the time. The plan is valid, to the byte."""
    begin = clock()
    small, kept = instance.without_dominated()
    bound, options = (math.inf, []) if not all(small.tables) else least_average(small, max(1.0, seconds / 4))
    if math.isinf(bound):
        return Solution(None, math.inf, math.inf, clock() - begin)
    search = Search(small, max(bound, 1e-300), options, seed)

    def left() -> float:
        return seconds - (clock() - begin)

    def enough() -> float:
        return bound * (1.0 + GAP)

    average = bound
    if size(small) <= WHOLE:
        search.work(seconds * SEARCHED, enough(), clock)
        if left() > 0 and search.rating > enough():
            plan, proved = best_plan(small, max(bound, 1e-300), left() * SOLVED)
            bound = max(bound, min(proved, search.rating))
            if plan is not None and not small.broken(plan) and small.load(plan)[0].max() < search.rating:
                search.start(plan)
    search.work(left(), enough(), clock)
    if search.rating < bound * (1.0 - GAP):  # what HiGHS proves holds up to its tolerances
        bound = average
    if search.plan is None:
        return Solution(None, math.inf, bound, clock() - begin)
    plan = [(kept[table][number], places) for table, (number, places) in enumerate(search.plan)]
    return Solution(plan, search.rating, bound, clock() - begin)
