"""How long a plan takes on this machine, and which code that was measured on."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from egrl_fft.grammar import Plan
from egrl_fft.transform import Fft
from hwsim.measure import Practice, interleave, loops, repeat

LIBRARY_VERSION = 1
"""Changes whenever the code of a plan changes."""
PRACTICE = Practice(warmup=1, least=5, most=25, width=0.01, statistic="minimum", seconds=0.2)
LONG = replace(PRACTICE, warmup=0, least=3)
RACE = Practice(warmup=1, least=10, most=30, width=0.01, statistic="minimum", seconds=10.0)
LEAST_S = 5e-4
"""A sample is repeated until it takes so long."""


@functools.lru_cache(maxsize=2)
def _arrays(size: int, batch: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Something to transform, and where to: complex128 [batch, size], or [size] for a batch of 1."""
    x = np.random.default_rng(0).normal(size=(batch, size, 2)).view(np.complex128)[:, :, 0]
    x = np.ascontiguousarray(x if batch > 1 else x[0])
    return x, np.empty_like(x)


class _Sampler:
    """Runs a plan for `batch` DFTs a call; it has run once."""

    def __init__(self, plan: Plan, batch: int) -> None:
        self._fft, self._batch = Fft(plan), batch
        self._x, self._out = _arrays(plan.size, batch)
        self._run(1)

    def _run(self, count: int) -> float:
        fft, x, out = self._fft, self._x, self._out
        begun = time.perf_counter()
        for _ in range(count):
            fft(x, out)
        return time.perf_counter() - begun

    def once(self) -> float:
        """The seconds of one DFT in a single call."""
        return self._run(1) / self._batch

    def calibrate(self) -> Callable[[], float]:
        """What samples the seconds of one DFT, long enough for the clock."""
        count = loops(self._run, LEAST_S)
        return lambda: self._run(count) / count / self._batch


def seconds(plan: Plan, batch: int = 1, limit_s: float = math.inf) -> float:
    """The least seconds of one DFT by a complete plan, of several samples (`hwsim/measure.py`), calling included.

    With a `batch` so many are done by a call, and what it takes is shared among them. A plan that takes more than
    `limit_s` is sampled twice only, so that a bad one costs little of a search's time; one of which a single call is
    long enough for the clock is sampled less often.
    """
    sampler = _Sampler(plan, batch)
    if sampler.once() * batch > LEAST_S:
        return repeat(sampler.once, replace(LONG, limit_s=limit_s)).value
    return repeat(sampler.calibrate(), replace(PRACTICE, limit_s=limit_s)).value


def race(plans: Sequence[Plan]) -> list[float]:
    """The least seconds of one DFT by each plan, measured in turn."""
    return [found.value for found in interleave([_Sampler(plan, 1).calibrate() for plan in plans], RACE)]
