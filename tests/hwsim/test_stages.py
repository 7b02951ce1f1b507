"""How mappings lie in the stages of a pipeline: against plain twins, and what order asks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.mcm.device import run
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmConfig, McmProblem
from hwsim.stage_order import in_order
from hwsim.stages import MOST, Pipeline, situation
from workloads.load import load


def pipeline(rng, nodes, edges):
    source = rng.integers(0, nodes - 1, edges)
    target = np.array([rng.integers(u + 1, nodes) for u in source], np.int64)
    return Pipeline(rng.integers(0, 4, nodes).astype(float), np.stack([source, target]))


CASES = {"seed": st.integers(0, 10_000), "nodes": st.integers(2, 9), "edges": st.integers(0, 14)}


@given(**CASES)
def test_brought_in_order_each_edge_leads_to_the_same_stage_or_a_later_one(seed, nodes, edges):
    rng = np.random.default_rng(seed)
    pipe = pipeline(rng, nodes, edges)
    stage = rng.integers(0, 5, (6, nodes)).astype(np.int16)
    later = rng.random(6) < 0.5
    found = in_order(stage, pipe, later)
    source, target = pipe.edges
    assert (found[:, source] <= found[:, target]).all()
    assert (found[later] >= stage[later]).all()
    assert (found[~later] <= stage[~later]).all()
    for row, own in enumerate(stage):
        kept = found[row] == own
        if (own[source] <= own[target]).all():
            assert kept.all()


@given(**CASES)
def test_bringing_in_order_moves_no_further_than_it_must(seed, nodes, edges):
    rng = np.random.default_rng(seed)
    pipe = pipeline(rng, nodes, edges)
    stage = rng.integers(0, 5, (1, nodes)).astype(np.int16)
    reach = np.eye(nodes, dtype=bool)
    for u, v in sorted(pipe.edges.T.tolist(), key=lambda edge: edge[1]):
        reach[:, v] |= reach[:, u]
    up = [max(stage[0, u] for u in range(nodes) if reach[u, v]) for v in range(nodes)]
    down = [min(stage[0, v] for v in range(nodes) if reach[u, v]) for u in range(nodes)]
    assert in_order(stage, pipe, np.array([True]))[0].tolist() == up
    assert in_order(stage, pipe, np.array([False]))[0].tolist() == down


def test_nodes_without_a_stage_stay_so_and_ask_nothing():
    pipe = Pipeline(np.ones(3), np.array([[0, 1], [1, 2]]))
    stage = np.array([[2, -1, 0]], np.int16)
    for later in (True, False):
        assert in_order(stage, pipe, np.array([later])).tolist() == stage.tolist()


@given(**CASES)
def test_the_situation_of_nodes_is_that_of_plain_loops(seed, nodes, edges):
    rng = np.random.default_rng(seed)
    pipe, stages = pipeline(rng, nodes, edges), 4
    stage = rng.integers(-1, stages, (3, nodes)).astype(np.int16)
    found = situation(stage, pipe, stages)
    for row, own in enumerate(stage.tolist()):
        full = [sum(w for w, s in zip(pipe.load, own, strict=True) if s == c) for c in range(stages)]
        even = sum(full) / stages
        share = [min(f / even, MOST) if even else 0.0 for f in full]
        for n, s in enumerate(own):
            if s < 0:
                assert (found[row, n] == 0).all()
                continue
            held_back = any(own[u] == s for u, v in pipe.edges.T.tolist() if v == n)
            held_on = any(own[v] == s for u, v in pipe.edges.T.tolist() if u == n)
            near = [share[s], share[s - 1] if s else MOST, share[s + 1] if s + 1 < stages else MOST]
            np.testing.assert_allclose(found[row, n], [not held_back, not held_on, *near], rtol=1e-6)


def test_even_places_are_shares_of_the_load_before_the_middle_of_each_node():
    pipe = Pipeline(np.array([1.0, 2.0, 1.0]), np.zeros((2, 0), np.int64))
    np.testing.assert_allclose(pipe.middle, [0.125, 0.5, 0.875])
    assert (Pipeline(np.zeros(2), np.zeros((2, 0), np.int64)).middle == 0).all()


@pytest.mark.parametrize("model", ["analytical", "device"])
def test_the_heat_of_chips_is_1_for_the_busiest_and_for_those_that_hold_too_much(model):
    problem = McmProblem(load("mobilenet_v2"), load_package("edge4"), McmConfig(model=model))
    nodes = len(problem.nodes)
    rows = np.stack([np.arange(nodes) * 4 // nodes, np.zeros(nodes)]).astype(np.int16)
    heat = problem.stage_heat(rows[:, :, None])
    assert heat.shape == (2, 1, 4)
    busy = np.stack([np.bincount(row, problem.tables.compute_s, 4) for row in rows])
    ran = run(problem.device, rows)
    if model == "device":
        busy = ran.chip_s
    assert (heat[np.arange(2), 0, busy.argmax(axis=1)] == 1).all()
    assert ((heat >= 0) & (heat <= 1)).all()
    if model == "device":
        over = ran.peak_bytes > problem.package.chip.sram_bytes
        assert (heat[:, 0][over] == 1).all()
