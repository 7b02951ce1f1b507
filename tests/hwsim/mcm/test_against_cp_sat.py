"""Whether a partition exists: the solver and CP-SAT agree on random graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwsim.mcm.graph import Graph
from hwsim.mcm.package import Constraints, load_package
from hwsim.mcm.solver import INFEASIBLE, VALID, solver

cp_model = pytest.importorskip("ortools.sat.python.cp_model")


def random_graph(rng: np.random.Generator, nodes: int) -> Graph:
    density = rng.uniform(0.1, 0.5)
    pairs = [(u, v) for v in range(nodes) for u in range(v) if rng.random() < density]
    edges = np.array(pairs, np.int64).reshape(-1, 2)
    names = tuple(str(v) for v in range(nodes))
    sizes = rng.integers(1, 6, nodes)
    return Graph("random", names, edges, sizes, np.ones(nodes), np.ones(len(edges), np.int64))


def exists(graph: Graph, chips: int, sram_bytes: int) -> bool:
    """CP-SAT on all rules of the paper, each written as it is stated."""
    model = cp_model.CpModel()
    on = [[model.new_bool_var("") for _ in range(chips)] for _ in range(len(graph))]
    used = [model.new_bool_var("") for _ in range(chips)]
    arrow = {(a, b): model.new_bool_var("") for a in range(chips) for b in range(a + 1, chips)}
    far = {pair: model.new_bool_var("") for pair in arrow}
    for row in on:
        model.add_exactly_one(row)
    for c in range(chips):
        model.add_max_equality(used[c], [row[c] for row in on])
        held = zip(graph.weight_bytes.tolist(), on, strict=True)
        model.add(sum(size * row[c] for size, row in held) <= sram_bytes)
        if c:
            model.add_implication(used[c], used[c - 1])
    for u, v in graph.edges.tolist():
        for a in range(chips):
            for b in range(chips):
                both = [on[u][a].negated(), on[v][b].negated()]
                if b < a:
                    model.add_bool_or(both)
                elif b > a:
                    model.add_bool_or([*both, arrow[a, b]])
    for a, b in arrow:
        model.add_implication(arrow[a, b], far[a, b].negated())
        for m in range(a + 1, b):
            for first in (arrow[a, m], far[a, m]):
                for second in (arrow[m, b], far[m, b]):
                    model.add_bool_or([first.negated(), second.negated(), far[a, b]])
    engine = cp_model.CpSolver()
    engine.parameters.num_workers = 1
    status = engine.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE)
    return status != cp_model.INFEASIBLE


def test_feasibility_is_what_cp_sat_says():
    rng, paper = np.random.default_rng(5), load_package("mcm36")
    seen = []
    for case in range(60):
        nodes, chips = int(rng.integers(5, 13)), int(rng.integers(2, 6))
        graph = random_graph(rng, nodes)
        least = -(-int(graph.weight_bytes.sum()) // chips)
        sram = int(least + rng.integers(0, 5))
        package = replace(
            paper, chips=chips, chip=replace(paper.chip, sram_bytes=sram), constraints=Constraints()
        )
        even = np.ones((nodes, chips), np.float32)
        status = int(solver(graph, package).sample(even, np.array([case], np.uint64)).status[0])
        assert status == (VALID if exists(graph, chips, sram) else INFEASIBLE), case
        seen.append(status)
    assert {VALID, INFEASIBLE} == set(seen)
