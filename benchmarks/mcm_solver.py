"""How fast the MCM solver finds valid partitions by SAMPLE, with uniform probabilities and a random order.

    python benchmarks/mcm_solver.py [--nodes 2000] [--keys 200] [--workload resnet50 ...] [--off triangle memory ...]

A graph a row: its nodes and edges; how many keys got a partition; milliseconds a key (a mean over the keys, compiled
before; the median of --repeat such means) and keys a second; the medians of decisions taken back and of chips in use.
The first row is a layered random graph in which each node reads one or two of the eight before it (--nodes 0: none);
the others are networks with widely read sources copied.

`--cp-sat N` adds, for N partitions of each graph, milliseconds each of CP-SAT (one thread, five minutes at most): the
rules as stated, the draws as hints, building the model and solving it apart; and how many times the solver's that is.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

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


def row(graph: Graph, package: Package, keys: int, backtracks: int, repeat: int, cp_sat: int) -> str:
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
    beside = ""
    if cp_sat:
        build_s, solve_s = by_cp_sat(graph, package, cp_sat)
        median_s = float(np.median(solve_s))
        beside = f" {1e3 * build_s:,.0f} | {1e3 * median_s:,.0f} | {median_s / each_s:,.0f} |"
    return (
        f"| {graph.name} | {len(graph):,} | {len(graph.edges):,} | {answer.valid.sum()} of {keys} |"
        f" {1e3 * each_s:.2f} | {1 / each_s:,.0f} | {np.median(answer.backtracks):g} | {chips:g} |{beside}"
    )


def stated(graph: Graph, package: Package) -> tuple[Any, list[list[Any]]]:
    """CP-SAT's model of the rules, and whether each node [N] is on each chip [C]."""
    from ortools.sat.python import cp_model

    chips, rules = range(package.chips), package.constraints
    model = cp_model.CpModel()
    on = [[model.new_bool_var("") for _ in chips] for _ in range(len(graph))]
    used = [model.new_bool_var("") for _ in chips]
    arrow = {(a, b): model.new_bool_var("") for a in chips for b in range(a + 1, package.chips)}
    far = {pair: model.new_bool_var("") for pair in arrow}
    place = [sum(c * row[c] for c in chips) for row in on]
    for row in on:
        model.add_exactly_one(row)
    for c in chips:
        model.add_max_equality(used[c], [row[c] for row in on])
        if rules.memory:
            held = zip(graph.weight_bytes.tolist(), on, strict=True)
            model.add(sum(size * row[c] for size, row in held) <= package.chip.sram_bytes)
        if c and rules.no_skip:
            model.add_implication(used[c], used[c - 1])
    for u, v in graph.edges.tolist() if rules.acyclic else ():
        model.add(place[u] <= place[v])
        for (a, b), over in arrow.items() if rules.triangle else ():
            model.add_bool_or([on[u][a].negated(), on[v][b].negated(), over])
    for a, b in arrow if rules.triangle else ():
        model.add_implication(arrow[a, b], far[a, b].negated())
        for m in range(a + 1, b):
            for first in (arrow[a, m], far[a, m]):
                for second in (arrow[m, b], far[m, b]):
                    model.add_bool_or([first.negated(), second.negated(), far[a, b]])
    return model, on


def by_cp_sat(graph: Graph, package: Package, keys: int) -> tuple[float, list[float]]:
    """Seconds in which the model is stated, and in which a partition near each of some draws is found (inf: none)."""
    from ortools.sat.python import cp_model

    begun = time.perf_counter()
    model, on = stated(graph, package)
    build_s, times = time.perf_counter() - begun, []
    for key in range(keys):
        model.clear_hints()
        drawn = np.random.default_rng(key).integers(package.chips, size=len(graph))
        for row, chip in zip(on, drawn.tolist(), strict=True):
            for c, here in enumerate(row):
                model.add_hint(here, int(c == chip))
        engine = cp_model.CpSolver()
        engine.parameters.num_workers, engine.parameters.max_time_in_seconds = 1, 300.0
        begun = time.perf_counter()
        found = engine.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        times.append(time.perf_counter() - begun if found else np.inf)
    return build_s, times


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
    parser.add_argument("--cp-sat", type=int, default=0, metavar="N")
    given = parser.parse_args()
    package = load_package(given.package)
    package = replace(package, constraints=replace(package.constraints, **dict.fromkeys(given.off, False)))
    more = " CP-SAT's model, ms | CP-SAT, ms each | times |" if given.cp_sat else ""
    print(f"| graph | nodes | edges | found | ms each | each second | taken back | chips |{more}")
    print("|---|---:|---:|---:|---:|---:|---:|---:|" + "---:|---:|---:|" * bool(given.cp_sat))
    graphs = [layered(given.nodes)] if given.nodes else []
    for graph in (*graphs, *(clone_shared(of_workload(load(name), package))[0] for name in given.workload)):
        print(row(graph, package, given.keys, given.backtracks, given.repeat, given.cp_sat), flush=True)


if __name__ == "__main__":
    main()
