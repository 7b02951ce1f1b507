"""What an observation shows of a mapping."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Mapping16


def choice_columns(choice_rank: NDArray[np.float32], mapping: Mapping16) -> NDArray[np.float32]:
    """float32 [N, H] or [B, N, H]: the rank in speed of each decision's choice; 0 if the choice is -1."""
    heads = np.arange(choice_rank.shape[0])
    ranks = choice_rank[heads, np.maximum(mapping, 0)]
    return np.where(mapping >= 0, ranks, np.float32(0)).astype(np.float32, copy=False)
