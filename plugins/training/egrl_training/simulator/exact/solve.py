"""The best plan that can be found in some time, and a bound on all plans.

First the linear relaxation is solved again and again: its solution is rounded and simulated, and the moments at which
that is above the limit get rows. Then branch and cut on the program with its whole numbers, again with rows for what
its solution breaks. Every plan on the way is made to fit, filled up and annealed with the true simulation. Where there
is a host, the best plan without it is sought first.

Source: cutting planes by separation on incumbents; HiGHS (Huangfu and Hall, *Math. Prog. Comp.* 10, 2018) through
`scipy.optimize`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.exact.branch import branch_and_cut
from egrl_training.simulator.exact.facts import facts_of
from egrl_training.simulator.exact.moments import Moments
from egrl_training.simulator.exact.program import OBJECTIVE
from egrl_training.simulator.repair import filled, fitted, relieved
from egrl_training.simulator.search import annealed
from egrl_training.simulator.simulate import KEEP, OFFLOAD, canonical, simulate
from egrl_training.simulator.tables import Tables
from hwsim.capabilities import Solution
from hwsim.jit import clock
from hwsim.keys import derive
from hwsim.linear_program import proven_bound, relax
from hwsim.problem import Bound

Plan = NDArray[np.int16]
GAP = 1e-6
"""A plan that is within this share of the bound is the best possible."""
LINEAR_SHARE, LOCAL_SHARE = 0.3, 0.03
"""Of the time limit, at most for the relaxation; and for the first local search."""
STALL, STALLED_ROUNDS = 1e-6, 3
"""Rounds in turn that raise the bound by less than this share end the first part."""
THRESHOLDS = (0.5, 0.2, 0.8)
FIRST_MOVES, MOST_MOVES = 2_000, 200_000
HOT = (0.02, 0.003, 0.0005)
"""First temperatures of local search, as shares of the seconds of a step."""
FILLS = 2_000
WITHOUT_HOST = 0.2
"""Share of the time limit for plans that keep nothing on the host, where there is one."""


@dataclass
class Found:
    """What is known so far.

    Attributes:
        plan: int16 [N], the best that fits.
        seconds: of a step with it.
        bound_s: no plan that fits takes less.
    """

    plan: Plan
    seconds: float
    bound_s: float = 0.0

    def met(self, gap: float) -> bool:
        """Whether the plan is within that share of the bound."""
        return self.seconds <= self.bound_s * (1 + gap)


def plan(
    tables: Tables, limit_bytes: int, start: Plan, time_limit_s: float, seed: int, gap: float = GAP
) -> Solution:
    """The best plan found as a mapping int16 [N, 1], and the bound.

    `start` int16 [N] is a plan that fits. The search ends after about the time limit, or when the best plan is within
    `gap` of the bound.
    """
    begun = clock()
    search = Search(tables, limit_bytes, np.ascontiguousarray(start), seed)
    search.run(time_limit_s, gap)
    found = search.found
    bound = Bound(found.bound_s, math.inf, search.proof, clock() - begun)
    return Solution(found.plan[:, None].copy(), found.seconds, bound, found.met(gap))


class Search:
    """One search for the best plan within a limit of memory."""

    def __init__(self, tables: Tables, limit_bytes: int, start: Plan, seed: int) -> None:
        """`start` int16 [N] is a plan that fits."""
        self._t, self._limit = tables, limit_bytes
        self._facts = facts_of(tables)
        self._moments = Moments(tables, self._facts, limit_bytes)
        self._key = np.array([seed], np.uint64)
        self._streams = 0
        self.found = Found(start, float(simulate(tables, start[None])[0][0]))
        self.found.bound_s = self._facts.base_s
        self.proof = "every op of a pass runs once in it"

    def run(self, time_limit_s: float, gap: float = GAP) -> None:
        """Search for about that long, or until the best plan is within `gap` of the bound."""
        begun = clock()
        until = begun + time_limit_s
        self._offer(filled(self._t, self.found.plan, self._limit, FILLS))
        if self._t.to_host_s.any():
            self._with_host(WITHOUT_HOST * time_limit_s, gap)
        self._relaxations(begun + LINEAR_SHARE * time_limit_s, gap)
        self._local(min(until, clock() + LOCAL_SHARE * time_limit_s), gap)
        self._branching(until, gap)
        self._local(until, gap)

    def _offer(self, plan: Plan) -> None:
        """Keep a plan if it fits and is better."""
        seconds, peak = simulate(self._t, plan[None])
        if peak[0] <= self._limit and seconds[0] < self.found.seconds:
            self.found.plan, self.found.seconds = canonical(self._t, plan[None])[0], float(seconds[0])

    def _improve(self, plan: Plan) -> None:
        """Offer what a plan becomes when it is made to fit and is filled up."""
        fit, fits = relieved(self._t, plan, self._limit)
        if not fits:
            fit = fitted(self._t, plan[None], self._limit, self.found.plan)[0][0]
        self._offer(filled(self._t, fit, self._limit, FILLS))

    def _with_host(self, time_limit_s: float, gap: float) -> None:
        """Offer plans to begin with: all kept, on the device or the host, made to fit; the best without a host."""
        t = self._t
        decided = np.flatnonzero(t.decision >= 0)
        everything = np.full(len(decided), KEEP, np.int16)
        away = everything.copy()
        away[t.decision[decided[t.to_host_s[decided] > 0]]] = OFFLOAD
        for plan in (everything, away):
            self._improve(plan)
        alone = t._replace(to_host_s=np.empty(0), from_host_s=np.empty(0))
        fit, fits = relieved(alone, everything, self._limit)
        if fits:
            without = Search(alone, self._limit, fit, int(self._key[0]))
            without.run(time_limit_s, gap)
            self._improve(without.found.plan)

    def _prove(self, units: float, proof: str) -> None:
        """Keep a bound in units of the program, if it is the highest so far."""
        bound = units * self._facts.base_s / OBJECTIVE
        if bound > self.found.bound_s:
            self.found.bound_s, self.proof = min(bound, self.found.seconds), proof

    def _relaxations(self, until: float, gap: float) -> None:
        """Solve the relaxation, and add rows for what its rounded solutions break, until the bound rises no more."""
        idle = 0
        while clock() < until and idle < STALLED_ROUNDS and not self.found.met(gap):
            before = self.found.bound_s
            program = self._moments.program()
            solved = relax(program, max(until - clock(), 0.1))
            if solved is None:
                return
            self._prove(proven_bound(program, solved.multipliers), "a linear relaxation")
            rounded = [self._moments.rounded(solved.solution, each) for each in THRESHOLDS]
            for plan in rounded:
                self._improve(plan)
            added = [self._moments.add(plan) for plan in rounded]
            idle = idle + 1 if self.found.bound_s <= before * (1 + STALL) else 0
            if not any(added):
                return

    def _local(self, until: float, gap: float) -> None:
        """Anneal the best plan, hot and cold in turn, longer and longer."""
        moves, turn = FIRST_MOVES, 0
        while clock() < until and not self.found.met(gap):
            begun = clock()
            self._streams += 1
            key = int(derive(self._key, self._streams)[0] >> np.uint64(1))
            hot = HOT[turn % len(HOT)]
            before = self.found.seconds
            plan = annealed(self._t, self.found.plan, self._limit, key, moves, hot)
            self._offer(filled(self._t, plan, self._limit, FILLS))
            turn += 1
            if turn % len(HOT) == 0:
                if moves == MOST_MOVES and self.found.seconds == before:
                    return
                moves = min(2 * moves, MOST_MOVES)
            rate = moves / max(clock() - begun, 1e-6)
            moves = max(min(moves, int(rate * (until - clock()))), 100)

    def _branching(self, until: float, gap: float) -> None:
        """Branch and cut, with rows for what its solutions break, until one fits or the time is over."""
        while (left_s := until - clock()) > 0.1 and not self.found.met(gap):
            program = self._moments.program()
            share = 0.5 if left_s > 2 else 1.0
            found = branch_and_cut(program, left_s * share, gap / 2)
            self._prove(found.units, "branch and cut on a relaxation")
            if found.solution is None:
                return
            plan = self._moments.rounded(found.solution)
            self._improve(plan)
            if not self._moments.add(plan) and found.done:
                return
