"""The moves that methods share: which of them a problem's size brings."""

from __future__ import annotations

import numpy as np

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from population import moves as shared
from population.moves import KINDS, Mix
from workloads.load import load

FLIPS = {**dict.fromkeys(KINDS, 0.0), "flip": 1.0, "extra": 0.0}


def most_changed(problem: NnpiProblem, **settings: float) -> int:
    moves, rng = shared.moves_of(problem, Mix(**{**FLIPS, **settings})), np.random.default_rng(0)
    mapping = problem.baseline.mapping
    return max(int((moves.propose(mapping, rng) != mapping).sum()) for _ in range(50))


def test_only_in_a_large_network_moves_are_repeated(monkeypatch):
    problem = NnpiProblem(load("resnet50"), load_chip("nnpi"))
    assert most_changed(problem, alike=1.0) == 1
    monkeypatch.setattr(shared, "LARGE", len(problem.space.nodes) - 1)
    assert most_changed(problem, alike=1.0) > 1
    assert most_changed(problem, alike=0.0) == 1
