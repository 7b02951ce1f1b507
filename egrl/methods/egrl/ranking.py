"""How networks are read: by the problem's placer, if it has one and the settings say so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from egrl.methods import policy_fit
from egrl.methods.egrl.config import Readout
from hwsim.capabilities import HasPlacer
from hwsim.placing import Placer
from hwsim.problem import Mapping16, Problem, Profiles
from policies.network import AUTO, GRAPH_UNET, LINEAR, RANKING_ONLY, NetworkConfig
from policies.places import Places
from policies.ranker import Rankers
from policies.shipped import rules
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
        network: their settings.
    """

    placer: Placer
    places: Places
    network: NetworkConfig

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.placer.feature_names

    def places_after(self, mapping: Mapping16 | None, profile: Profiles | None) -> Places:
        """What networks that also read profiles see of a mapping int16 [N, H] and its profile [P], or of none."""
        if mapping is None or profile is None:
            return self.places.with_blank(len(self.placer.profile_names))
        return self.places.with_features(self.placer.of_profile(mapping, profile))

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

    def shipped(self) -> list[Weights]:
        """The rules [2 H F + 1] that come with the package for these features, the best first."""
        return rules(self.names, self.places.shape[1])


def names_choices(policy: StoredPolicy | None) -> bool:
    """True of a saved network that says which choice each decision should take, and ranks nothing."""
    return policy is not None and policy.metadata.get("kind") == "gnn"


def ranking_of(problem: Problem, network: NetworkConfig, readout: Readout) -> Ranking | None:
    """The ranking networks of a problem; None where networks are read decision by decision."""
    if readout != "place" or not isinstance(problem, HasPlacer):
        return None
    chosen = replace(network, name=LINEAR) if network.name == AUTO else network
    return Ranking(problem.placer, policy_fit.places_of(problem), chosen)


def network_of(problem: Problem, network: NetworkConfig, ranking: Ranking | None) -> NetworkConfig:
    """The network in use. InputError if it is one that ranks, and nothing places by its scores."""
    if ranking is not None:
        return ranking.network
    if network.name in RANKING_ONLY:
        raise InputError(
            f"method.network.name: expected a network over the graph, found {network.name}: in {problem.about.name}"
            " nothing places by its scores with this method.readout"
        )
    return replace(network, name=GRAPH_UNET) if network.name == AUTO else network
