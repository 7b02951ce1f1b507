"""The moments of the backward pass that have rows: those at which some plan was above the limit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.exact.facts import Facts
from egrl_training.simulator.exact.program import Builder, Moment
from egrl_training.simulator.simulate import KEEP, OFFLOAD, RECOMPUTE, runs_of, trace
from egrl_training.simulator.tables import Tables
from hwsim.linear_program import Floats, LinearProgram

MOST_ADDED = 12
"""Moments that one plan adds, those with the most bytes above the limit."""
MARGIN = 0.05
"""Rows look at so many ops, as a share of the forward pass, before the first one that has run again."""
WHOLE_LOOK = 400
"""A forward pass of at most so many ops is looked at as a whole."""


class Moments:
    """A program that grows by what plans break."""

    def __init__(self, tables: Tables, facts: Facts, limit_bytes: int) -> None:
        self._t, self._limit = tables, limit_bytes
        self._builder = Builder(tables, facts, limit_bytes)
        self._known: dict[tuple[int, int], Moment] = {}

    def __len__(self) -> int:
        return len(self._known)

    def program(self) -> LinearProgram:
        """The program with all rows so far."""
        return self._builder.program(list(self._known.values()))

    def rounded(self, solution: Floats, threshold: float = 0.5) -> NDArray[np.int16]:
        """The plan int16 [N] of a solution: what it saves more of than `threshold` is kept, where most of that is."""
        saved, away = self._builder.plan_of(solution)
        where = np.where(away > saved / 2, OFFLOAD, KEEP)
        return np.where(saved > threshold, where, RECOMPUTE).astype(np.int16)

    def add(self, plan: NDArray[np.int16]) -> bool:
        """Add the moments at which a plan is the most above the limit; whether any is new.

        A moment that is known, and broken all the same, is looked at as a whole.
        """
        t = self._t
        runs, held = runs_of(t, plan), trace(t, plan).held_bytes
        order = runs.op[: runs.length]
        over = np.where(np.arange(len(order)) >= runs.turn, held - self._limit, 0)
        top = np.flatnonzero((over > 0) & (over >= np.roll(over, 1)) & (over >= np.roll(over, -1)))
        new = 0
        for r in top[np.argsort(-over[top], kind="stable")]:
            late = order[r:][order[r:] >= t.turn]
            if not len(late):
                continue  # after the last op, for what the pass returns
            key = (int(late[0]) - t.turn, int(order[r]) if order[r] < t.turn else -1)
            known = self._known.get(key)
            if known is not None and known.lowest == 0:
                continue
            again = order[runs.turn : r + 1]
            again = again[again < t.turn]
            near = t.turn > WHOLE_LOOK and known is None
            lowest = int(again.min(initial=t.turn) - MARGIN * t.turn) if near else 0
            self._known[key] = Moment(*key, max(lowest, 0))
            new += 1
            if new == MOST_ADDED:
                break
        return new > 0
