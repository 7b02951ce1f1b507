"""The judge, on the five partitions that the paper draws and on sums."""

from __future__ import annotations

import pytest

from hwsim.mcm.judge import judge

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("edges", "assignment", "what"),
    [
        (DIAMOND, [0, 1, 2, 3], []),
        (DIAMOND, [0, 1, 0, 0], ["acyclic"]),
        (DIAMOND, [0, 0, 2, 2], ["no skipping"]),
        (DIAMOND, [0, 1, 0, 2], ["triangle"]),
        ([(0, 1), (2, 3), (0, 3)], [0, 1, 1, 2], ["triangle"]),
        (DIAMOND, [0, 0, 0, 0], ["memory"]),
        (DIAMOND, [0, 1, 4, 1], ["no such chip"]),
    ],
)
def test_each_rule_is_seen_broken(edges, assignment, what):
    found = judge(4, 3, edges, [1, 1, 1, 1], assignment)
    assert [v.what for v in found] == what
    assert all(v.demanded > v.available for v in found)


def test_rules_that_are_off_are_not_judged():
    assert not judge(4, 1, DIAMOND, [1, 1, 1, 1], [3, 1, 3, 1], False, False, False, False)
