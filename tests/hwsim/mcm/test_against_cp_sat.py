"""Whether a partition exists: the solver and CP-SAT agree on random graphs."""

from __future__ import annotations

import numpy as np
import pytest
from mcm_cases import RULES, broken, package, random_graph
from ortools.sat.python import cp_model

from gate import gate
from hwsim.mcm.graph import Graph
from hwsim.mcm.package import Constraints
from hwsim.mcm.solver.solver import BUDGET, INFEASIBLE, VALID, solver


def dense_graph(rng: np.random.Generator, nodes: int) -> Graph:
    density = rng.uniform(0.1, 0.5)
    pairs = [(u, v) for v in range(nodes) for u in range(v) if rng.random() < density]
    edges = np.array(pairs, np.int64).reshape(-1, 2)
    names = tuple(str(v) for v in range(nodes))
    sizes = rng.integers(1, 6, nodes)
    return Graph("random", names, edges, sizes, np.ones(nodes), np.ones(len(edges), np.int64))


def exists(graph: Graph, chips: int, sram_bytes: int, rules: Constraints, work: float = 600.0) -> bool | None:
    """CP-SAT on the rules of the paper, each written as stated; None: not within its work, which no clock counts."""
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
        if rules.memory:
            model.add(sum(size * row[c] for size, row in held) <= sram_bytes)
        if c and rules.no_skip:
            model.add_implication(used[c], used[c - 1])
    for u, v in graph.edges.tolist() if rules.acyclic else []:
        for a in range(chips):
            for b in range(chips):
                both = [on[u][a].negated(), on[v][b].negated()]
                if b < a:
                    model.add_bool_or(both)
                elif b > a:
                    model.add_bool_or([*both, arrow[a, b]])
    for a, b in arrow if rules.triangle else {}:
        model.add_implication(arrow[a, b], far[a, b].negated())
        for m in range(a + 1, b):
            for first in (arrow[a, m], far[a, m]):
                for second in (arrow[m, b], far[m, b]):
                    model.add_bool_or([first.negated(), second.negated(), far[a, b]])
    engine = cp_model.CpSolver()
    engine.parameters.num_workers = 1
    engine.parameters.max_deterministic_time = work
    status = engine.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE, cp_model.UNKNOWN)
    return None if status == cp_model.UNKNOWN else status != cp_model.INFEASIBLE


@pytest.mark.slow
@pytest.mark.parametrize("rules", [*RULES[:4], Constraints(acyclic=False, triangle=False)])
def test_feasibility_is_what_cp_sat_says(rules):
    rng = np.random.default_rng(5)
    seen = []
    for case in range(30):
        nodes, chips = int(rng.integers(5, 13)), int(rng.integers(2, 6))
        graph = dense_graph(rng, nodes)
        least = -(-int(graph.weight_bytes.sum()) // chips)
        sram = int(least + rng.integers(0, 5))
        even = np.ones((nodes, chips), np.float32)
        given = solver(graph, package(chips, sram, rules))
        status = int(given.sample(even, np.array([case], np.uint64)).status[0])
        assert status == (VALID if exists(graph, chips, sram, rules) else INFEASIBLE), case
        seen.append(status)
    assert set(seen) == ({VALID, INFEASIBLE} if rules.memory else {VALID})


@pytest.mark.slow
@pytest.mark.parametrize("slack", gate([0.9, 1.1, 2.5], (1.1,)))
def test_on_medium_graphs_nothing_contradicts_cp_sat_and_with_room_both_find_partitions(slack):
    rng = np.random.default_rng(6)
    for case, nodes in enumerate((50, 80, 120, 200, 300)):
        graph, chips = random_graph(rng, nodes), 4
        sram = int(slack * graph.weight_bytes.sum() / chips)
        given = solver(graph, package(chips, sram, Constraints()))
        even = np.ones((nodes, chips), np.float32)
        answer = given.sample(even, np.array([case], np.uint64), None, 500)
        work = 3.0 if slack == 1.1 else 600.0  # the others are decided soon
        status, expected = int(answer.status[0]), exists(graph, chips, sram, Constraints(), work)
        assert status != VALID or not broken(given, answer.assignment[0]), case
        assert expected is None or status in (VALID if expected else INFEASIBLE, BUDGET), case
        if slack > 2:
            assert (status, expected) == (VALID, True), case
        if slack < 1:
            assert (status, expected) == (INFEASIBLE, False), case
