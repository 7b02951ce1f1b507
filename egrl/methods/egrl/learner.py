"""What Algorithm 2 asks of a learner. There are two: `rank_learner` and, as in the paper, `sac_learner`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hwsim.placing import Scores
from policies.store import StoredPolicy
from policies.weight_vector import Weights

LEARNER_SOURCE = "learner"
"""The source of a learner's own rollouts in the archive."""


class Learner(Protocol):
    """Proposes mappings, learns from what was measured, and may give its weights to the population.

    Attributes:
        per_round: how many mappings it proposes per round.
        metric_names: of what `learn` returns.
        places_as_drawn: if true, its scores are placed as they are, even where that mapping ran before.
    """

    per_round: int
    metric_names: tuple[str, ...]
    places_as_drawn: bool

    def rollouts(self, count: int) -> NDArray[np.float32]:
        """Probabilities float32 [count, N, H, C], where nothing places by rank."""

    def scores(self, count: int) -> tuple[Scores, NDArray[np.float64]]:
        """Scores float32 [count, T, L], and the shares float64 [count] of the prefetch memory that stay free."""

    def add(self, tickets: NDArray[np.int64], usable: NDArray[np.bool_]) -> None:
        """Lines 7 and 21: evaluations [B] of the archive, whoever proposed them, and which of them ran."""

    def learn(self) -> Mapping[str, float]:
        """Lines 22 to 31: what is due. Returns metrics by name; nothing if nothing was due."""

    def migrant(self) -> Weights | None:
        """Line 32: weights float32 [P] for a network of the population; None if those are of another kind."""

    def policy(self) -> StoredPolicy:
        """The learner's network, to be saved."""

    def state_dict(self) -> dict[str, Any]:
        """All that it needs to go on."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
