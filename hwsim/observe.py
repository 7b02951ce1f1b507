"""The observation of a problem under a mapping."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import HasObservation
from hwsim.problem import Mapping16, Observation, Problem


def choice_columns(choice_rank: NDArray[np.float32], mapping: Mapping16) -> NDArray[np.float32]:
    """float32 [N, H] or [B, N, H]: the rank in speed of each decision's choice; 0 if the choice is -1."""
    heads = np.arange(choice_rank.shape[0])
    ranks = choice_rank[heads, np.maximum(mapping, 0)]
    return np.where(mapping >= 0, ranks, np.float32(0)).astype(np.float32, copy=False)


def observe(problem: Problem, mapping: Mapping16) -> Observation:
    """The observation when the current mapping is `mapping` (int16 [N, H]): the last H columns say so.

    Raises:
        ValueError: the problem has no observation, or the shape of the mapping is not [N, H].
    """
    if not isinstance(problem, HasObservation):
        raise ValueError(
            f"problem: expected one with an observation, received {problem.about.name!r} without"
        )
    if mapping.shape != problem.space.shape:
        raise ValueError(f"mapping: expected shape {problem.space.shape}, received {mapping.shape}")
    x = problem.observation.x.copy()
    x[:, -mapping.shape[1] :] = choice_columns(problem.space.choice_rank, mapping)
    return replace(problem.observation, x=x)
