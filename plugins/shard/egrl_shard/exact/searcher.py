"""Look for better solutions: read them off messages, improve them by trees and regions, give up what does not promise.

An attempt begins with a new solution, with the best one, or with the best one kicked. It goes on, piece by
piece of time, while what is broken becomes less, or what it costs falls and is near the best.
"""

from __future__ import annotations

import time
from enum import IntEnum

import numpy as np

from egrl_shard.exact.crossover import crossed
from egrl_shard.exact.graph import Floats
from egrl_shard.exact.messages import Messages
from egrl_shard.exact.regions import Regions
from egrl_shard.exact.solution import Common, Solution
from egrl_shard.exact.starts import shaken_start
from egrl_shard.exact.trees import improve, kick, tree_memory

STEPS = 20
"""Trees between two looks at the clock."""
LARGEST = 20_000
"""Nodes of the largest tree."""
FLOOR = 1e-3
"""The least price of a piece of time whose limit was passed, as a share of the bound for all of the limit."""
NODES_A_SECOND = 40_000
"""A piece of time is a second for so many nodes, within these limits:"""
SHORTEST, LONGEST = 0.2, 1.0
GIVE_UP = (1.5, 1.1, 1.02, 1.005)
"""What a valid solution may cost after a first, second … piece of time, in units of the best."""
MENDED, CHEAPER = 0.9, 0.999
"""What is broken, or the cost, must fall to this share of itself in a piece of time."""
SAME_AGAIN = 4
"""Pieces of time for the best solution, at a time."""
MOST_KICKS = 6.0
"""The number of trees that a kick changes is a power of two up to this one."""


class Arm(IntEnum):
    """What an attempt begins with."""

    NEW = 0
    BEST = 1
    KICKED = 2


class Step(IntEnum):
    """How an attempt is improved."""

    TREES = 0
    REGION = 1


AGAIN = 0.1
"""The share of steps that are of the kind that earned less."""
FORGET = 0.9
"""What is left of earlier earnings after a step of the same kind."""


class Earned:
    """What each kind of step earned of late, in cost per second."""

    def __init__(self) -> None:
        self._gain, self._seconds = np.zeros(len(Step)), np.zeros(len(Step))

    def choose(self, rng: np.random.Generator) -> Step:
        """The kind that earned most per second, one that was never tried first; now and then the other."""
        rate = np.divide(self._gain, self._seconds, out=np.full(len(Step), np.inf), where=self._seconds > 0.0)
        best = Step(int(rate.argmax()))
        return Step(len(Step) - 1 - best) if rng.random() < AGAIN else best

    def add(self, step: Step, gain: float, seconds: float) -> None:
        """What a step brought, and how long it took."""
        self._gain[step] = FORGET * self._gain[step] + gain
        self._seconds[step] = FORGET * self._seconds[step] + seconds


class Searcher:
    """One thread's attempts, one after the other; they live on from one call to the next."""

    def __init__(self, common: Common, rng: np.random.Generator, start: Solution | None) -> None:
        self._common, self._rng, self._start = common, rng, start
        self._tree, self._regions = tree_memory(common.graph), Regions(common.graph, rng)
        self._piece_s = min(max(common.graph.nodes / NODES_A_SECOND, SHORTEST), LONGEST)
        self._largest = min(LARGEST, common.graph.nodes)
        self._attempt: Solution | None = None
        self._arm = Arm.NEW
        self._pieces = 0
        self._left_s = self._piece_s
        self._before = (0.0, 0.0)
        self._earned = Earned()

    def work(self, until: float) -> None:
        """Go on until that time of the monotonic clock."""
        while time.monotonic() < until and not self._common.done:
            hints = self._common.hints
            if hints is None:
                time.sleep(0.005)
                continue
            if self._attempt is None:
                self._attempt = attempt = self._begin(*hints)
                self._earned = Earned()
                self._pieces, self._left_s, self._before = 0, self._piece_s, (attempt.broken, attempt.cost)
            self._go_on(self._attempt, hints[1], until)

    def _begin(self, messages: Messages, price: Floats) -> Solution:
        common, rng = self._common, self._rng
        if self._start is not None:
            first, self._start = self._start, None
            return first
        incumbent = common.incumbent
        self._arm = Arm.NEW if incumbent is None else Arm(int(rng.integers(len(Arm))))
        if self._arm is Arm.NEW or incumbent is None:
            own = Messages(messages.to_a.copy(), messages.to_b.copy(), messages.at_a, messages.at_b)
            return Solution(common.reduced, shaken_start(common.graph, own, price, common.limit, rng))
        solution = incumbent.copy()
        if self._arm is Arm.KICKED:
            at_prices, trees = price * np.exp(rng.normal(0.0, 0.5)), int(2.0 ** rng.uniform(0.0, MOST_KICKS))
            kick(
                common.graph,
                self._tree,
                solution.choice,
                solution.spare,
                at_prices,
                self._rng,
                trees,
                self._largest,
            )
            solution.refresh()
        return solution

    def _go_on(self, solution: Solution, price: Floats, until: float) -> None:
        """A piece of time for an attempt, or what is left of it until the clock strikes."""
        common = self._common
        floor = FLOOR * max(common.bound, 1.0) / common.limit
        begun = now = time.monotonic()
        end = min(until, begun + self._left_s)
        while now < end:
            broken, cost, before = solution.broken > 0.0, solution.cost, now
            step = Step.TREES if broken else self._earned.choose(self._rng)
            if step is Step.TREES:
                improve(
                    common.graph,
                    self._tree,
                    solution.choice,
                    solution.spare,
                    price,
                    floor,
                    self._rng,
                    STEPS,
                    self._largest,
                )
                solution.refresh()
            else:
                self._regions.improve(solution, price, common.limit)
            now = time.monotonic()
            if not broken:
                self._earned.add(step, cost - solution.cost, now - before)
        self._left_s -= now - begun
        common.offer(solution)
        if self._left_s <= 0.0 and (best := common.incumbent) is not None:
            better = crossed(best, solution, price, common.limit, common.graph)
            if better is not None:
                common.offer(better)
        if self._left_s <= 0.0:
            if not self._promises(solution):
                self._attempt = None
            self._pieces += 1
            self._left_s, self._before = self._piece_s, (solution.broken, solution.cost)

    def _promises(self, solution: Solution) -> bool:
        """Whether an attempt is to go on after a piece of time."""
        broken, cost = self._before
        if solution.broken > 0.0:
            return broken == 0.0 or solution.broken <= MENDED * broken
        if self._arm is Arm.BEST and self._pieces + 1 >= SAME_AGAIN:
            return False
        near = GIVE_UP[min(self._pieces, len(GIVE_UP) - 1)] * self._common.to_beat
        return solution.cost <= near and (broken > 0.0 or solution.cost <= CHEAPER * cost)
