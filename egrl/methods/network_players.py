"""Saved networks as players: what they think best, with no training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from egrl.methods import policy_fit
from hwsim.capabilities import HasPlacer
from hwsim.problem import Mapping16, Problem
from policies.graph import prepare
from policies.ranker import Rankers
from policies.stacked import StackedActor
from policies.store import StoredPolicy, config_of, flat_weights, ranker_weights, rankers_of
from policies.weight_vector import Weights
from workloads.errors import InputError


def gnn_player(paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> GnnPlayer:
    """InputError where the weights of one are not those of its network, or of another number than the first's."""
    meta = stored[0].metadata
    rows = [flat_weights(policy, str(path)) for path, policy in zip(paths, stored, strict=True)]
    wrong = next((k for k, row in enumerate(rows) if len(row) != len(rows[0])), None)
    if wrong is not None:
        raise InputError(
            f"{paths[wrong]}: expected {len(rows[0])} weights as {paths[0]} has, found {len(rows[wrong])}"
        )
    network = config_of(stored[0], str(paths[0]))
    return GnnPlayer(
        StackedActor(network, meta["features"], len(meta["heads"]), meta["choices"]), np.stack(rows)
    )


class GnnPlayer:
    """S graph networks, all evaluated at once; weights float32 [S, P]."""

    def __init__(self, actor: StackedActor, weights: Weights) -> None:
        self._actor, self._weights = actor, weights

    def greedy(self, problem: Problem) -> Mapping16:
        """int16 [S, N, H]."""
        torch.set_num_threads(1)  # graphs are small: more threads wait for one another
        seen = policy_fit.observation(problem)
        graph = prepare(seen.edge_index, len(seen.x))
        odds = self._actor.probabilities(self._weights, seen.x, graph, problem.space.num_choices)
        return np.where(problem.space.live, odds.argmax(axis=-1), -1).astype(np.int16)


def ranker_player(paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> RankerPlayer:
    """InputError if the weights of one are not those of its network."""
    rankers = rankers_of(stored[0], str(paths[0]))
    rows = [ranker_weights(policy, rankers, str(path)) for path, policy in zip(paths, stored, strict=True)]
    return RankerPlayer(rankers, np.stack(rows))


class RankerPlayer:
    """S ranking networks, all evaluated at once; weights float32 [S, P]."""

    def __init__(self, rankers: Rankers, weights: Weights) -> None:
        self._rankers, self._weights = rankers, weights

    def greedy(self, problem: Problem) -> Mapping16:
        """int16 [S, N, H]."""
        assert isinstance(problem, HasPlacer)
        scores, share = self._rankers.scores(self._weights, policy_fit.places_of(problem))
        return problem.placer.place(scores, share)
