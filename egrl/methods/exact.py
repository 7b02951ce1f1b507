"""Exact: the solution of the problem's own model, as a method.

It proposes the model's solution; then it has nothing more to say. What the solution is measured to cost may differ from
what the model says (noise, a board that the model does not fit).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Gt, Le
from typing_extensions import Doc

from egrl.core.method import Context, Method
from egrl.core.proposals import Proposals, proposals
from egrl.core.registry import MethodDefinition
from hwsim.capabilities import HasModel
from hwsim.problem import Problem


@dataclass(frozen=True)
class ExactConfig:
    """Settings of the solve."""

    seconds: Annotated[
        float, Gt(0), Le(1e6), Doc("time limit of the solve; the bound reached by then counts")
    ] = 60.0


class Exact(Method):
    """See the module."""

    def __init__(self, context: Context, config: ExactConfig) -> None:
        self._context, self._config = context, config
        self.phase = f"solving the model, {config.seconds:g} s at most"
        self._metrics: dict[str, float] | None = None

    def ask(self) -> Proposals | None:
        """The solution, once."""
        if self._metrics is not None:
            return None
        problem = self._context.problems[0]
        assert isinstance(problem, HasModel)
        with self._context.model_use.timed():
            solution = problem.solve(self._config.seconds, self._context.seed)
        self.phase = ""
        self._metrics = {"model_bound": solution.bound.cost, "model_cost": solution.cost}
        return proposals(solution.mapping[None], "exact")

    def metrics(self) -> Mapping[str, float]:
        """Bound and cost that the model gave."""
        return self._metrics or {"model_bound": np.nan, "model_cost": np.nan}

    def state_dict(self) -> dict[str, Any]:
        """What was solved."""
        return {"metrics": self._metrics}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._metrics = state["metrics"]


def serves(problem: Problem) -> str | None:
    """Only problems that can solve a model of themselves."""
    return None if isinstance(problem, HasModel) else "the problem has no model that can be solved"


DEFINITION = MethodDefinition(ExactConfig, Exact, serves, {})
