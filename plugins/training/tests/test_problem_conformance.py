"""A training step does what every problem must do."""

from __future__ import annotations

import pytest
from capability_suite import *  # noqa: F403
from problem_suite import *  # noqa: F403

from hwsim.problem import Problem
from training_subjects import PROBLEMS


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.exhaustive] if name != "training" else []) for name in PROBLEMS
    ],
)
def problem(request: pytest.FixtureRequest) -> Problem:
    return PROBLEMS[request.param]()
