"""Dynamic programming over parts: the best plans of every part, bottom-up, each measured by itself.

Source: the search that TAG (de Mesmay et al., ICML 2009) is held against ("DP"), as in FFTW's planner (Frigo and
Johnson, 2005): the plan of a part is made of the best plans of its parts.

A pass measures the plans of each part (`HasParts` of hwsim/capabilities.py) in turn and keeps the `keep` best of
each; the last part is the whole problem. The best part need not make the best whole, which is what other searches
can gain.

Deviations: after a pass the next one keeps twice as many plans and measures what that adds, so that any budget is
used. Nothing is measured twice. Within a part the plans come in an order drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hwsim.capabilities import HasParts
from hwsim.problem import Mapping16

MOST_KEPT = 1 << 20
"""Passes end when all plans are measured, or at the latest here."""


class PartsDp:
    """The search for one problem (`Searcher` of egrl/methods/rounds.py)."""

    def __init__(self, problem: HasParts, keep: int, rng: np.random.Generator) -> None:
        self._problem, self._keep, self._rng = problem, keep, rng
        self._parts = tuple(problem.parts)
        self._known: dict[bytes, float] = {}
        self._waiting: list[bytes] = []
        self._told = 0
        self._kept: dict[int, list[Mapping16]] = {}
        self._plans: list[Mapping16] = []
        self._to_measure: list[Mapping16] = []
        self._at = -1
        self._pass, self._grew = 1, False

    def offer(self, mapping: Mapping16) -> None:
        """A mapping that is measured without having been proposed: the start."""
        self._waiting.append(mapping.tobytes())

    def propose(self) -> Mapping16 | None:
        """The next plan of the part whose turn it is; None while that part's results are missing, and at the end."""
        while not self._to_measure:
            if self._told < len(self._waiting) or not self._next_part():
                return None
        mapping = self._to_measure.pop()
        self._waiting.append(mapping.tobytes())
        return mapping

    def tell(self, reward: float) -> None:
        """The reward of the earliest proposal that was not told yet; NaN where it failed."""
        self._known[self._waiting[self._told]] = reward
        self._told += 1

    def _next_part(self) -> bool:
        """Keep the best plans of this part and list those of the next; whether there is a next one."""
        if self._at >= 0:
            self._kept[self._parts[self._at]] = self._best()
        if self._at == len(self._parts) - 1:
            if not self._grew or self._keep >= MOST_KEPT:
                return False
            self._keep, self._at, self._grew, self._pass = 2 * self._keep, -1, False, self._pass + 1
        self._at += 1
        self._plans = list(self._problem.composed(self._parts[self._at], self._kept))
        fresh = [plan for plan in self._plans if plan.tobytes() not in self._known]
        self._grew |= bool(fresh)
        self._to_measure = [fresh[number] for number in self._rng.permutation(len(fresh))]
        return True

    def _best(self) -> list[Mapping16]:
        """The plans of this part that are kept, best first; one that failed counts as the worst."""
        reward = np.array([self._known[plan.tobytes()] for plan in self._plans])
        order = np.argsort(-np.where(np.isnan(reward), -np.inf, reward), kind="stable")
        return [self._plans[number] for number in order[: self._keep]]

    def metrics(self) -> Mapping[str, float]:
        """The pass, the part whose turn it is, counted from 1, and how many plans are kept."""
        return {"pass": float(self._pass), "part": float(self._at + 1), "kept": float(self._keep)}
