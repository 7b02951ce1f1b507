"""Partitions decision by decision: brute force on small graphs, and completions below a vertex."""

from __future__ import annotations

import itertools
from collections.abc import Hashable

import numpy as np
import pytest
from mcm_cases import RULES, SHAPES, broken, graph, package, random_graph

from gate import gate
from hwsim.mcm.derivation import Chips
from hwsim.mcm.package import Constraints
from hwsim.mcm.solver.solver import solver


def reached(derivation: Chips) -> tuple[list[bytes], int]:
    """Every complete plan as often as it is reached, and the number of dead ends."""
    plans: list[bytes] = []
    dead = 0
    open_: list[Hashable] = [derivation.root]
    while open_:
        vertex = open_.pop()
        successors, plan = derivation.successors(vertex), derivation.mapping(vertex)
        assert not (successors and plan is not None)
        if plan is not None:
            plans.append(plan.tobytes())
        dead += not successors and plan is None
        open_ += successors
    return plans, dead


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rules", gate(RULES, RULES[::4]), ids=str)
def test_every_valid_partition_is_reached_once_and_nothing_else(shape, rules):
    count, edges = SHAPES[shape]
    given = solver(graph(count, edges), package(3, 2, rules))
    valid = [
        np.array(chips, np.int16)[:, None].tobytes()
        for chips in itertools.product(range(3), repeat=count)
        if not broken(given, np.array(chips))
    ]
    plans, _ = reached(Chips(given, 100))
    assert sorted(plans) == sorted(valid)


@pytest.mark.slow
def test_there_are_dead_ends_and_completions_find_the_ways_around_them():
    rng, dead, around = np.random.default_rng(0), 0, 0
    for seed in range(60):
        given = solver(random_graph(np.random.default_rng(seed), 7), package(3, 9, Constraints()))
        derivation = Chips(given, 1000)
        plans, ends = reached(derivation)
        dead += ends
        found = derivation.completion(derivation.root, rng)
        assert (found is None) == (not plans)
        if found is not None:
            assert found.tobytes() in plans
            around += ends > 0
    assert dead > 5
    assert around > 0


def test_a_completion_keeps_what_its_vertex_has_decided_and_the_state_is_as_before():
    given = solver(random_graph(np.random.default_rng(3), 40), package(4, 60, Constraints()))
    derivation, rng = Chips(given, 1000), np.random.default_rng(0)
    again = derivation.successors(derivation.root)
    vertex: Hashable = derivation.root
    while successors := derivation.successors(vertex):
        vertex = successors[int(rng.integers(len(successors)))]
        found = derivation.completion(vertex, rng)
        if found is None:
            break
        assert isinstance(vertex, bytes)
        assert bytes(derivation.chosen(found).astype(np.uint8).tolist()).startswith(vertex)
        assert broken(given, found[:, 0]) == []
    assert derivation.successors(derivation.root) == again


def test_completions_follow_their_probabilities_where_the_domains_leave_a_choice():
    given = solver(graph(*SHAPES["no edges"]), package(3, 100, Constraints(no_skip=False)))
    derivation, rng = Chips(given, 10), np.random.default_rng(0)
    probabilities = np.array([[0.8, 0.2, 0.0], [0.0, 0.0, 1.0], [0.5, 0.0, 0.5], [1.0, 1.0, 1.0]])
    rows = np.array(
        [derivation.chosen(derivation.drawn(derivation.root, probabilities, rng)) for _ in range(2000)]
    )
    assert (rows[:, 0] == 0).mean() == pytest.approx(0.8, abs=0.04)
    assert (rows[:, 1] == 2).all()
    assert (rows[:, 2] == 0).mean() == pytest.approx(0.5, abs=0.05)
    assert (rows[:, 3] == 1).mean() == pytest.approx(1 / 3, abs=0.05)
