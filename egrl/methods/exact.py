"""Exact: the solution of the problem's own model, as a method.

It proposes the start mapping, where there is one, and the model's solution; then it has nothing more to say. What
the solution is measured to cost may differ from what the model says (noise, a board that the model does not fit).
Several problems are solved one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Gt, Le
from numpy.typing import NDArray

from egrl.core.method import Setting
from egrl.core.proposals import Proposals, proposals
from egrl.core.registry import MethodDefinition
from hwsim.capabilities import HasModel
from hwsim.problem import Evaluation, Problem

if TYPE_CHECKING:
    from policies.store import StoredPolicy


@dataclass(frozen=True)
class ExactConfig:
    """Settings of the solve.

    Attributes:
        seconds: time limit of each problem's solve; the bound reached by then counts.
    """

    seconds: Annotated[float, Gt(0), Le(1e6)] = 60.0


class Exact:
    """See the module."""

    metric_names: tuple[str, ...] = ("model_bound", "model_cost")

    def __init__(self, setting: Setting, config: ExactConfig) -> None:
        self._setting, self._config = setting, config
        self._asked = 0
        self._solved: list[tuple[NDArray[np.int16], float, float]] = []

    def ask(self, room: int) -> Proposals | None:
        """The next start mapping or solution; None once all have been proposed."""
        number, second = divmod(self._asked, 2)
        if number >= len(self._setting.problems):
            return None
        self._asked += 1
        problem, start = self._setting.problems[number], self._setting.start[number]
        if not second and start is not None:
            return proposals(start[None], "start", number)
        if not second:
            self._asked += 1
        assert isinstance(problem, HasModel)
        solution = problem.solve(self._config.seconds, self._setting.seed)
        self._solved.append((solution.mapping, solution.cost, solution.bound.cost))
        return proposals(solution.mapping[None], "exact", number)

    def learn(self) -> None:
        """Nothing is learned."""

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Nothing is learned."""

    def metrics(self) -> Mapping[str, float]:
        """Bound and cost that the model gave for the last problem solved."""
        if not self._solved:
            return {"model_bound": np.nan, "model_cost": np.nan}
        _, cost, bound = self._solved[-1]
        return {"model_bound": bound, "model_cost": cost}

    def policy(self) -> StoredPolicy | None:
        """No policy."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """What was asked and what was solved."""
        return {"asked": self._asked, "solved": [list(entry) for entry in self._solved]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._asked = int(state["asked"])
        self._solved = [(mapping, cost, bound) for mapping, cost, bound in state["solved"]]


def serves(problem: Problem) -> str | None:
    """Only problems that can solve a model of themselves."""
    return None if isinstance(problem, HasModel) else "the problem has no model that can be solved"


DEFINITION = MethodDefinition(ExactConfig, Exact, serves, {})
