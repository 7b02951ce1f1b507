"""Random numbers that are pure functions of a uint64 key and a counter.

Source: splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014), used by
position: draw number c of key k is the output function applied to k + (c + 1) * gamma. Normals by Box and
Muller (1958), the cosine branch.

Deviations: none of the splitting half of splitmix64 is used; `derive` takes one output as a new key instead.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.problem import Keys

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_BY_27 = np.uint64(27)
_BY_30 = np.uint64(30)
_BY_31 = np.uint64(31)
_TO_53_BITS = np.uint64(11)


@kernel
def bits(key: np.uint64, counter: np.uint64) -> np.uint64:
    """64 random bits: draw number `counter` of `key`. Called from kernels (wraps around at 2**64)."""
    z = key + (counter + _ONE) * _GAMMA
    z = (z ^ (z >> _BY_30)) * _FIRST
    z = (z ^ (z >> _BY_27)) * _SECOND
    return z ^ (z >> _BY_31)


@kernel
def uniform(key: np.uint64, counter: np.uint64) -> float:
    """A float64 uniform on [0, 1), half-open. Called from kernels."""
    return np.float64(bits(key, counter) >> _TO_53_BITS) * (1.0 / 9007199254740992.0)


@kernel
def normal(key: np.uint64, counter: np.uint64) -> float:
    """A standard normal float64; consumes the draws 2 * counter and 2 * counter + 1. Called from kernels."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, _TWO * counter)))
    return radius * math.cos(2.0 * math.pi * uniform(key, _TWO * counter + _ONE))


@kernel
def _derive(keys: NDArray[np.uint64], stream: np.uint64) -> NDArray[np.uint64]:
    out = np.empty_like(keys)
    for b in range(len(keys)):
        out[b] = bits(keys[b], stream)
    return out


@kernel
def _normals(keys: NDArray[np.uint64], counter: np.uint64) -> NDArray[np.float64]:
    out = np.empty(len(keys), np.float64)
    for b in range(len(keys)):
        out[b] = normal(keys[b], counter)
    return out


def derive(keys: NDArray[np.uint64], stream: int) -> NDArray[np.uint64]:
    """New keys uint64 [B], independent of the old ones and of other streams' (0 <= stream < 2**64)."""
    return _derive(np.ascontiguousarray(keys), np.uint64(stream))


def normals(keys: NDArray[np.uint64], counter: int = 0) -> NDArray[np.float64]:
    """Standard normals float64 [B], one per key."""
    return _normals(np.ascontiguousarray(keys), np.uint64(counter))


MOST_SEED = 2**64 - 1
EVALUATION = 0
SAMPLE = 1
REPAIR = 2


def run_keys(seed: int, numbers: NDArray[np.int64], stream: int) -> Keys:
    """uint64 [B]: a key for each number (a ticket, say), another for each seed and stream."""
    base = derive(np.array([seed], dtype=np.uint64), stream)
    return derive(base + numbers.astype(np.uint64), 0)
