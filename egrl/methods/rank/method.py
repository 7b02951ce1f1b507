"""Rank: one ranking network, trained by the gradient of its scores, on one problem or one for many (`egrl pretrain`).

Round by round, some of the problems are drawn; of each the network's own mapping is measured, and mirrored pairs that
are placed by its scores with noise. `egrl.methods.rank.gradient` has source, estimate and loss, `policies.context` the
network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egrl.core.archive import Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition
from egrl.methods import policy_fit
from egrl.methods.rank.config import RankConfig
from egrl.methods.rank.gradient import Draws, ScoreGradient, regret, relative_cost
from hwsim.capabilities import HasPlacer
from hwsim.problem import Evaluation, Problem
from policies.ranker import Rankers
from policies.ranking_module import RankingModule
from policies.store import StoredPolicy, ranker_policy
from policies.weight_vector import Weights

METRICS = ("deployable_speedup", "loss", "estimate_norm", "sigma")


@dataclass
class _Round:
    """The problems of a round, the network's weights, what is placed of each, losses float64 [B] of the measured."""

    problems: list[int]
    weights: Weights
    draws: list[Draws]
    losses: list[NDArray[np.float64]]
    own: list[float]

    @property
    def measured(self) -> bool:
        return len(self.losses) == len(self.problems)


class Rank(Method):
    """See the module."""

    def __init__(self, context: Context, config: RankConfig) -> None:
        """Raises InputError where one network cannot rank for all problems, or `context.init` does not fit."""
        torch.set_num_threads(context.threads)
        self._context, self._config = context, config
        self._problems = list(context.problems)
        self._places = [policy_fit.places_of(problem) for problem in self._problems]
        first = self._problems[0]
        assert isinstance(first, HasPlacer)
        names, heads = first.placer.feature_names, len(first.space.heads)
        self._rankers = Rankers(config.network, names, heads)
        init = policy_fit.init_weights(context, self._rankers.config, self._rankers)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(context.generator("rank weights").integers(2**63)))
            module = RankingModule(names, heads, config.network)
        module.see(self._places)
        if init is not None:
            module.begin_with(init, self._rankers.weight_format)
        self._training = ScoreGradient(module, config.training.longest, config.training.input_noise)
        self._least = np.ones(len(self._problems))  # costs over the baseline's
        self._current: _Round | None = None
        self._metrics: dict[str, float] = {}

    def _begin(self) -> _Round:
        """The round whose number says what is drawn: always the same from the same weights."""
        rng = self._context.generator(f"rank round {self._training.rounds}")
        count = min(self._config.tasks, len(self._problems))
        chosen = np.sort(rng.choice(len(self._problems), count, replace=False)).tolist()
        training, places = self._training, [self._places[k] for k in chosen]
        draws = training.begin(places, self._config.samples, self._sigma, rng)
        return _Round(chosen, training.module.weights(), draws, [], [])

    @property
    def _sigma(self) -> float:
        return self._config.training.sigma(self._training.rounds)

    def ask(self) -> Proposals:
        """The current round's mappings of the next problem; a new round once all of it has been told."""
        if self._current is None:
            self._current = self._begin()
        number = len(self._current.losses)
        draws, index = self._current.draws[number], self._current.problems[number]
        problem = self._problems[index]
        assert isinstance(problem, HasPlacer)
        # What the network is deployed with sees features as they are, whatever noise it is trained with.
        own, share = self._rankers.scores(self._current.weights[None], self._places[index])
        scores = np.concatenate([own, draws.scores])
        return proposals(problem.placer.place(scores, np.append(share, draws.free_share)), "network", index)

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Keep the losses of a problem's mappings; after the last problem of a round the network takes a step."""
        cost = relative_cost(evaluation.usable, evaluation.speedup)
        index = proposals.problem
        self._least[index] = min(self._least[index], float(cost.min()))
        current = self._current
        if current is None:  # the start
            return
        current.losses.append(regret(cost[1:], self._least[index]))
        current.own.append(float(1.0 / cost[0]))
        if current.measured:
            self._step(current)
            self._current = None

    def _step(self, current: _Round) -> None:
        self._metrics = {
            "deployable_speedup": float(np.exp(np.mean(np.log(np.maximum(current.own, 1e-9))))),
            "loss": float(np.mean(current.losses)),
            "sigma": self._sigma,
            "estimate_norm": self._training.end(
                current.draws, current.losses, self._config.training.rate(self._training.rounds)
            ),
        }

    def metrics(self) -> Mapping[str, float]:
        """The last round's figures: geometric mean speedup of the own mappings, loss, noise, length of the estimate."""
        return {name: self._metrics.get(name, np.nan) for name in METRICS}

    def policy(self) -> StoredPolicy:
        """The network."""
        space = self._problems[0].space
        return ranker_policy(
            self._training.module.weights(),
            self._rankers,
            heads=space.heads,
            choices=space.most_choices,
            seed=self._context.seed,
        )

    def state_dict(self) -> dict[str, Any]:
        """Weights, moments, least costs and the losses of the round under way, whose draws follow from the seed."""
        current = self._current
        return {
            "training": self._training.state_dict(),
            "least": self._least,
            "losses": None if current is None else current.losses,
            "own": None if current is None else current.own,
            "metrics": self._metrics,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._training.load_state_dict(state["training"])
        self._least = np.array(state["least"], np.float64)
        self._metrics = dict(state["metrics"])
        self._current = None
        if state["losses"] is not None:
            self._current = self._begin()
            self._current.losses = [np.asarray(loss, np.float64) for loss in state["losses"]]
            self._current.own = list(state["own"])


def needs_placer(problem: Problem) -> str | None:
    """`serves` of methods whose policies rank tensors for a placer."""
    if not isinstance(problem, HasPlacer):
        return "nothing places its tensors by rank"
    if problem.placer.features.shape[1] < 2 or not len(problem.placer.node):
        return "there is nothing to place"
    return None


DEFINITION = MethodDefinition(
    RankConfig,
    Rank,
    needs_placer,
    {},
    takes_policy=True,
    several=True,
    pretraining={"training.rounds": 6000, "training.input_noise": 0.15},
)
