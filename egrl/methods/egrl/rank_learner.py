"""A learner whose network ranks: it begins with the shipped network and follows the gradient of its scores.

Source: `egrl.methods.rank.gradient`, for one problem. Its rollouts are mirrored pairs of its scores with noise; once
they are measured, the slope of the cost goes through the network by backpropagation. If their number is odd, the
network's own mapping is one of them.

Where costs are measured, with profiles, the network is another one that ships, which also reads the profile of the
fastest mapping so far: it was trained on boards that differ from their chip files. A model that follows the chip file
has nothing more to say in a profile. Which of the two networks it is stays as it was in the first round.

Deviations from EGRL, Algorithm 2: the estimate needs the noise of the learner's own rollouts, so that of the shared
archive it takes only the least cost so far. The step follows at once, not while the next round is measured. The
population gets what the learner proposed as mappings; its weights migrate if the population's networks are of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from egrl.core.method import Context
from egrl.methods.egrl.config import LearnerConfig
from egrl.methods.egrl.parts import LEARNER_SOURCE, finite
from egrl.methods.egrl.ranking import Ranking
from egrl.methods.rank.gradient import Draws, ScoreGradient, regret, relative_cost
from hwsim.problem import Keys, Mapping16, Profiles
from policies.network import CONTEXT, LINEAR, NetworkConfig
from policies.ranker import Rankers
from policies.ranking_module import RankingModule
from policies.shipped import ShippedNetwork, network
from policies.store import StoredPolicy, ranker_policy
from policies.weight_vector import Weights


class Seen(NamedTuple):
    """A mapping int16 [N, H] and its profile float32 [P], and its cost over the baseline's; None: none so far."""

    cost: float = float("inf")
    mapping: Mapping16 | None = None
    profile: Profiles | None = None

    @property
    def known(self) -> bool:
        """Whether there is one."""
        return self.profile is not None


class RankLearner:
    """See the module. A round is asked for with `rollouts` and told with `add`."""

    metric_names: tuple[str, ...] = ("learner_loss", "estimate_norm", "sigma")

    def __init__(
        self,
        config: LearnerConfig,
        context: Context,
        rng: np.random.Generator,
        init: Weights | None,
        ranking: Ranking,
    ) -> None:
        """For the first problem of `context`.

        Its network is of the population's kind, or a context network where that is a linear rule. It begins with
        `init`, weights float32 [P] of the population's kind; else with the shipped network, or the best of the shipped
        rules and a random network beside it.
        """
        self.config, self._context, self._ranking = config, context, ranking
        self.per_round = config.rank.per_round
        self._places = ranking.places
        self._begin(ranking.names, *_first_network(config, ranking, init, rng))
        self._for_profiles = None if init is not None else _network_for_profiles(config, ranking)
        self._seen = self._shown = Seen()  # of all, and what the round under way reads
        self._begun = False
        self._least = 1.0  # cost over the baseline's
        self._asked = 0
        self._draws: Draws | None = None
        self._metrics: dict[str, float] = {}

    def _begin(self, names: tuple[str, ...], network: NetworkConfig, init: Weights | None) -> None:
        """A network that reads features of these names."""
        self._rankers = Rankers(network, names, self._places.shape[1])
        self._training = ScoreGradient(self._module(network, init), self.config.rank.training)

    def _look(self) -> None:
        """Before a round: the profile that its network reads; before the first one, whether it reads any."""
        measured = self._context.costs.measured
        if not self._begun and measured and self._seen.known and self._for_profiles is not None:
            self._begin_with_profiles(self._for_profiles)
        elif self._reads_profiles:
            self._show(self._seen)
        self._begun = True

    def _begin_with_profiles(self, shipped: ShippedNetwork) -> None:
        """Go on with the network that reads profiles."""
        self._show(self._seen)
        self._begin(shipped.rankers.names, shipped.rankers.config, shipped.weights)

    def _show(self, seen: Seen) -> None:
        self._shown, self._places = seen, self._ranking.places_after(seen.mapping, seen.profile)

    @property
    def _reads_profiles(self) -> bool:
        return self._rankers.names != self._ranking.names

    def _module(self, network: NetworkConfig, init: Weights | None) -> RankingModule:
        """The network in torch, with weights as drawn if there are no others."""
        names, places = self._rankers.names, self._places
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self._context.generator("learner weights").integers(2**63)))
            module = RankingModule(names, places.shape[1], network)
        module.see([places])
        if init is not None:
            module.begin_with(init, self._rankers.weight_format)
        return module

    def rollouts(self, keys: Keys) -> Mapping16:
        """Its own mapping, if the count is odd, and mirrored pairs, each as it is placed: even if it ran before."""
        self._look()
        self._asked, found = len(keys), []
        if self._asked % 2:
            found.append(self._rankers.scores(self._weights()[None], self._places))
        self._draws = self._drawn(self._asked)
        if self._draws is not None:
            found.append((self._draws.scores, self._draws.free_share))
        scores, share = zip(*found, strict=True)
        return self._ranking.place(finite(np.concatenate(scores)), np.concatenate(share))

    def _drawn(self, count: int) -> Draws | None:
        """The pairs of a round, always the same from the same weights."""
        if count < 2:
            return None
        rng = self._context.generator(f"learner round {self._training.rounds}")
        return self._training.begin([self._places], count, rng)[0]

    def add(self, tickets: NDArray[np.int64], usable: NDArray[np.bool_]) -> None:
        """The least cost of all, and its profile; a step once its own rollouts are measured."""
        archive = self._context.archive
        cost = relative_cost(usable, archive.column("speedup")[tickets])
        self._least = min(self._least, float(cost.min(initial=np.inf)))
        if self._for_profiles is not None:
            self._note(tickets, cost)
        own = cost[archive.sources(tickets) == LEARNER_SOURCE]
        if not len(own) or self._draws is None:
            return
        losses = regret(own[-len(self._draws.scores) :], self._least)
        sigma = self._training.sigma
        norm = self._training.end([self._draws], [losses])
        self._metrics = {"learner_loss": float(losses.mean()), "estimate_norm": norm, "sigma": sigma}
        self._draws = None

    def _note(self, tickets: NDArray[np.int64], cost: NDArray[np.float64]) -> None:
        """Keep the profile of the fastest mapping that has one."""
        archive = self._context.archive
        faster = cost < self._seen.cost
        profiles = archive.parts(tickets[faster])
        known = ~np.isnan(profiles).all(axis=1)
        if known.any():
            best = int(np.argmin(np.where(known, cost[faster], np.inf)))
            mapping = archive.mappings(tickets[faster][[best]])[0]
            self._seen = Seen(float(cost[faster][best]), mapping, profiles[best])

    def learn(self) -> Mapping[str, float]:
        """Metrics of the last step; the step itself is `add`'s, since the next round is drawn before `learn`."""
        return self._metrics

    def _weights(self) -> Weights:
        return self._training.module.weights()

    def migrant(self) -> Weights | None:
        """Its weights, if the population's networks are of the same shape."""
        same = self.config.migration and self._ranking.network == self._rankers.config
        return self._weights() if same else None

    def policy(self) -> StoredPolicy:
        """The network, as it is where no profile is known: elsewhere none is."""
        space, rankers, weights = self._context.problems[0].space, self._rankers, self._weights()
        if self._reads_profiles:
            rankers, weights = rankers.for_features(self._ranking.names, weights)
        return ranker_policy(
            weights,
            rankers,
            heads=space.heads,
            choices=space.most_choices,
            seed=self._context.seed,
        )

    def state_dict(self) -> dict[str, Any]:
        """Weights, moments and counts; the draws of the round under way follow from these."""
        return {
            "training": self._training.state_dict(),
            "least": self._least,
            "asked": 0 if self._draws is None else self._asked,
            "metrics": self._metrics,
            "begun": self._begun,
            "reads_profiles": self._reads_profiles,
            "seen": list(self._seen),
            "shown": list(self._shown),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._begun, self._seen, shown = state["begun"], Seen(*state["seen"]), Seen(*state["shown"])
        if state["reads_profiles"]:
            assert self._for_profiles is not None
            self._begin_with_profiles(self._for_profiles)
            self._show(shown)
        self._training.load_state_dict(state["training"])
        self._least, self._asked = float(state["least"]), int(state["asked"])
        self._metrics = dict(state["metrics"])
        self._draws = self._drawn(self._asked)


def _network_for_profiles(config: LearnerConfig, ranking: Ranking) -> ShippedNetwork | None:
    """The network that ships and reads profiles; None if it is not to be used.

    It is none where the population's networks are of the learner's kind: weights could not migrate.
    """
    names = ranking.placer.profile_names
    if not (names and config.rank.profile and config.rank.shipped) or ranking.network.name != LINEAR:
        return None
    return network(ranking.names + names, ranking.places.shape[1])


def _first_network(
    config: LearnerConfig, ranking: Ranking, init: Weights | None, rng: np.random.Generator
) -> tuple[NetworkConfig, Weights | None]:
    """The kind of network that the learner trains, and its first weights, None if they are to be drawn."""
    heads, population = ranking.places.shape[1], ranking.network
    alike = population.name != LINEAR
    own = population if alike else NetworkConfig(name=CONTEXT, width=config.rank.width)
    if init is not None:
        return own, init if alike else Rankers(own, ranking.names, heads).of_rule(init, rng)
    found = network(ranking.names, heads) if config.rank.shipped else None
    if found is not None and (not alike or own == found.rankers.config):
        return found.rankers.config, found.weights
    if config.rank.shipped and (rules := ranking.shipped()):
        return own, Rankers(own, ranking.names, heads).of_rule(rules[0], rng)
    return own, None
