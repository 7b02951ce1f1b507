"""Runs of the graph's order: found exactly where there are some."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from mcm_cases import broken, package, random_graph

from hwsim.mcm.package import Constraints
from hwsim.mcm.solver.attempts import cut, least_ends, runs_needed
from hwsim.mcm.solver.relations import positions_of
from hwsim.mcm.solver.solver import solver


@pytest.mark.parametrize("rules", [Constraints(), Constraints(triangle=False), Constraints(memory=False)])
def test_runs_are_found_where_brute_force_finds_some(rules):
    rng = np.random.default_rng(3)
    seen = []
    for case in range(60):
        nodes, chips = int(rng.integers(1, 9)), int(rng.integers(1, 5))
        graph = random_graph(rng, nodes)
        sram = max(int(graph.weight_bytes.sum() / chips * rng.uniform(0.8, 1.5)), 1)
        given = solver(graph, package(chips, sram, rules))
        p = positions_of(given.relations)
        every = set()
        for count in range(min(chips, nodes)):
            for ends in combinations(range(1, nodes), count):
                run = np.searchsorted(ends, np.arange(nodes), side="right")
                jumps = rules.triangle and any(
                    run[p.order[v]] > run[p.order[u]] + 1 for u, v in graph.edges.tolist()
                )
                if not jumps and not broken(given, run[p.order]):
                    every.add(tuple(run.tolist()))
        ends = least_ends(p)
        needed, chip = runs_needed(p, ends), np.zeros(nodes, np.int64)
        reached = set()
        for key in range(100 if needed[0] <= chips else 0):
            cut(p, ends, needed, np.uint64(key), 0, key == 0, chip)
            reached.add(tuple(chip.tolist()))
        assert reached <= every, case
        assert bool(reached) == bool(every), case
        seen.append((len(every), len(reached)))
    assert sum(most for most, _ in seen) < 1.2 * sum(found for _, found in seen)
    assert not rules.memory or (0, 0) in seen
