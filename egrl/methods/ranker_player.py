"""Ranking policies: the mapping that the problem's placer makes of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from egrl.methods import policy_fit
from hwsim.capabilities import HasPlacer
from hwsim.problem import Mapping16, Problem
from policies.graph import prepare
from policies.ranker import Rankers
from policies.store import StoredPolicy, ranker_weights, rankers_of
from policies.weight_vector import Weights


def player(paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> RankerPlayer:
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
        graph = None
        if self._rankers.reads_graph:
            seen = policy_fit.observation(problem)
            graph = prepare(seen.edge_index, len(seen.x))
        scores, share = self._rankers.scores(self._weights, policy_fit.places_of(problem), graph)
        return problem.placer.place(scores, share)
