"""What Algorithm 2 asks of a learner: `rank_learner` where a placer reads the networks, else `sac_learner`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Keys, Mapping16
from policies.store import StoredPolicy
from policies.weight_vector import Weights
from workloads.errors import RunFailure

LEARNER_SOURCE = "learner"
"""The source of a learner's own rollouts in the archive."""


DIVERGED = (
    "a policy's weights have diverged to values that are not finite; try smaller steps"
    " (method.actor_lr of SAC, method.first_rate of a learner that ranks)"
)


def finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Probabilities or scores as they are. RunFailure unless they are finite."""
    if not np.isfinite(values).all():
        raise RunFailure(DIVERGED)
    return values


class Learner(Protocol):
    """Proposes mappings, learns from what was measured, and may give its weights to the population.

    Attributes:
        per_round: how many mappings it proposes per round.
        metric_names: of what `learn` returns.
    """

    per_round: int
    metric_names: tuple[str, ...]

    def rollouts(self, keys: Keys) -> Mapping16:
        """Mappings int16 [B, N, H] of its own, one per key uint64 [B]. RunFailure if its weights have diverged."""

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
