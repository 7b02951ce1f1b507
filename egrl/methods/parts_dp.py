"""Dynamic programming over parts: the best plans of every part, bottom-up, each measured by itself.

Source: the search that TAG (de Mesmay et al., ICML 2009) is held against ("DP"), as in FFTW's planner (Frigo and
Johnson, 2005): the plan of a part is made of the best plans of its parts.

A pass measures the plans of each part (`RuledDerivation` of hwsim/stepwise.py) in turn and keeps the `keep` best of
each; the last part is the whole problem. The best part need not make the best whole, which is what other searches
can gain.

Deviations: after a pass the next one keeps twice as many plans and measures what that adds, so that any budget is
used. Nothing is measured twice. Within a part the plans come in an order drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from egrl.core.method import Context, Method
from egrl.core.proposals import Proposals, proposals
from hwsim.problem import Evaluation, Mapping16
from hwsim.stepwise import RuledDerivation

MOST_KEPT = 1 << 20
"""Passes end when all plans are measured, or at the latest here."""


class PartsDp(Method):
    """The search for one problem, up to `parallel` plans of a part at a time. Its state is the results so far."""

    def __init__(self, context: Context, derivation: RuledDerivation, keep: int, parallel: int) -> None:
        self._derivation, self._keep, self._parallel = derivation, keep, parallel
        self._rng = context.generator("parts-dp 0")
        self._parts = tuple(derivation.order)
        self._known: dict[bytes, float] = {}
        self._kept: dict[int, list[Mapping16]] = {}
        self._plans: list[Mapping16] = []
        self._to_measure: list[Mapping16] = []
        self._at = -1
        self._pass, self._grew = 1, False

    def ask(self) -> Proposals | None:
        """The next plans of the part in turn; None after the last pass."""
        while not self._to_measure:
            if not self._next_part():
                return None
        count = min(self._parallel, len(self._to_measure))
        return proposals(np.stack([self._to_measure.pop() for _ in range(count)]), "greedy-dp")

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Remember the rewards; NaN where a plan failed."""
        reward = np.where(evaluation.usable, evaluation.reward, np.nan)
        for plan, found in zip(proposals.mapping, reward.tolist(), strict=True):
            self._known[plan.tobytes()] = found

    def _next_part(self) -> bool:
        """Keep the best plans of this part and list those of the next; whether there is a next one."""
        if self._at >= 0:
            self._kept[self._parts[self._at]] = self._best()
        if self._at == len(self._parts) - 1:
            if not self._grew or self._keep >= MOST_KEPT:
                return False
            self._keep, self._at, self._grew, self._pass = 2 * self._keep, -1, False, self._pass + 1
        self._at += 1
        self._plans = list(self._derivation.composed(self._parts[self._at], self._kept))
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
        """The pass and the part in turn, both counted from 1, and the number of plans kept."""
        return {"pass": float(self._pass), "part": float(self._at + 1), "kept": float(self._keep)}
