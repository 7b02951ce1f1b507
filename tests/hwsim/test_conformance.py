"""What every problem must do, real or toy."""

from __future__ import annotations

import pytest
from problem_suite import *  # noqa: F403

from hwsim.problem import Problem
from subjects import PROBLEMS


@pytest.fixture(scope="module", params=PROBLEMS)
def problem(request: pytest.FixtureRequest) -> Problem:
    return PROBLEMS[request.param]()
