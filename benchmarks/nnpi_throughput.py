"""How many mappings a second the NNP-I simulator evaluates on one core, rectification included.

    python benchmarks/nnpi_throughput.py [--workloads resnet50,bert] [--rows 4096] [--repeats 7]

Prints one row per workload: mappings per second of `NnpiProblem.evaluate` on uniform random mappings (median of the
repeats), the share of the time in rectify and in latency, and what the plain-Python twin of the tests does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.latency import latencies
from hwsim.nnpi.problem import NnpiProblem
from hwsim.nnpi.rectify import rectify
from workloads.load import load

TWIN_FOLDER = Path(__file__).resolve().parents[1] / "tests" / "hwsim" / "nnpi"


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    """Median wall-clock seconds of several runs, after one that does not count."""
    work()
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return median(seconds)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", default="resnet50,resnet101,bert")
    parser.add_argument("--chip", default="nnpi")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args(argv)
    sys.path.insert(0, str(TWIN_FOLDER))
    from nnpi_twin import Twin

    chip = load_chip(args.chip)
    print("| workload | nodes | mappings/s | of it rectify | of it latency | twin mappings/s |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in args.workloads.split(","):
        workload = load(name)
        problem, twin = NnpiProblem(workload, chip), Twin(workload, chip)
        shape = (args.rows, *problem.space.shape)
        batch = np.random.default_rng(0).integers(0, len(chip.memories), shape).astype(np.int16)
        batch = np.where(problem.space.live, batch, np.int16(-1))
        keys = np.arange(args.rows, dtype=np.uint64)
        quiet = np.zeros(args.rows)
        rectified = rectify(problem.tables, batch)[0]
        whole = median_seconds(lambda p=problem, b=batch, k=keys: p.evaluate(b, k), args.repeats)
        first = median_seconds(lambda p=problem, b=batch: rectify(p.tables, b), args.repeats)
        second = median_seconds(
            lambda p=problem, r=rectified, q=quiet: latencies(p.tables, r, q), args.repeats
        )
        row = batch[0].tolist()
        plain = median_seconds(lambda t=twin, r=row: t.latency(t.rectify(r)[0]), 3)
        shares = f"{first / whole:.0%} | {second / whole:.0%}"
        print(f"| {name} | {len(workload)} | {args.rows / whole:,.0f} | {shares} | {1 / plain:,.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
