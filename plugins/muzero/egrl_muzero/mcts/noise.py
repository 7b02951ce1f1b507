"""Noise at the root as a pure function of a key a game: Gumbel and Dirichlet numbers.

Sources: Gamma numbers by Marsaglia and Tsang (ACM Trans. Math. Softw. 26, 2000), shapes below 1 by their power of a
uniform number; Dirichlet numbers are Gamma numbers over their sum.

Deviations: Gamma numbers are kept as logarithms, so that a small shape (0.03 in MMap-MuZero) cannot make all of them 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import normal, uniform
from hwsim.problem import Floats, Keys

_HALF = 2.0**-54
"""Half of the step of `uniform`: added to it, it is never 0."""


@kernel
def _gumbels(keys: NDArray[np.uint64], actions: int) -> Floats:
    out = np.empty((len(keys), actions))
    for b in range(len(keys)):
        for a in range(actions):
            out[b, a] = -math.log(-math.log(uniform(keys[b], np.uint64(a)) + _HALF))
    return out


@kernel
def _log_gamma_number(key: np.uint64, first: int, shape: float) -> tuple[float, int]:
    """Logarithm of a Gamma number of that shape from the draws `first`, …; and the draw after the last."""
    # The method needs a shape of at least 1. A smaller one is that of shape + 1 times a power of a uniform number, a
    # sum in logarithms: `boost`.
    draw = first
    boost = 0.0
    d = shape - 1.0 / 3.0
    if shape < 1.0:
        boost = math.log(uniform(key, np.uint64(draw)) + _HALF) / shape
        draw += 1
        d += 1.0
    c = 1.0 / math.sqrt(9.0 * d)
    # A normal number takes two uniform draws, which `normal` counts in pairs: begin at an even one. Each try uses four
    # numbers, whether it is kept or not, so that the draws of one try never overlap those of another.
    draw += draw % 2
    while True:
        x = normal(key, np.uint64(draw // 2))
        u = uniform(key, np.uint64(draw + 2)) + _HALF
        draw += 4
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return math.log(d * v) + boost, draw


@kernel
def _dirichlets(keys: NDArray[np.uint64], actions: int, alpha: float) -> Floats:
    out = np.empty((len(keys), actions))
    for b in range(len(keys)):
        # Logarithms of Gamma numbers first. Their largest is subtracted before the exponential, so that at least one of
        # them is 1 and the sum is never 0, however small the shape.
        draw = 0
        top = -np.inf
        for a in range(actions):
            out[b, a], draw = _log_gamma_number(keys[b], draw, alpha)
            top = max(top, out[b, a])
        total = 0.0
        for a in range(actions):
            out[b, a] = math.exp(out[b, a] - top)
            total += out[b, a]
        for a in range(actions):
            out[b, a] /= total
    return out


def gumbels(keys: Keys, actions: int) -> Floats:
    """Standard Gumbel numbers float64 [B, A] of keys uint64 [B]."""
    return _gumbels(np.ascontiguousarray(keys), actions)


def dirichlets(keys: Keys, actions: int, alpha: float) -> Floats:
    """Rows float64 [B, A] that sum to 1, from the symmetric Dirichlet distribution of `alpha` > 0."""
    return _dirichlets(np.ascontiguousarray(keys), actions, float(alpha))
