"""What each executor costs: evaluations a second in this process, in a pool of processes, and on Ray.

    python benchmarks/executors.py [--workload bert] [--workers 1,2] [--generations 40] [--repeats 5]

A generation of 21 random mappings is submitted, and all its results are awaited, as the loop does: on the NNP-I
simulator, and on problems that take longer, because each row sleeps first (20 and 300 ms, fewer generations). Prints a
row a problem, executor and number of workers: evaluations a second (median of the repeats, which take turns) and the
ratio to this process; then the seconds that starting takes. Needs the extra `ray` for its rows.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from egrl.core.archive import Proposals, proposals
from egrl.core.contracts import GENERATION, Executor
from egrl.measure.local import InProcess, ProcessPool
from hwsim.mappings import sample_uniformly
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.problem import Evaluation, Keys, Mapping16
from workloads.load import load

WARM_S = 4.0
"""Seconds before timing begins, so that every worker has started."""


class Sleepy:
    """The problem, `seconds` slower a row."""

    def __init__(self, problem: NnpiProblem, seconds: float) -> None:
        self.problem, self.seconds = problem, seconds

    def fingerprint(self) -> str:
        """That of the problem."""
        return self.problem.fingerprint()

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Sleep, then measure."""
        time.sleep(self.seconds * len(mapping))
        return self.problem.evaluate(mapping, key)


def build(kind: str, problems: Sequence[Sleepy], workers: int) -> Executor:
    """The executor of a kind."""
    if kind == "ray":
        from egrl.measure.ray_executor import RayCluster

        return RayCluster(problems, workers)
    return InProcess(problems) if kind == "in-process" else ProcessPool(problems, workers)


def rate(executor: Executor, batch: Proposals, key: Keys, generations: int) -> float:
    """Evaluations a second."""
    begun = time.perf_counter()
    for _ in range(generations):
        executor.submit(batch, key)
        left = len(batch)
        while left:
            left -= sum(len(part) for part, _ in executor.ready(1.0))
    return generations * len(batch) / (time.perf_counter() - begun)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", default="bert")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--generations", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args(argv)
    problem = NnpiProblem(load(args.workload), load_chip("nnpi"))
    key = np.arange(GENERATION, dtype=np.uint64)
    mapping = sample_uniformly(problem, key)
    batch = proposals(mapping, "benchmark").numbered(0)
    kinds = [("in-process", 1)]
    kinds += [("pool", int(workers)) for workers in args.workers.split(",")]
    if importlib.util.find_spec("ray") is not None:
        kinds += [("ray", int(workers)) for workers in args.workers.split(",")]
    starts: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    print("| row | executor | workers | evaluations/s | to in-process |\n|---:|---|---:|---:|---:|")
    for seconds, generations in ((0.0, args.generations), (0.02, 4), (0.3, 1)):
        rates: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
        repeats = args.repeats if seconds < 0.1 else 1
        for _ in range(repeats):
            for kind in kinds:
                begun = time.perf_counter()
                executor = build(kind[0], [Sleepy(problem, 0.0), Sleepy(problem, seconds)], kind[1])
                try:
                    rate(executor, batch, key, 1)
                    starts[kind].append(time.perf_counter() - begun)
                    while time.perf_counter() - begun < WARM_S:
                        rate(executor, batch, key, 1)
                    rates[kind].append(rate(executor, replace(batch, problem=1), key, generations))
                finally:
                    executor.close()
        here = median(rates["in-process", 1])
        for (name, workers), found in rates.items():
            row = "as it is" if seconds == 0 else f"+ {seconds * 1000:.0f} ms"
            print(
                f"| {row} | {name} | {workers} | {median(found):,.1f} | {median(found) / here:.2f} |",
                flush=True,
            )
    print("\n| executor | workers | s until the first generation is measured |\n|---|---:|---:|")
    for (name, workers), found in starts.items():
        print(f"| {name} | {workers} | {median(found):.2f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
