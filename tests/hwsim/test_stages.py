"""How mappings lie in the stages of a pipeline: against plain twins, and what order asks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.mcm.config import McmConfig
from hwsim.mcm.device import run
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from hwsim.stages import MAX_FULLNESS, Pipeline, in_order, situation, step_by_step
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


def spanning(rng, nodes, edges, span, held=False):
    pipe = pipeline(rng, nodes, edges)
    return replace(pipe, span=span, held=rng.random(nodes) if held else None)


def keeps(pipe, stage):
    """Whether a row of stages keeps order and span."""
    ahead = stage[pipe.edges[1]].astype(int) - stage[pipe.edges[0]]
    return bool(((ahead >= 0) & (ahead <= (99 if pipe.span is None else pipe.span))).all())


@given(span=st.integers(1, 3), **CASES)
def test_brought_in_order_no_edge_leads_further_than_its_span_and_nothing_moves_without_need(
    seed, nodes, edges, span
):
    rng = np.random.default_rng(seed)
    pipe = spanning(rng, nodes, edges, span)
    stage = rng.integers(0, 6, (4, nodes)).astype(np.int16)
    later = np.arange(4) % 2 == 0
    found = in_order(stage, pipe, later)
    for row, (own, up) in enumerate(zip(stage, later, strict=True)):
        assert keeps(pipe, found[row])
        twin = own.astype(int).tolist()
        pairs = [(u, v, 0) for u, v in pipe.edges.T.tolist()] + [
            (v, u, -span) for u, v in pipe.edges.T.tolist()
        ]
        for _ in range(20 * nodes):  # behind[b] >= behind[a] + step, the least (greatest) there is
            for a, b, step in pairs:
                if up:
                    twin[b] = max(twin[b], twin[a] + step)
                else:
                    twin[a] = min(twin[a], twin[b] - step)
        assert found[row].tolist() == twin


def gone(pipe, known, stage, first, to):
    """Where one node goes and what has to go that way with it, the plain way: a dict of new stages."""
    far = {
        (u, v): max(99 if pipe.span is None else pipe.span, abs(int(known[v]) - known[u]))
        for u, v in pipe.edges.T.tolist()
    }
    up = to > stage[first]
    new = {first: to}
    while True:
        at = {n: new.get(n, s) for n, s in enumerate(stage)}
        before = dict(new)
        for u, v in pipe.edges.T.tolist():
            if up and u in new and at[v] >= 0 and at[v] < new[u]:
                new[v] = max(new.get(v, -1), new[u])
            if up and v in new and at[u] >= 0 and new[v] - at[u] > far[u, v]:
                new[u] = max(new.get(u, -1), new[v] - far[u, v])
            if not up and v in new and at[u] >= 0 and at[u] > new[v]:
                new[u] = min(new.get(u, 99), new[v])
            if not up and u in new and at[v] >= 0 and at[v] - new[u] > far[u, v]:
                new[v] = min(new.get(v, 99), new[u] + far[u, v])
        if new == before:
            return new


@given(span=st.sampled_from([None, 1, 2]), most=st.integers(1, 9), held=st.booleans(), **CASES)
def test_step_by_step_nodes_go_as_a_plain_loop_has_them_go(seed, nodes, edges, span, most, held):
    rng = np.random.default_rng(seed)
    pipe = spanning(rng, nodes, edges, span, held)
    stage = rng.integers(-1, 5, (3, nodes)).astype(np.int16)
    ordered = in_order(np.abs(stage), pipe, np.ones(3, bool))
    before = np.stack([ordered[0], ordered[1], stage[2]])
    wanted = rng.integers(-1, 5, (3, nodes)).astype(np.int16)
    turn = rng.permuted(np.tile(np.arange(nodes), (3, 1)), axis=1)
    found = step_by_step(before, wanted, pipe, turn, np.full(3, most))
    weight = np.zeros(nodes) if pipe.held is None else pipe.held
    for row in range(3):
        at = before[row].tolist()
        for first in turn[row]:
            to = int(wanted[row, first])
            if min(at[first], to) < 0 or at[first] == to:
                continue
            new = gone(pipe, before[row].tolist(), at, int(first), to)
            after = [new.get(n, s) for n, s in enumerate(at)]
            entered = {new[n] for n in new if weight[n] > 0}
            fits = all(sum(w for w, s in zip(weight, after, strict=True) if s == c) <= 1 for c in entered)
            if len(new) <= most and fits:
                at = after
        assert found[row].tolist() == at
    for row in range(2):
        assert keeps(pipe, found[row])


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
        share = [min(f / even, MAX_FULLNESS) if even else 0.0 for f in full]
        for n, s in enumerate(own):
            if s < 0:
                assert (found[row, n] == 0).all()
                continue
            held_back = any(own[u] == s for u, v in pipe.edges.T.tolist() if v == n)
            held_on = any(own[v] == s for u, v in pipe.edges.T.tolist() if u == n)
            near = [
                share[s],
                share[s - 1] if s else MAX_FULLNESS,
                share[s + 1] if s + 1 < stages else MAX_FULLNESS,
            ]
            np.testing.assert_allclose(found[row, n], [not held_back, not held_on, *near], rtol=1e-6)


def test_even_places_are_shares_of_the_load_before_the_middle_of_each_node():
    pipe = Pipeline(np.array([1.0, 2.0, 1.0]), np.zeros((2, 0), np.int64))
    np.testing.assert_allclose(pipe.middle(4), [0.125, 0.5, 0.875])
    assert (Pipeline(np.zeros(2), np.zeros((2, 0), np.int64)).middle(4) == 0).all()


def test_what_holds_much_takes_more_of_an_even_pipeline_than_its_load():
    pipe = Pipeline(np.array([0.0, 1.0, 1.0]), np.zeros((2, 0), np.int64), held=np.array([1.0, 0.1, 0.0]))
    np.testing.assert_allclose(
        pipe.middle(4), [0.5 / 3, 1.5 / 3, 2.5 / 3]
    )  # 1 of 4 stages that are half full: 0.5
    np.testing.assert_allclose(pipe.middle(40), np.array([0.025, 0.3, 0.8]) / 1.05)


@pytest.mark.parametrize("model", ["analytical", "device"])
def test_the_heat_of_chips_is_1_for_the_busiest_and_for_those_that_hold_too_much(model):
    problem = McmProblem(load("mobilenet_v2"), load_package("edge4"), McmConfig(model=model))
    nodes = len(problem.space.nodes)
    rows = np.stack([np.arange(nodes) * 4 // nodes, np.zeros(nodes)]).astype(np.int16)
    heat = problem.space.pipeline.heat(rows[:, :, None], 4)
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
