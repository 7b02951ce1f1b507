"""Results of a batch, by its rewards alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egrl.core.archive import Proposals
from hwsim.problem import Evaluation, Status


def results(batch: Proposals, rewards: Sequence[float]) -> Evaluation:
    """Everything ran as it was proposed; a reward of NaN is a measurement that failed."""
    reward = np.array(rewards, np.float64)
    failed, nothing = np.isnan(reward), np.zeros(len(reward))
    status = np.where(failed, Status.FAILED, Status.OK).astype(np.int8)
    return Evaluation(
        reward, nothing, nothing, nothing, status, np.zeros(len(reward), np.bool_), batch.mapping
    )
