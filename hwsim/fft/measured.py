"""How long a plan takes on this machine, and what a time is worth: which machine and which code it was measured on."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Sequence

import numpy as np

from hwsim.fft.codelets import lanes
from hwsim.fft.executor import Fft
from hwsim.fft.grammar import Plan
from hwsim.measure import Practice, interleave, loops, repeat

LIBRARY_VERSION = 1
"""Changes whenever the code of a plan changes."""
PRACTICE = Practice(warmup=1, least=5, most=25, width=0.01, statistic="minimum", seconds=0.2)
RACE = Practice(warmup=1, least=10, most=30, width=0.01, statistic="minimum", seconds=10.0)
LEAST_S = 5e-4
"""A sample is repeated until it takes so long."""


@functools.cache
def machine_name() -> str:
    """Processor, lanes and a digest of its features: "znver5, 8 lanes, 1a2b3c4d"."""
    import llvmlite.binding as llvm

    features = hashlib.sha256(str(llvm.get_host_cpu_features().flatten()).encode()).hexdigest()[:8]
    return f"{llvm.get_host_cpu_name()}, {lanes()} lanes, {features}"


def _sampler(plan: Plan, batch: int) -> Callable[[], float]:
    """What runs a plan once more, long enough for the clock, and returns the seconds of one DFT."""
    fft = Fft(plan)
    x = np.random.default_rng(0).normal(size=(batch, fft.size, 2)).view(np.complex128)[:, :, 0]
    x = np.ascontiguousarray(x if batch > 1 else x[0])
    out = np.empty_like(x)

    def run(count: int) -> float:
        begun = time.perf_counter()
        for _ in range(count):
            fft(x, out)
        return time.perf_counter() - begun

    run(1)
    count = loops(run, LEAST_S)
    return lambda: run(count) / count / batch


def seconds(plan: Plan, batch: int = 1) -> float:
    """The least seconds of one DFT by a complete plan, of several samples (`hwsim/measure.py`), calling included.

    With a `batch` so many are done by a call, and what it takes is shared among them.
    """
    return repeat(_sampler(plan, batch), PRACTICE).value


def race(plans: Sequence[Plan]) -> list[float]:
    """The least seconds of one DFT by each plan, measured in turn."""
    return [found.value for found in interleave([_sampler(plan, 1) for plan in plans], RACE)]
