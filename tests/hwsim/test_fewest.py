"""The fewest changes that keep the gain: as few as trying all mappings gives, valid, and the same again."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from every_mapping import every_mapping, small
from hwsim import fewest
from hwsim.fewest import Front, front
from hwsim.nearest import EQUAL, Costs, unsuitable
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Floats, Mapping16, Problem
from strategies import chips, workloads
from subjects import PROBLEMS
from workloads.load import load


def at_most(changes: np.ndarray, cost: Floats, most: int) -> float:
    """The least cost with so many changes at most."""
    return float(cost[changes <= most].min())


@pytest.mark.slow
@settings(max_examples=12, derandomize=True, suppress_health_check=list(HealthCheck))
@given(workloads(max_ops=4), chips())
def test_with_each_number_of_changes_it_is_as_fast_as_the_fastest_of_all(workload, chip):
    problem = small(workload, chip)
    maps, cost = every_mapping(problem)
    assume(cost.min() < problem.baseline.cost * (1 - EQUAL))
    goal = maps[int(np.argmin(cost))]
    changes = (maps != problem.baseline.mapping).sum(axis=(1, 2))
    found = front(problem, goal, 4_000)
    for most in range(found.goal[0] + 1):
        assert at_most(found.changes, found.cost, most) == pytest.approx(at_most(changes, cost, most))


def searched(problem: Problem, rows: int = 200) -> Mapping16:
    """The fastest of some random changes of the baseline, repaired."""
    rng = np.random.default_rng(0)
    maps = np.repeat(problem.baseline.mapping[None], rows, axis=0)
    drawn = rng.integers(0, np.maximum(problem.space.num_choices, 1), maps.shape)
    few = rng.random(maps.shape) < rng.choice([0.02, 0.1, 0.3], (rows, 1, 1))
    maps = problem.space.canonical(np.where(few, drawn, maps).astype(np.int16))
    evaluation = problem.evaluate(maps, np.zeros(rows, np.uint64))
    costs = Costs(problem)(evaluation.repaired)[1]
    return evaluation.repaired[int(np.argmin(costs))]


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_mapping_of_a_front_is_valid_and_costs_what_it_says(name):
    problem = PROBLEMS[name]()
    if unsuitable(problem):
        pytest.skip(unsuitable(problem))
    goal = searched(problem)
    found = front(problem, goal, 1_200)
    again = front(problem, goal, 1_200)
    for field in ("changes", "cost", "mapping"):
        assert np.array_equal(getattr(found, field), getattr(again, field))
    assert found.changes[0] == 0
    assert (np.diff(found.changes) > 0).all()
    assert (np.diff(found.cost) < 0).all()
    assert found.changes.tolist() == (found.mapping != problem.baseline.mapping).sum(axis=(1, 2)).tolist()
    assert not [broken for each in found.mapping for broken in problem.judge(each)]
    runs, cost = Costs(problem)(found.mapping)
    assert np.array_equal(runs, found.mapping)
    assert np.array_equal(cost, found.cost)
    if len(found) > 1:
        assert found.kept[-1] >= 1 - EQUAL
        assert found.cost[-1] <= found.goal[1] * (1 + EQUAL)


def test_a_third_of_the_changes_keeps_nearly_all_of_what_a_search_gained():
    problem = NnpiProblem(load("resnet50"), load_chip("nnpi"), NnpiConfig())
    best, _ = problem.best_known()
    assert best is not None
    found = front(problem, best, 12_000)
    assert found.goal[0] > 40
    assert found.changes[found.fewest(0.95)] <= 3
    assert found.changes[found.fewest(1.0)] <= found.goal[0] / 3


def test_after_a_stage_each_walk_goes_on_from_the_best_by_its_own_price():
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"), NnpiConfig())
    base = problem.baseline.mapping
    goal = problem.space.canonical(np.zeros_like(base))
    walks = fewest._Walks(Costs(problem), np.stack([base, goal]), np.array([10.0, 1.0]), 9, 0)
    kept = {0: (0, 10.0), 2: (2, 4.0), 9: (9, 1.0)}
    for slot, (changes, cost) in kept.items():
        walks._kept_count[slot], walks._kept_cost[slot] = changes, cost
    walks._begin_anew()
    for walk, (penalty, most) in enumerate(zip(walks._penalty, walks._most, strict=True)):
        value = {cost + penalty * changes: cost for changes, cost in kept.values() if changes <= most}
        assert walks.cost[walk] == value[min(value)]
    assert set(walks.cost.tolist()) == {10.0, 4.0, 1.0}


def test_a_mapping_that_gains_nothing_leaves_the_baseline_alone():
    problem = NnpiProblem(load("alexnet"), load_chip("edge"), NnpiConfig())
    for mapping in (problem.baseline.mapping, problem.space.initial):
        found = front(problem, mapping, 600)
        assert found.changes.tolist() == [0]
        assert found.fewest(0.95) == 0
        assert found.kept.tolist() == [0.0]


def test_the_first_that_keeps_the_share_is_taken():
    maps = np.zeros((4, 1, 1), np.int16)
    found = Front(np.array([0, 2, 5, 9]), np.array([10.0, 6.0, 5.2, 5.0]), maps, (9, 5.0), 0)
    assert [found.fewest(share) for share in (0.5, 0.8, 0.9, 0.96, 1.0)] == [1, 1, 2, 2, 3]
    assert found.kept == pytest.approx([0.0, 0.8, 0.96, 1.0])
    short = Front(np.array([0, 2]), np.array([10.0, 6.0]), maps[:2], (9, 5.0), 0)
    assert short.fewest(1.0) == 1
    assert math.isclose(short.kept[1], 0.8)
