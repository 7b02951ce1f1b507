"""Random plans: Monte-Carlo completions of the empty plan, which is where TAG begins. A rule is drawn uniformly at each
step of the problem's derivation, so that short plans come more often than by uniform decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from egrl.core.archive import Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition
from hwsim.keys import SAMPLE
from hwsim.problem import Problem
from hwsim.stepwise import HasDerivation


@dataclass(frozen=True)
class RandomPlansConfig:
    """No settings."""


class RandomPlans(Method):
    """See the module."""

    ahead = 1

    def __init__(self, context: Context, config: RandomPlansConfig) -> None:
        problem = context.problems[0]
        assert isinstance(problem, HasDerivation)
        self._graph, self._context, self._asked = problem.derivation, context, 0

    def ask(self) -> Proposals:
        """Completions, a key each."""
        keys = self._context.keys(SAMPLE, self._asked, self._context.generation_evals)
        self._asked += len(keys)
        drawn = [self._graph.completion(self._graph.root, np.random.default_rng(int(key))) for key in keys]
        return proposals(np.stack([plan for plan in drawn if plan is not None]), "random")

    def state_dict(self) -> dict[str, Any]:
        """How many were drawn."""
        return {"asked": self._asked}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._asked = int(state["asked"])


def serves(problem: Problem) -> str | None:
    """Only problems that are derivation graphs."""
    return None if isinstance(problem, HasDerivation) else "the problem has no derivation"


DEFINITION = MethodDefinition(RandomPlansConfig, RandomPlans, serves, {})
