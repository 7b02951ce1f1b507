"""Means of speedups."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FAILED = 0.01
"""The speedup that stands for a mapping that does not run, where a geometric mean is taken."""


def geometric_mean(speedups: ArrayLike, axis: int = 0) -> NDArray[np.float64]:
    """Geometric means of speedups along an axis; a mapping that does not run (0) counts as `FAILED`."""
    return np.asarray(np.exp(np.log(np.maximum(speedups, FAILED)).mean(axis=axis)), np.float64)
