"""Monte-Carlo completions: from a partial plan to a complete one by uniform choices (TAG, section 3.2).

Where a choice leads to a dead end, another one is drawn; the paper's grammars have none. Completions that learn are in
`egrl/methods/graph_search/learned.py`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import numpy as np

from hwsim.problem import Mapping16
from hwsim.stepwise import Derivation


class Completions(Protocol):
    """What draws complete plans, and is told what became of all that were measured."""

    def draw(self, plan: Hashable) -> Mapping16 | None:
        """int16 [N, H] of a complete plan below a partial one (or of itself); None where there is none."""

    def learn(self, mapping: Mapping16, reward: float) -> None:
        """The reward of a mapping int16 [N, H]; NaN where it failed."""


class Uniform:
    """Uniform choices, whatever was measured."""

    def __init__(self, derivation: Derivation, rng: np.random.Generator) -> None:
        self._derivation, self._rng = derivation, rng

    def draw(self, plan: Hashable) -> Mapping16 | None:
        """As `Derivation.completion`."""
        return self._derivation.completion(plan, self._rng)

    def learn(self, mapping: Mapping16, reward: float) -> None:
        """Nothing is learned."""
