"""How reports judge a difference: by its interval, in one way."""

from __future__ import annotations

import pytest

from egrl import reproduction


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((0.001, 0.02), "yes"),
        ((-0.02, -0.001), "no"),
        ((-0.004, 0.004), "equivalent (within 0.5%)"),
        ((-0.004, 0.006), "no significant difference"),
        (None, "no significant difference (one run)"),
    ],
)
def test_one_rule_judges_every_interval(interval, verdict):
    found = interval and {"mean": sum(interval) / 2, "low": interval[0], "high": interval[1]}
    assert reproduction.verdict(found) == verdict
    opposite = {"yes": "no", "no": "yes"}.get(verdict, verdict)
    assert reproduction.verdict(found, sign=-1) == opposite
    assert reproduction.verdict(reproduction.turned(found)) == opposite
