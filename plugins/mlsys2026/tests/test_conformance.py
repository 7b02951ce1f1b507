"""An instance of the contest does what every problem must do, and methods of egrl serve it."""

from __future__ import annotations

import pytest
from capability_suite import *  # noqa: F403
from method_suite import *  # noqa: F403
from method_suite import Cases
from problem_suite import *  # noqa: F403

from hwsim.problem import Problem
from mlsys_subjects import PROBLEMS

CASES = Cases([(variant, "mlsys2026") for variant in ("annealing", "ea", "random")], PROBLEMS, ())


@pytest.fixture(scope="module", params=PROBLEMS)
def problem(request: pytest.FixtureRequest) -> Problem:
    return PROBLEMS[request.param]()
