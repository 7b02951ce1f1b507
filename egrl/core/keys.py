"""Keys of a run: every random draw of an evaluation or a sample follows from the seed and its number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.keys import derive
from hwsim.problem import Keys

MOST_SEED = 2**64 - 1
EVALUATION = 0
SAMPLE = 1
REPAIR = 2


def run_keys(seed: int, numbers: NDArray[np.int64], stream: int) -> Keys:
    """uint64 [B]: a key for each number (a ticket, say), another for each seed and stream."""
    base = derive(np.array([seed], dtype=np.uint64), stream)
    return derive(base + numbers.astype(np.uint64), 0)
