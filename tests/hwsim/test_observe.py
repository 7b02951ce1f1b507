"""What a policy sees of the mapping that a search sets out from."""

from __future__ import annotations

import numpy as np

from hwsim.mappings import choice_columns
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load


def test_each_choice_is_shown_as_its_rank_in_speed_and_an_unused_decision_as_zero():
    problem = NnpiProblem(load("resnet18"), load_chip("nnpi"))
    mapping = problem.baseline.mapping
    shown = choice_columns(problem.space.choice_rank, mapping)
    assert np.array_equal(shown, np.maximum(mapping, 0) / 2)
    assert (mapping < 0).any()
    initial = choice_columns(problem.space.choice_rank, problem.space.initial)
    assert np.array_equal(problem.observation.x[:, -2:], initial)
