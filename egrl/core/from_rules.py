"""`--start rules`: every method first measures the baseline and all rules that the problem knows.

The best of them is the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.core.archive import START, Proposals
from egrl.core.archive import proposals as proposed
from egrl.core.method import Composition, Context, Method
from hwsim.problem import Evaluation, Mapping16, Problem
from workloads.errors import InputError

if TYPE_CHECKING:
    from policies.store import StoredPolicy


def rules_of(problem: Problem) -> list[Mapping16]:
    """The baseline and the mappings int16 [N, H] of the rules that a problem knows, each once.

    InputError if it knows none.
    """
    rules = problem.baseline.rules()
    if not rules:
        raise InputError(
            f"--start rules: expected a problem with rules to measure first, found {problem.about.name} without"
        )
    rows = [problem.baseline.mapping, *rules.values()]
    return list({row.tobytes(): row for row in rows}.values())


class FromRules(Method):
    """A method that starts at the cheapest of `Context.rules`, which are measured first and count as evaluations.

    Once all are measured, the method is built again with that start. It gets the result of the start; the others are
    only in the archive. All else is the method's own.
    """

    def __init__(self, context: Context, build: Callable[[Context], Method]) -> None:
        """`build` makes the method for a context."""
        self._context, self._build = context, build
        self._told = 0
        self._best: int | None = 0
        self._begin()

    def _begin(self) -> None:
        """Build the method for the best of the rules as its start, or for a cold start where none ran."""
        start = None if self._best is None else self._context.rules[self._best]
        self._method = self._build(replace(self._context, start=[start]))

    @property
    def ahead(self) -> int:  # type: ignore[override]
        """The method's, as all that follows."""
        return self._method.ahead

    @property
    def phase(self) -> str:  # type: ignore[override]
        return self._method.phase

    @property
    def proves(self) -> bool:  # type: ignore[override]
        return self._method.proves

    @property
    def on_a_model(self) -> str:  # type: ignore[override]
        return self._method.on_a_model

    def ask(self) -> Proposals | None:
        return self._method.ask()

    def learn(self) -> bool | None:
        return self._method.learn()

    def observe(self, proposals: Proposals, evaluation: Evaluation) -> None:
        self._method.observe(proposals, evaluation)

    def composition(self) -> Composition:
        return self._method.composition()

    def metrics(self) -> Mapping[str, float]:
        return self._method.metrics()

    def policy(self) -> StoredPolicy | None:
        return self._method.policy()

    def champion(self, problem: int) -> int | None:
        return self._method.champion(problem)

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """After the last of the rules, build the method and tell it the best; from then on, pass on its own batches."""
        if self._told == len(self._context.rules):
            self._method.tell(proposals, evaluation)
            return
        self._told += 1
        if self._told < len(self._context.rules):
            return
        results = [self._context.archive.evaluation(ticket) for ticket in range(self._told)]
        cost = np.array([result.cost[0] if result.usable[0] else np.inf for result in results])
        ran = np.isfinite(cost)
        self._best = int(np.argmin(np.where(ran, cost, np.inf))) if ran.any() else None
        self._begin()
        if self._best is not None:
            start = proposed(self._context.rules[self._best][None], START).numbered(self._best)
            self._method.tell(start, results[self._best])

    def state_dict(self) -> dict[str, Any] | None:
        """The method's, and its start; None if the method has none."""
        inner = self._method.state_dict()
        return None if inner is None else {"told": self._told, "best": self._best, "method": inner}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._told, self._best = state["told"], state["best"]
        self._begin()
        self._method.load_state_dict(state["method"])
