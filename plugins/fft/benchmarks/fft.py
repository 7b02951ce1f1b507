"""How fast plans of egrl_fft are beside numpy.fft: the default plan and, with --evals, the best that a search finds.

    python plugins/fft/benchmarks/fft.py                     # default plans of 2^6 .. 2^16
    python plugins/fft/benchmarks/fft.py --evals 300         # and the best of 300 plans drawn at random
    python plugins/fft/benchmarks/fft.py --sizes 1000,1009   # other sizes

All rivals of a size are measured in turn (hwsim/measure.py, `interleave`), calling included, until they are apart or
--rounds are over; what is printed is the median of each, in microseconds, and numpy's over it.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable

import numpy as np

from egrl_fft import measured
from egrl_fft.default import default_plan
from egrl_fft.grammar import Plan
from egrl_fft.problem import FftProblem
from egrl_fft.transform import Fft
from hwsim.kernel_cache import machine_name
from hwsim.mappings import sample_uniformly
from hwsim.measure import Practice, interleave, loops


def sampler(run: Callable[[], object]) -> Callable[[], float]:
    """Seconds of one call, of as many as take half a millisecond."""

    def many(count: int) -> float:
        begun = time.perf_counter()
        for _ in range(count):
            run()
        return time.perf_counter() - begun

    many(2)
    count = loops(many, measured.LEAST_S)
    return lambda: many(count) / count


def searched(size: int, evals: int, seed: int) -> Plan:
    """The best of so many plans drawn at random, and the default plan."""
    problem = FftProblem(size)
    keys = np.arange(evals, dtype=np.uint64) + np.uint64(seed << 32)
    found = problem.evaluate(sample_uniformly(problem, keys), keys)
    best = int(np.nanargmin(found.cost))
    if found.cost[best] >= problem.baseline.cost:
        return default_plan(size)
    return problem.derivation.decode(found.repaired[best])


def main() -> None:
    """Measure and print a row a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default=",".join(str(2**k) for k in range(6, 17)))
    parser.add_argument("--evals", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    practice = Practice(warmup=1, least=given.rounds, most=given.rounds, width=0.0)
    print(f"machine: {machine_name()}; medians of {given.rounds} rounds, us")
    more = given.evals > 0
    print("| size | numpy.fft | default | over numpy | plan |" + " searched | over numpy | plan |" * more)
    print("|---|---|---|---|---|" + "---|---|---|" * more)
    for size in (int(text) for text in given.sizes.split(",")):
        x = np.random.default_rng(size).normal(size=(size, 2)).view(np.complex128)[:, 0]
        plans = [default_plan(size)] + ([searched(size, given.evals, given.seed)] if given.evals else [])
        runs: list[Callable[[], object]] = [functools.partial(np.fft.fft, x)]
        runs += [functools.partial(Fft(plan), x) for plan in plans]
        base, *others = (m.value for m in interleave([sampler(run) for run in runs], practice))
        cells = [f"{size}", f"{base * 1e6:.2f}"]
        for plan, value in zip(plans, others, strict=True):
            cells += [f"{value * 1e6:.2f}", f"{base / value:.2f}x", f"`{plan}`"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
