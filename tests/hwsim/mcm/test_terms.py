"""What loads are sums of, and local search on terms: valid, never worse, and aware of links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gate import gate
from hwsim.mcm.config import McmConfig
from hwsim.mcm.cost import costs, loads
from hwsim.mcm.family.improve import value
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from hwsim.mcm.terms import ChipTerms, analytical
from workloads.load import load


def problem_of(load_of: str = "compute", workload: str = "conv_lstm") -> McmProblem:
    return McmProblem(load(workload), replace(load_package("mcm36"), load=load_of))


def terms_of(problem: McmProblem) -> ChipTerms:
    assert isinstance(problem.parts.terms, ChipTerms)
    return problem.parts.terms


def true_seconds(problem: McmProblem) -> np.ndarray:
    return np.concatenate([problem.tables.compute_s, problem.tables.tensor_s])


@pytest.mark.parametrize("load_of", ["compute", "compute+transfers"])
def test_loads_are_sums_of_what_they_hold(load_of):
    problem = problem_of(load_of)
    rows, terms = problem.sample(None, np.arange(20, dtype=np.uint64)), terms_of(problem)
    held = terms.held(rows)
    wanted = loads(problem.tables, rows[:, :, 0])
    np.testing.assert_allclose((held @ true_seconds(problem)).reshape(wanted.shape), wanted, rtol=1e-12)
    assert (
        held.shape
        == (20 * len(problem.parts), len(terms.size))
        == (20 * len(problem.parts), len(terms.group))
    )
    assert (held.sum(axis=1).reshape(20, -1)[:, : problem.tables.chips].sum(axis=1) >= len(rows[0])).all()


def test_the_terms_of_nodes_are_alike_and_those_of_tensors_as_their_bytes():
    problem = problem_of()
    terms, nodes = terms_of(problem), len(problem.space.nodes)
    assert (terms.size[:nodes] == 1.0).all()
    moved = problem.tables.tensor_bytes
    np.testing.assert_allclose(terms.size[nodes:], np.maximum(moved / moved.mean(), 1e-6))


def test_terms_of_nothing_are_searched_too():
    problem = problem_of()
    terms, start = terms_of(problem), problem.baseline.mapping
    nodes = len(problem.space.nodes)
    for seconds in (np.zeros(len(terms.size)), np.arange(len(terms.size)) >= nodes):
        found = terms.improve(seconds.astype(np.float64), start, steps=2000, hot=0.02, key=1)
        assert not problem.judge(found)


def test_what_chips_of_the_device_model_take_is_no_sum():
    assert McmProblem(load("resnet50"), load_package("mcm36"), McmConfig(model="device")).parts.terms is None


@pytest.mark.slow
@pytest.mark.parametrize("workload", gate(["conv_lstm", "regnet_y", "efficientnet_b0"], ("conv_lstm",)))
def test_local_search_keeps_the_rules_and_finds_more_the_longer_it_runs(workload):
    problem = problem_of(workload=workload)
    terms, seconds = terms_of(problem), true_seconds(problem)
    starts = problem.sample(None, np.arange(3, dtype=np.uint64))
    found = {}
    for per_node in (5, 400):
        rows = np.stack(
            [terms.improve(seconds, start, steps=per_node * len(start), hot=0.02, key=7) for start in starts]
        )
        assert not any(problem.judge(row) for row in rows)
        found[per_node] = costs(problem.tables, rows[:, :, 0])
    before = costs(problem.tables, starts[:, :, 0])
    for row in found.values():
        assert (row <= before).all()
    assert found[400].min() <= found[5].min()
    assert found[400].min() < 0.9 * min(before.min(), problem.baseline.cost)
    again = terms.improve(seconds, starts[0], steps=400 * len(starts[0]), hot=0.02, key=7)
    assert costs(problem.tables, again[None, :, 0])[0] == found[400][0]


def test_it_knows_no_times_but_those_that_it_is_told():
    problem = problem_of(workload="regnet_y")
    terms, nodes = terms_of(problem), len(problem.space.nodes)
    only_last = np.full(len(terms.size), 1e-9)
    only_last[nodes - 1] = only_last[nodes - 2] = 1.0
    found = terms.improve(only_last, problem.baseline.mapping, steps=400 * nodes, hot=0.02, key=1)
    assert found[nodes - 1] != found[nodes - 2]


def test_what_is_annealed_is_no_less_than_the_busiest_link():
    """Without links in the norm, a partition with a slow link looks as good as its chips."""
    problem = problem_of(workload="regnet_y")
    slow = problem.tables._replace(tensor_s=100 * problem.tables.tensor_s)
    chip_s, link_s = np.empty(slow.chips), np.empty(slow.chips)
    for row in problem.sample(None, np.arange(20, dtype=np.uint64)):
        place = np.ascontiguousarray(row[:, 0])
        annealed, *_, most = value(
            slow, analytical(slow), problem.network.made_bytes, np.zeros(2), place, chip_s, link_s
        )
        busiest = float(costs(slow, place[None])[0])
        assert busiest <= annealed * (1 + 1e-12)
        assert annealed <= 1.2 * busiest
        assert most == pytest.approx(busiest, rel=1e-12)
