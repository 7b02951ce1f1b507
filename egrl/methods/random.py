"""Random search: every decision drawn uniformly and independently, through the problem's own `sample`.

The floor under every comparison. Several problems are served in turn, a generation each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.keys import SAMPLE, run_keys
from egrl.methods import Definition, serves_all
from egrl.types import GENERATION, Proposals, Setting, proposals
from hwsim.problem import Evaluation

if TYPE_CHECKING:
    from policies.store import StoredPolicy


@dataclass(frozen=True)
class RandomConfig:
    """Nothing to set."""


class RandomSearch:
    """See the module."""

    metric_names: tuple[str, ...] = ()

    def __init__(self, setting: Setting, config: RandomConfig) -> None:
        self._setting = setting
        self._asked = 0

    def ask(self, room: int) -> Proposals | None:
        """Draws of the current generation; its first row is the start mapping, once a problem."""
        turn, row = divmod(self._asked, GENERATION)
        problem = self._setting.problems[turn % len(self._setting.problems)]
        batch = min(room, GENERATION - row)
        nodes, heads = problem.num_choices.shape
        uniform = np.ones((batch, nodes, heads, int(problem.num_choices.max())), dtype=np.float32)
        tickets = np.arange(self._asked, self._asked + batch, dtype=np.int64)
        mapping = problem.sample(uniform, run_keys(self._setting.seed, tickets, SAMPLE))
        sources = ["random"] * batch
        start = self._setting.start[turn % len(self._setting.problems)]
        if row == 0 and turn < len(self._setting.problems) and start is not None:
            mapping[0], sources[0] = start, "start"
        self._asked += batch
        return proposals(mapping, sources, turn % len(self._setting.problems))

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


DEFINITION = Definition(RandomConfig, RandomSearch, serves_all, {})
