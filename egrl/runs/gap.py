"""Stopping a search when its best is close enough to what is proven to be the best possible.

The search itself never sees the bound: a search that stops so is the beginning of one that goes on.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from egrl.core.recorder import Observer
from egrl.core.state import Champion
from egrl.runs import progress
from egrl.runs.certificate import PROVED
from egrl.runs.config import NEVER, RunOptions, share_of
from egrl.runs.proving import Proving, better
from egrl.runs.verdict import OPTIMAL
from hwsim.capabilities import HasBound, HasSolving
from hwsim.problem import UNPROVED, Bound, Problem
from workloads.errors import InputError

SMALL = 2**17
"""A problem with no more mappings than these is solved before the search begins: that takes a second at most."""

UNPICKLABLE = (pickle.PicklingError, AttributeError, TypeError)
"""Errors of a problem that cannot be sent to another process."""
ALONE = "no bound is proved beside the search"


def check(options: RunOptions, problem: Problem) -> None:
    """InputError where a gap is asked for, and no bound says anything of the costs that are searched."""
    asked = options.until_gap not in ("", NEVER)
    if asked and not options.evaluator and (reason := unbounded(problem)):
        raise InputError(f"--until-gap {options.until_gap}: expected {reason}, found {problem.about.name}")


def unbounded(problem: Problem) -> str:
    """What is missing to compare a problem's best with a bound, in words; "" if nothing is."""
    if not isinstance(problem, HasBound):
        return "a problem with a bound"
    if problem.about.measured:
        return "costs of a model, since a bound says nothing of measured ones"
    twice = np.stack([problem.baseline.mapping] * 2)
    first, second = problem.evaluate(twice, np.array([1, 2], np.uint64)).cost
    return "" if first == second or np.isnan([first, second]).any() else "a chip without noise"


class Gap(Observer):
    """Knows how far the best is from what is proved, and whether that is near enough to stop.

    With `--until-gap` a process proves beside the search. Without, the search stops only at an optimum, by a bound that
    is known at its beginning: equal runs stop at the same evaluation then.

    Attributes:
        proven: the best bound so far.
        reached: True if the best is near enough.
        begun_with: the bound that was known at the beginning.
        unasked: True if a gap to stop at could have been asked for, and was not.
    """

    def __init__(
        self,
        problem: Problem,
        options: RunOptions,
        best: Champion | None,
        bar: Observer,
        quiet: bool,
        proves: bool = False,
    ) -> None:
        """`best` is the champion that a run goes on with; `bar` shows the bound; `proves`: the method proves one."""
        self._problem, self._bar, self._quiet = problem, bar, quiet
        self.proven, self.begun_with, self.reached = UNPROVED, UNPROVED, False
        self._proving: Proving | None = None
        self._limit = share_of(options.until_gap)
        if options.evaluator or unbounded(problem):
            self._limit = None
        self.unasked = self._limit is not None and not options.until_gap
        if self._limit is None:
            return
        self._take(_known(problem, 0.0 if proves else options.bound_seconds))
        self.begun_with = self.proven
        if best is not None:
            self._look(best.speedup, best.reward)
        rises = proves and isinstance(problem, HasSolving)
        if options.until_gap and not self.reached and not rises:
            try:
                self._proving = Proving(problem)
            except UNPICKLABLE as error:
                progress.note(f"{ALONE}: {error}", quiet)

    def __enter__(self) -> Gap:
        return self

    def __exit__(self, *error: object) -> None:
        if self._proving is not None:
            self._proving.close()

    def evaluations(self, count: int, best_speedup: float) -> None:
        """Look, if the method itself has proved more: it may propose very little."""
        if self._limit is not None and isinstance(self._problem, HasSolving) and self._take(self._own()):
            self._look(best_speedup, math.nan)

    def generation(self, row: Mapping[str, Any]) -> None:
        """Look, with what has been proved meanwhile."""
        if self._limit is None:
            return
        if self._proving is not None:
            self._take(self._proving.bound)
            if self._proving.failure:
                progress.note(f"{ALONE}: {self._proving.failure}", self._quiet)
                self._proving.failure = ""
        self._look(float(row["best_speedup"]), float(row["best_reward"]))

    def to(self, speedup: float, bound: float | None = None) -> float:
        """The gap of a best with this speedup to a bound on costs (None: to what is proved); infinite if unknown."""
        if bound is None:
            bound = 0.0 if math.isfinite(self.proven.reward) else self.proven.cost
        return self._problem.baseline.cost / speedup / bound - 1.0 if bound > 0 and speedup > 0 else math.inf

    def proved(self, seconds: float) -> Bound:
        """What the search stopped at, or what was proved beside it if `seconds` more would prove no better; else
        `UNPROVED`.
        """
        if self._proving is None:
            return self.proven if self.reached else UNPROVED
        self._take(self._proving.bound)
        enough = self.reached or self._proving.over or self.proven.seconds >= seconds
        return self.proven if enough else UNPROVED

    def _own(self) -> Bound:
        return self._problem.bound(0.0) if isinstance(self._problem, HasBound) else UNPROVED

    def _take(self, bound: Bound) -> bool:
        """Keep the bound if it is better, and show it."""
        if not better(bound, self.proven):
            return False
        self.proven = bound
        if bound.cost > 0:
            self._bar.bound(self._problem.baseline.cost / bound.cost)
        return True

    def _look(self, speedup: float, reward: float) -> None:
        assert self._limit is not None
        bound = self.proven
        if math.isfinite(bound.reward):
            self.reached |= bound.reward - reward <= max(self._limit, PROVED) * abs(bound.reward)
        else:
            self.reached |= self.to(speedup) <= max(self._limit, OPTIMAL)


def _known(problem: Problem, seconds: float) -> Bound:
    """The bound at the beginning of a search: one known already, or that of a problem with few mappings."""
    assert isinstance(problem, HasBound)
    known = problem.bound(0.0)
    live = problem.space.num_choices[problem.space.live]
    few = float(np.log2(live.astype(np.float64)).sum()) <= math.log2(SMALL)
    if few and seconds > 0 and not better(known, UNPROVED):
        return problem.bound(seconds)
    return known
