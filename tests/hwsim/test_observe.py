"""What a policy sees of a mapping."""

from __future__ import annotations

import numpy as np
import pytest

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.observe import observe
from toys import ToyGrammar
from workloads.load import load


def test_observation_of_a_mapping_shows_each_choice_as_its_rank_in_speed():
    problem = NnpiProblem(load("resnet18"), load_chip("nnpi"))
    shown = observe(problem, problem.baseline.mapping)
    start = problem.observation
    assert np.array_equal(shown.x[:, :-2], start.x[:, :-2])
    assert np.array_equal(shown.x[:, -2:], np.maximum(problem.baseline.mapping, 0) / 2)
    assert np.array_equal(shown.edge_index, start.edge_index)
    assert shown.schema == start.schema
    assert np.array_equal(observe(problem, problem.space.initial).x, start.x)


def test_a_problem_without_an_observation_is_refused():
    problem = ToyGrammar()
    with pytest.raises(ValueError, match="expected one with an observation, received 'toy-grammar' without"):
        observe(problem, problem.space.initial)
