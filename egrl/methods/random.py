"""Random search: every decision drawn uniformly and independently, through the problem's own `sample`.

The floor under every comparison. Several problems are served in turn, a generation each.

With `draw = "derivation"` the draws are Monte-Carlo completions of the root of the problem's derivation graph instead,
which is where TAG begins: a rule drawn uniformly at each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from egrl.core.budget import GENERATION
from egrl.core.keys import SAMPLE, run_keys
from egrl.core.method import Setting
from egrl.core.proposals import Proposals, proposals
from egrl.core.registry import MethodDefinition, serves_all
from egrl.methods.graph_search.completion import complete
from hwsim.mappings import sample_uniformly
from hwsim.problem import Evaluation, Keys, Mapping16, Problem
from hwsim.stepwise import HasDerivation
from workloads.errors import InputError

if TYPE_CHECKING:
    from policies.store import StoredPolicy


@dataclass(frozen=True)
class RandomConfig:
    """Settings of random search.

    Attributes:
        draw: decisions by the problem's "sample", or plans of its "derivation".
    """

    draw: Literal["sample", "derivation"] = "sample"


class RandomSearch:
    """See the module."""

    metric_names: tuple[str, ...] = ()

    def __init__(self, setting: Setting, config: RandomConfig) -> None:
        self._setting, self._config = setting, config
        self._asked = 0
        for problem in setting.problems:
            if config.draw == "derivation" and not isinstance(problem, HasDerivation):
                raise InputError(
                    f"method.draw: expected sample, since problem {problem.about.name} has no derivation, found"
                    " 'derivation'"
                )

    def ask(self, room: int) -> Proposals | None:
        """Draws of the current generation; its first row is the start mapping, once a problem."""
        turn, row = divmod(self._asked, GENERATION)
        problem = self._setting.problems[turn % len(self._setting.problems)]
        batch = min(room, GENERATION - row)
        tickets = np.arange(self._asked, self._asked + batch, dtype=np.int64)
        mapping = self._draw(problem, run_keys(self._setting.seed, tickets, SAMPLE))
        sources = ["random"] * batch
        start = self._setting.start[turn % len(self._setting.problems)]
        if row == 0 and turn < len(self._setting.problems) and start is not None:
            mapping[0], sources[0] = start, "start"
        self._asked += batch
        return proposals(mapping, sources, turn % len(self._setting.problems))

    def _draw(self, problem: Problem, keys: Keys) -> Mapping16:
        """int16 [B, N, H], a mapping for each key."""
        if self._config.draw == "derivation" and isinstance(problem, HasDerivation):
            graph = problem.derivation
            plans = [complete(graph, graph.root, np.random.default_rng(int(key))) for key in keys]
            return np.stack([plan for plan in plans if plan is not None])
        return sample_uniformly(problem, keys)

    def learn(self) -> None:
        """Nothing is learned."""

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Nothing is learned."""

    def metrics(self) -> Mapping[str, float]:
        """No metrics of its own."""
        return {}

    def policy(self) -> StoredPolicy | None:
        """No policy."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """How many rows were asked for."""
        return {"asked": self._asked}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._asked = int(state["asked"])


DEFINITION = MethodDefinition(RandomConfig, RandomSearch, serves_all, {})
