"""How fast the MCM solver finds valid partitions by SAMPLE, with uniform probabilities and a random order.

    python benchmarks/mcm_solver.py [--nodes 2000] [--keys 200] [--workload resnet50 ...] [--off triangle memory ...]

A graph a row: its nodes and edges; how many keys got a partition; milliseconds a key (a mean over the keys, compiled
before; the median of --repeat such means) and keys a second; the medians of decisions taken back and of chips in use.
The first row is a layered random graph in which each node reads one or two of the eight before it (--nodes 0: none);
the others are networks with widely read sources copied.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from hwsim.mcm.graph import Graph, of_workload
from hwsim.mcm.network import clone_shared
from hwsim.mcm.package import Package, load_package
from hwsim.mcm.solver.solver import solver
from workloads.load import load


def layered(nodes: int) -> Graph:
    """A random graph in which each node reads one or two of the eight before it."""
    rng = np.random.default_rng(0)
    edges = np.array(
        sorted(
            (u, v)
            for v in range(1, nodes)
            for u in {int(v - 1 - rng.integers(min(v, 8))) for _ in range(int(rng.integers(1, 3)))}
        )
    )
    names = tuple(str(v) for v in range(nodes))
    weights = np.full(nodes, 1000)
    return Graph("layered", names, edges, weights, np.ones(nodes), np.ones(len(edges), np.int64))


def row(graph: Graph, package: Package, keys: int, backtracks: int, repeat: int) -> str:
    """A row of the table."""
    given = solver(graph, package)
    even = np.ones((len(graph), package.chips), np.float32)
    numbers = np.arange(keys, dtype=np.uint64)
    given.sample(even, numbers[:1], None, 1)
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        answer = given.sample(even, numbers, None, backtracks)
        times.append((time.perf_counter() - start) / keys)
    each_s = float(np.median(times))
    chips = np.median(answer.assignment[answer.valid].max(axis=1) + 1) if answer.valid.any() else 0
    return (
        f"| {graph.name} | {len(graph):,} | {len(graph.edges):,} | {answer.valid.sum()} of {keys} |"
        f" {1e3 * each_s:.2f} | {1 / each_s:,.0f} | {np.median(answer.backtracks):g} | {chips:g} |"
    )


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--workload", nargs="*", default=["resnet50"])
    parser.add_argument("--package", default="mcm36")
    parser.add_argument("--off", nargs="*", default=[], help="rules that are switched off")
    parser.add_argument("--backtracks", type=int, default=20_000)
    given = parser.parse_args()
    package = load_package(given.package)
    package = replace(package, constraints=replace(package.constraints, **dict.fromkeys(given.off, False)))
    print("| graph | nodes | edges | found | ms each | each second | taken back | chips |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    graphs = [layered(given.nodes)] if given.nodes else []
    for graph in (*graphs, *(clone_shared(of_workload(load(name), package))[0] for name in given.workload)):
        print(row(graph, package, given.keys, given.backtracks, given.repeat), flush=True)


if __name__ == "__main__":
    main()
