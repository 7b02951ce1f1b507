"""Every method keeps what the user pins: what it measures, and what it names the best."""

from __future__ import annotations

import numpy as np
import pytest
from method_suite import run

from subjects import VARIANTS, problem, served

NAMES = [name for name in VARIANTS if served(name, problem("nnpi-pinned"))]


@pytest.mark.parametrize("variant", NAMES)
def test_every_mapping_of_every_method_keeps_the_pins(variant, tmp_path, monkeypatch):
    subject = problem("nnpi-pinned")
    archive, _, state = run(variant, subject, tmp_path / "run", 2)
    measured = archive.mappings(np.arange(len(archive)))
    assert len(measured) == 42
    for row in np.unique(measured, axis=0):
        assert subject.judge(row) == []
    (champion,) = state.champions
    assert subject.judge(champion.mapping) == []


def test_all_methods_that_serve_the_problem_are_here():
    assert {VARIANTS[name][0] for name in NAMES} >= {"egrl", "ea", "pg", "ppo", "twin", "annealing", "random"}
