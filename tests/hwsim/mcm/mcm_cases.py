"""Small graphs and packages, and what the judge says of an assignment."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from hwsim.mcm.graph import Graph
from hwsim.mcm.judge import judge
from hwsim.mcm.package import Constraints, Package, load_package
from hwsim.mcm.solver.solver import Solver

RULES = [
    Constraints(acyclic, no_skip, triangle, memory)
    for acyclic, no_skip, triangle, memory in product((True, False), repeat=4)
    if acyclic or not triangle
]
"""Every set of rules that a package may have."""
SHAPES = {
    "a chain with a skip": (5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 2), (1, 4)]),
    "two sources": (5, [(0, 2), (1, 2), (1, 3), (3, 4)]),
    "a diamond": (5, [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (0, 4)]),
    "no edges": (4, []),
}


def graph(count: int, edges: list[tuple[int, int]], weight: int = 1) -> Graph:
    pairs = np.array(sorted(edges), np.int64).reshape(-1, 2)
    return Graph(
        "small",
        tuple(f"n{v}" for v in range(count)),
        pairs,
        np.full(count, weight, np.int64),
        np.ones(count),
        np.ones(len(pairs), np.int64),
    )


def package(chips: int, sram_bytes: int, rules: Constraints) -> Package:
    paper = load_package("mcm36")
    return replace(paper, chips=chips, chip=replace(paper.chip, sram_bytes=sram_bytes), constraints=rules)


def broken(given: Solver, assignment: np.ndarray) -> list:
    rules = given.package.constraints
    return judge(
        given.package.chips,
        given.package.chip.sram_bytes,
        [tuple(e) for e in given.graph.edges.tolist()],
        given.graph.weight_bytes.tolist(),
        assignment.tolist(),
        rules.acyclic,
        rules.no_skip,
        rules.triangle,
        rules.memory,
    )


def even(given: Solver) -> np.ndarray:
    return np.ones((len(given.graph), given.package.chips), np.float32)


def random_graph(rng: np.random.Generator, nodes: int) -> Graph:
    """Chains with skips, joins and loose ends, in any numbering; a third of the nodes without weights."""
    pairs = {(max(v - 1 - int(rng.integers(0, 3)), 0), v) for v in range(1, nodes) for _ in range(2)}
    pairs |= {(int(rng.integers(0, v)), v) for v in range(1, nodes) if rng.random() < 0.2}
    number = rng.permutation(nodes)
    kept = sorted((int(number[u]), int(number[v])) for u, v in pairs if rng.random() < 0.8)
    edges = np.array(kept, np.int64).reshape(-1, 2)
    names = tuple(str(v) for v in range(nodes))
    weights = rng.integers(0, 6, nodes) * (rng.random(nodes) < 0.7)
    return Graph("random", names, edges, weights, np.ones(nodes), np.ones(len(edges), np.int64))
