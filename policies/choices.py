"""Ragged choices: decisions may have fewer choices than the probabilities are wide (needs no torch)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def legal_choices(num_choices: NDArray[np.int16], choices: int) -> NDArray[np.bool_]:
    """bool [N, H, C], choice < num_choices; a decision without choices keeps choice 0.

    Raises ValueError where `num_choices` is not [N, H] or asks for more than C choices.
    """
    if num_choices.ndim != 2:
        raise ValueError(f"num_choices: expected shape [N, H], received {list(num_choices.shape)}")
    if num_choices.size and int(num_choices.max()) > choices:
        raise ValueError(f"num_choices: expected at most {choices}, received {int(num_choices.max())}")
    return np.arange(choices) < np.maximum(num_choices, 1)[..., None]
