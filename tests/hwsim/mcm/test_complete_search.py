"""The complete search by itself, to which the solver turns where quick attempts fail."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from mcm_cases import RULES, SHAPES, broken, even, graph, package

from gate import gate
from hwsim.mcm.solver.search import VALID, search_keys
from hwsim.mcm.solver.solver import Solver, solver

RUNNING = np.zeros(1, np.int64)
RANDOM = np.zeros((0, 5), np.int64)


def sampled(given: Solver, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A partition a row of weights [B, N, C], and statuses."""
    count = len(weights)
    return search_keys(
        given.relations,
        weights,
        np.zeros((0, 0), np.int16),
        np.zeros((0, len(given.graph)), np.int64),
        np.arange(count, dtype=np.uint64),
        np.full(count, 1000),
        RUNNING,
    )[:2]


@pytest.mark.parametrize("rules", gate(RULES, RULES[::4]))
@pytest.mark.parametrize("shape", SHAPES)
def test_it_reaches_what_brute_force_finds_and_nothing_else(shape, rules):
    given = solver(graph(*SHAPES[shape]), package(4, 3, rules))
    every = {p for p in product(range(4), repeat=len(given.graph)) if not broken(given, np.array(p))}
    found, status = sampled(given, np.repeat(even(given)[None], 300, axis=0))
    assert (status == VALID).all()
    assert {tuple(row) for row in found.tolist()} <= every
    certain = np.eye(4, dtype=np.float32)[np.array(sorted(every))]
    assert (sampled(given, certain)[0] == np.array(sorted(every))).all()


@pytest.mark.parametrize("rules", RULES)
def test_a_valid_proposal_comes_back_unchanged(rules):
    given = solver(graph(*SHAPES["a diamond"]), package(4, 3, rules))
    every = [p for p in product(range(4), repeat=5) if not broken(given, np.array(p))]
    found, status, taken_back = search_keys(
        given.relations,
        np.zeros((0, 0, 4), np.float32),
        np.array(every, np.int16),
        RANDOM,
        np.arange(len(every), dtype=np.uint64),
        np.full(len(every), 1000),
        RUNNING,
    )
    assert (status == VALID).all()
    assert (found == np.array(every)).all()
    assert not taken_back.any()
