"""How networks are read: by the problem's placer, if it has one and the settings say so.

A ranking network sees the features of the placer, and one more where a trained network ships for these: its score. So
the shipped rules, that network, and whatever is learned from them are networks of one class, and the weights of each
can join the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from egrl.methods import policy_fit
from egrl.methods.egrl.config import PolicyConfig
from hwsim.capabilities import HasPlacer
from hwsim.placing import Placer
from hwsim.problem import Mapping16, Problem
from policies import shipped
from policies.network import RANKING_ONLY, NetworkConfig
from policies.places import Places
from policies.ranker import Rankers, by_hand, weight_of_share
from policies.weight_vector import Weights
from workloads.errors import InputError

if TYPE_CHECKING:
    from policies.store import StoredPolicy


@dataclass(frozen=True)
class Ranking:
    """Ranking networks and the placer that reads them.

    Attributes:
        placer: of the problem.
        places: what the networks read of it.
        names: of its features.
        network: their settings.
        shipped: whether they begin with what ships.
    """

    placer: Placer
    places: Places
    names: tuple[str, ...]
    network: NetworkConfig
    shipped: bool

    def rankers(self) -> Rankers:
        """Evaluates the networks."""
        return Rankers(self.network, self.names, self.places.shape[1])

    def place(self, scores: NDArray[np.float32], free_share: NDArray[np.float64]) -> Mapping16:
        """Mappings int16 [B, N, H] of scores float32 [B, T, L]."""
        return self.placer.place(scores, free_share)

    def policy(self, weights: Weights, problem: Problem, **free: Any) -> StoredPolicy:
        """A ranking network with weights float32 [P] as a policy for files."""
        from policies.store import ranker_policy

        space = problem.space
        return ranker_policy(weights, self.rankers(), heads=space.heads, choices=space.most_choices, **free)

    @cached_property
    def rules(self) -> list[Weights]:
        """The rules [2 H F + 1] that come with the package for these features, the best first; empty if not wanted."""
        found = shipped.rules(self.placer.feature_names, self.places.shape[1]) if self.shipped else []
        return [self._widened(rule) for rule in found]

    @cached_property
    def first(self) -> Weights:
        """The rule [2 H F + 1] that the learner begins with: the shipped network's score; else the best, or by hand."""
        heads = self.places.shape[1]
        found = policy_fit.shipped_network(self.placer, heads) if self.shipped else None
        if found is not None:
            _, share = policy_fit.shipped_scores(found, self.placer, self.places)
            rule = np.zeros((heads, 2, len(self.names)), np.float32)
            rule[:, :, -1] = 1.0
            return np.append(rule, np.float32(weight_of_share(share)))
        return self.rules[0] if self.rules else by_hand(self.names, heads)

    def _widened(self, rule: Weights) -> Weights:
        """A rule for the placer's features, for all of these."""
        heads, features = self.places.shape[1], len(self.placer.feature_names)
        wide = np.zeros((heads, 2, len(self.names)), np.float32)
        wide[:, :, :features] = rule[:-1].reshape(heads, 2, features)
        return np.append(wide, rule[-1]).astype(np.float32)


def names_choices(policy: StoredPolicy | None) -> bool:
    """True of a saved network that says which choice each decision should take, and ranks nothing."""
    return policy is not None and policy.metadata.get("kind") == "gnn"


def ranking_of(problem: Problem, config: PolicyConfig, init: StoredPolicy | None) -> Ranking | None:
    """The ranking networks of a problem; None where networks are read decision by decision.

    InputError if the network is one that ranks, and nothing places by its scores.
    """
    network, readout = config.network, config.readout
    if readout == "place" and isinstance(problem, HasPlacer) and not names_choices(init):
        # A policy to begin with says what its networks see.
        given = None if init is None else init.metadata.get("feature_names")
        trained = config.shipped and given in (
            None,
            list(policy_fit.ranked_names(problem.placer, problem, True)),
        )
        names = policy_fit.ranked_names(problem.placer, problem, trained)
        return Ranking(problem.placer, policy_fit.places_for(problem, names), names, network, config.shipped)
    if network.name in RANKING_ONLY:
        raise InputError(
            f"method.network.name: expected a network over the graph, found {network.name}: in {problem.about.name}"
            " nothing places by its scores with this method.readout"
        )
    return None
