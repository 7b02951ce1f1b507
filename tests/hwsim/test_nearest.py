"""Of equally fast mappings the one nearest to the baseline; and what a change buys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from every_mapping import every_mapping, small
from hwsim.nearest import EQUAL, Costs, changed, nearest, unsuitable
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Status
from strategies import chips, workloads
from subjects import PROBLEMS
from workloads.load import load


@settings(max_examples=12, derandomize=True, suppress_health_check=list(HealthCheck))
@given(workloads(max_ops=4), chips())
def test_no_change_that_is_left_could_be_undone_alone(workload, chip):
    problem = small(workload, chip)
    maps, cost = every_mapping(problem)
    assume(len(maps) > 1)
    base = problem.baseline.mapping
    for at in np.unique(np.linspace(0, len(maps) - 1, 20).astype(int)):
        found = nearest(problem, maps[at])
        assert not problem.judge(found)
        assert problem.model_cost(found) == pytest.approx(cost[at])
        assert (found != base).sum() <= (maps[at] != base).sum()
        for node, head in changed(problem, found):
            alone = found.copy()
            alone[node, head] = base[node, head]
            if not problem.judge(alone):
                assert abs(problem.model_cost(alone) / cost[at] - 1) > EQUAL


def test_changes_that_buy_nothing_are_undone_and_one_that_buys_stays():
    problem = NnpiProblem(load("resnet50"), load_chip("nnpi"), NnpiConfig())
    best, _ = problem.best_known()
    assert best is not None
    found = nearest(problem, best)
    assert (found != problem.baseline.mapping).sum() < 0.3 * (best != problem.baseline.mapping).sum()
    assert problem.model_cost(found) == pytest.approx(problem.model_cost(best))
    assert np.array_equal(nearest(problem, problem.baseline.mapping), problem.baseline.mapping)


def test_what_goes_to_slower_memory_is_undone_first_and_the_largest_before_others():
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"), NnpiConfig())
    mapping = problem.baseline.mapping.copy()
    space = problem.space
    mapping[space.live] = 2 - mapping[space.live]
    order = changed(problem, mapping)
    nodes, heads = order.T
    faster = mapping[nodes, heads] > problem.baseline.mapping[nodes, heads]
    assert (np.diff(faster.astype(int)) >= 0).all()
    for side in (False, True):
        sizes = space.size_bytes[nodes, heads][faster == side]
        assert (np.diff(sizes) <= 0).all()


def test_problems_say_why_their_changes_cannot_be_undone():
    assert "measured" in unsuitable(PROBLEMS["toy-bag"]())
    assert "depend" in unsuitable(PROBLEMS["toy-grammar"]())
    assert "heuristic" in unsuitable(PROBLEMS["mmap"]())
    assert unsuitable(PROBLEMS["nnpi-noisy"]()) == ""
    slow = PROBLEMS["mcm"]()
    assert unsuitable(slow) == ""
    slow.about = replace(slow.about, compiled=True)
    assert unsuitable(slow) == "each evaluation is a compile"


def test_where_costs_are_noisy_the_model_says_what_is_equal():
    problem = PROBLEMS["nnpi-noisy"]()
    base = problem.baseline.mapping
    costs = Costs(problem)
    assert costs.of(base) == pytest.approx(problem.baseline.cost)
    assert np.array_equal(nearest(problem, base), base)


def test_known_costs_are_remembered_as_long_as_that_pays(monkeypatch):
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"), NnpiConfig())
    costs, asked = Costs(problem), list[int]()
    evaluate = problem.evaluate
    monkeypatch.setattr(
        problem, "evaluate", lambda maps, keys: asked.append(len(maps)) or evaluate(maps, keys)
    )
    maps = np.random.default_rng(0).integers(0, 3, (2000, *problem.baseline.mapping.shape)).astype(np.int16)
    for rows, new in ((maps[:5], 5), (maps[3:8], 3), (maps[:8], 0)):
        before = sum(asked)
        runs, cost = costs(rows)
        plain = evaluate(rows, np.zeros(len(rows), np.uint64))
        assert sum(asked) - before == new
        assert np.array_equal(runs, plain.repaired)
        assert np.array_equal(cost, np.where(plain.status == Status.OK, plain.cost, np.inf))
        assert np.array_equal(costs.epsilon, plain.epsilon)
    assert costs.calls == 18
    costs(maps)  # nearly all are new: remembering them would not pay
    before = sum(asked)
    costs(maps[:5])
    assert sum(asked) - before == 5
