"""When the loop ends: what a budget leaves room for."""

from __future__ import annotations

import pytest

from egrl.config import Budget
from egrl.loop import SearchState, _spent


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
