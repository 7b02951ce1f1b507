"""The quick attempts of the MCM solver equal their twin in plain Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mcm_cases import RULES, random_graph
from mcm_twin import Twin

from hwsim.mcm.package import load_package
from hwsim.mcm.solver.attempts import DRAWN, FIRST_LIMIT, attempt
from hwsim.mcm.solver.relations import positions_of, relate
from hwsim.mcm.solver.sweep_state import new_sweep_state


@pytest.mark.parametrize("rules", RULES)
def test_attempts_equal_the_twin(rules):
    rng, paper = np.random.default_rng(7), load_package("mcm36")
    seen = {"found": 0, "none": 0, "taken back": 0}
    for case in range(60):
        nodes, chips = int(rng.integers(2, 16)), int(rng.integers(1, 8))
        graph = random_graph(rng, nodes)
        sram = max(int(graph.weight_bytes.sum() / chips * rng.uniform(1, 2)), 1)
        package = replace(paper, chips=chips, chip=replace(paper.chip, sram_bytes=sram), constraints=rules)
        given = positions_of(relate(graph, chips, sram, rules))
        if (given.earliest > given.latest).any():
            continue
        weights = (rng.random((nodes, chips)) ** 3 * (rng.random((nodes, chips)) < 0.8)).astype(np.float32)
        wished = rng.integers(-1, chips, nodes).astype(np.int16) if case % 3 == 0 else np.zeros(0, np.int16)
        weights = np.ones((1, chips), np.float32) if len(wished) else weights
        room = new_sweep_state(given)
        found, _, failures = attempt(
            given,
            room,
            weights,
            wished,
            np.arange(nodes),
            True,
            np.uint64(case),
            0,
            100_000,
            np.zeros(1, np.int64),
            np.empty(nodes, np.int64),
            np.empty((3, nodes + 1), np.int64),
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
        )
        expected, taken_back = Twin(graph, package).attempts(
            weights, wished.tolist() if len(wished) else None, np.uint64(case), FIRST_LIMIT, DRAWN
        )
        assert found == (expected is not None), case
        assert failures == taken_back, case
        if expected is not None:
            assert room.chip[given.order].tolist() == expected, case
        seen["found" if found else "none"] += 1
        seen["taken back"] += failures
    assert seen["found"] > 10
    assert rules.memory == (seen["none"] > 0)
    assert seen["taken back"] > 0 or not rules.memory
