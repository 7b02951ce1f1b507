"""Which learner a run has."""

from __future__ import annotations

import numpy as np

from egrl.core.method import Context
from egrl.methods.egrl.config import LearnerConfig
from egrl.methods.egrl.learner import Learner
from egrl.methods.egrl.ranking import Ranking
from policies.network import NetworkConfig
from policies.weight_vector import Weights
from workloads.errors import InputError


def learner_of(
    config: LearnerConfig,
    network: NetworkConfig,
    context: Context,
    rng: np.random.Generator,
    init: Weights | None,
    ranking: Ranking | None,
) -> Learner:
    """The learner for the first problem of `context`; it begins with weights `init` float32 [P], if given.

    Where networks rank tensors for a placer it is one that ranks, else SAC, unless the settings name one.

    Raises InputError if it is to rank, and nothing places by rank.
    """
    if config.algorithm == "rank" and ranking is None:
        raise InputError(
            "method.learner.algorithm: expected sac, since no placer reads the networks, found rank"
        )
    if ranking is not None and config.algorithm != "sac":
        from egrl.methods.egrl.rank_learner import RankLearner

        return RankLearner(config, context, rng, init, ranking)
    from egrl.methods.egrl.sac_learner import SacLearner

    return SacLearner(config, network, context, rng, init, ranking)
