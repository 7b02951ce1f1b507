"""Changes in steps, best first: each step runs with those before it, and all together are the mapping."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from every_mapping import every_mapping, small
from hwsim import nearest
from hwsim.nearest import Costs, best_first
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Mapping16, Problem
from strategies import chips, workloads
from workloads.load import load


def followed(problem: Problem, mapping: Mapping16) -> list[Mapping16]:
    """The mapping after each step; checks that each is valid and costs what it says."""
    now, found = problem.baseline.mapping.copy(), []
    for step in best_first(problem, mapping):
        nodes, heads = step.changes.T
        assert (now[nodes, heads] == problem.baseline.mapping[nodes, heads]).all()
        now[nodes, heads] = mapping[nodes, heads]
        assert not problem.judge(now)
        assert problem.model_cost(now) == step.cost
        found.append(now.copy())
    assert np.array_equal(now, mapping)
    return found


@pytest.mark.slow
@settings(max_examples=6, derandomize=True, suppress_health_check=list(HealthCheck))
@given(workloads(max_ops=4), chips())
def test_steps_lead_through_valid_mappings_and_the_first_gains_most_per_change(workload, chip):
    problem = small(workload, chip)
    maps, cost = every_mapping(problem)
    base = problem.baseline
    assume(cost.min() < base.cost * 0.999)
    goal = maps[int(np.argmin(cost))]
    followed(problem, goal)
    first = best_first(problem, goal)[0]
    gain = (base.cost - first.cost) / len(first.changes)
    for node, head in np.argwhere(goal != base.mapping):
        alone = base.mapping.copy()
        alone[node, head] = goal[node, head]
        if not problem.judge(alone) and len(best_first(problem, goal)) > 1:
            alone_gains = base.cost - problem.model_cost(alone)
            assert alone_gains <= max(gain * (1 + 1e-9), 1e-3 * (base.cost - cost.min())) + 1e-9 * base.cost


def test_what_makes_room_is_in_the_step_that_needs_it():
    problem = NnpiProblem(load("resnet50"), load_chip("nnpi"), NnpiConfig())
    best, _ = problem.best_known()
    assert best is not None
    maps = followed(problem, best)
    costs = Costs(problem)(np.stack([problem.baseline.mapping, *maps]))[1]
    first = best_first(problem, best)[0]
    assert len(first.changes) == 2
    assert costs[0] - costs[1] > 0.9 * (costs[0] - costs[-1])


def test_after_enough_evaluations_the_rest_is_one_step(monkeypatch):
    problem = NnpiProblem(load("resnet50"), load_chip("nnpi"), NnpiConfig())
    best, _ = problem.best_known()
    assert best is not None
    whole = len(best_first(problem, best))
    monkeypatch.setattr(nearest, "LIMIT", 1)
    assert len(followed(problem, best)) < whole


def test_the_baseline_needs_no_step():
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"), NnpiConfig())
    assert best_first(problem, problem.baseline.mapping) == []
    assert problem.baseline.cost == pytest.approx(Costs(problem).of(problem.baseline.mapping))
