"""Random search: independent uniform draws, the floor under every comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from egrl.core.archive import Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, serves_all
from hwsim.keys import SAMPLE
from hwsim.mappings import sample_uniformly


@dataclass(frozen=True)
class RandomConfig:
    """No settings.

    Example:
        >>> import egrl
        >>> from egrl.methods.random import RandomConfig
        >>> result = egrl.search("alexnet", method=RandomConfig(), evals=60)
        >>> result.speedup >= 1.0
        True
    """


class RandomSearch(Method):
    ahead = 1

    def __init__(self, context: Context, config: RandomConfig) -> None:
        self._context, self._asked = context, 0

    def ask(self) -> Proposals:
        keys = self._context.keys(SAMPLE, self._asked, self._context.generation_evals)
        self._asked += len(keys)
        return proposals(sample_uniformly(self._context.problems[0], keys), "random")

    def state_dict(self) -> dict[str, Any]:
        return {"asked": self._asked}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._asked = int(state["asked"])


DEFINITION = MethodDefinition(RandomConfig, RandomSearch, serves_all, {})
