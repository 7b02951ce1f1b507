"""Placements in banks do what every problem must do."""

from __future__ import annotations

import pytest
from capability_suite import *  # noqa: F403
from problem_suite import *  # noqa: F403

from edge_subjects import PROBLEMS
from hwsim.problem import Problem


@pytest.fixture(scope="module", params=PROBLEMS)
def problem(request: pytest.FixtureRequest) -> Problem:
    return PROBLEMS[request.param]()
