"""`--start rules`: every method first measures the baseline and all rules that the problem knows.

The best of them is the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from egrl.core.archive import START, Proposals
from egrl.core.archive import proposals as proposed
from egrl.core.method import Context, Method
from hwsim.family import HasFamily
from hwsim.problem import Evaluation, Mapping16, Problem
from workloads.errors import InputError


def rules_of(problem: Problem) -> list[Mapping16]:
    """The baseline and the mappings int16 [N, H] of the rules that a problem knows, each once.

    InputError if it knows none.
    """
    if not isinstance(problem, HasFamily):
        raise InputError(
            f"--start rules: expected a problem with rules to measure first, found {problem.about.name} without"
        )
    rows = [problem.baseline.mapping, *problem.family.first().values()]
    return list({row.tobytes(): row for row in rows}.values())


class FromRules:
    """A method whose start is the cheapest of `Context.rules`, which are measured first and count as evaluations.

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

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

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
