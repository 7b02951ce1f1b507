"""When the loop ends: what a budget leaves room for. How a method without a state is resumed."""

from __future__ import annotations

import numpy as np
import pytest

from egrl.core import typed_tables
from egrl.core.archive import Archive
from egrl.core.budget import Budget
from egrl.core.loop import SearchState, _spent, replay
from egrl.core.method import Method, Setting
from egrl.methods import find_method
from toys import ToyRagged
from workloads.errors import InputError


@pytest.mark.parametrize(
    ("generation", "seconds", "durations", "spent"),
    [
        (0, 99.0, [], False),
        (1, 4.0, [4.0], False),
        (1, 6.1, [6.1], True),
        (2, 8.0, [6.0, 1.0], False),
        (4, 8.5, [1.0, 1.0, 2.0, 1.0], True),
        (6, 8.5, [1.0, 2.0, 1.0, 1.0, 1.0], False),
        (9, 9.5, [], True),
    ],
    ids=["first", "fits", "no room", "warm-up", "longest of three", "long ago", "resumed"],
)
def test_a_generation_that_is_not_expected_to_fit_is_not_begun(generation, seconds, durations, spent):
    state = SearchState(generation=generation, seconds=seconds)
    assert _spent(Budget(None, 10.0), state, seconds, durations) is spent


def test_a_budget_in_generations_never_looks_at_the_clock():
    budget = Budget(3, None)
    assert [_spent(budget, SearchState(n), 1e9, [1e9]) for n in range(5)] == [False] * 3 + [True] * 2


def annealing(archive: Archive) -> Method:
    definition = find_method("annealing")
    setting = Setting([ToyRagged()], archive, 0, [None])
    return definition.build(setting, typed_tables.build(definition.config, {}, "method"))


def test_a_method_without_a_state_is_asked_and_told_again():
    problem, archive = ToyRagged(), Archive([ToyRagged()])
    first = annealing(archive)
    for _ in range(8):
        batch = first.ask(9)
        assert batch is not None
        batch = batch.numbered(len(archive))
        evaluation = problem.evaluate(batch.mapping, np.zeros(len(batch), np.uint64))
        archive.append(batch, evaluation)
        first.tell(batch, evaluation)
    again = annealing(archive)
    replay(again, archive)
    one, other = first.ask(21), again.ask(21)
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.mapping, other.mapping)


def test_what_the_archive_has_let_go_cannot_be_told_again():
    archive = Archive([ToyRagged()])
    archive.skip(archive.window + 1)
    with pytest.raises(InputError, match=r"--resume: expected at most \d+ evaluations"):
        replay(annealing(archive), archive)
