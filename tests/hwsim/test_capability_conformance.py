"""What a problem must do that has a capability, real or toy; every capability is some toy's."""

from __future__ import annotations

import pytest
from capability_suite import *  # noqa: F403
from capability_suite import CAPABILITIES

from hwsim.problem import Problem
from subjects import PROBLEMS
from toys import ABLE, TOYS

VARIANTS = ("nnpi-", "mmap-", "mcm-")
"""Settings and chips of problems that take part without them; only the longer suite has these."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.exhaustive] if name.startswith(VARIANTS) else [])
        for name in PROBLEMS
    ],
)
def problem(request: pytest.FixtureRequest) -> Problem:
    return PROBLEMS[request.param]()


def test_the_capabilities_are_few_and_some_toy_or_two_problems_have_each():
    assert len(CAPABILITIES) <= 21
    toys = [build() for build in (TOYS | ABLE).values()]
    own = [PROBLEMS[name]() for name in ("nnpi", "mcm")]
    for name, kind in CAPABILITIES.items():
        assert any(isinstance(toy, kind) for toy in toys) or all(isinstance(each, kind) for each in own), name
