"""Kinds of step that people write are as in eager mode within a limit; all of them: `benchmarks/training_kinds.py`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks.kinds.compare import REFUSED, RIGHT, compare
from benchmarks.kinds.drawn import drawn
from benchmarks.kinds.drawn_programs import program
from benchmarks.kinds.kind import KINDS, Kind
from benchmarks.training_kinds import LIMITS, outcomes

from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)

pytestmark = QUIET
ALL = {kind.name: kind for kind in KINDS}
FRACTION = 0.85
GATE = [
    "a running mean read before its update",
    "an input read and then zeroed",
    "two buffers that share memory",
    "a graph break with a change between",
    "torch.cond",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", GATE)
def test_a_kind_of_step_is_right_within_a_limit(name: str) -> None:
    outcome = compare(ALL[name], "aot_eager", FRACTION)
    assert outcome.word == RIGHT, str(outcome)
    # a plan that the judge refuses would be cut as PyTorch does, and be right all the same
    assert "from other values" not in outcome.detail
    assert "another order" not in outcome.detail


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("draw", [drawn, program])
def test_steps_drawn_at_random_are_right_or_refused(
    draw: Callable[[int], Kind], seed: int, backend: str
) -> None:
    for fraction in (1.0, 0.8):
        outcome = compare(draw(seed), backend, fraction)
        assert outcome.word in (RIGHT, REFUSED), str(outcome)


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", ALL)
def test_every_kind_of_step_is_right_or_refused_in_a_line_where_plain_pytorch_runs(
    name: str, backend: str
) -> None:
    found = outcomes(ALL[name], backend, LIMITS)
    plain = found.pop("plain")
    for limit, outcome in found.items():
        as_plain = backend == "inductor" and outcome.word == plain.word  # random numbers of its own
        assert outcome.word in (RIGHT, REFUSED) or as_plain, (limit, str(outcome), str(plain))
