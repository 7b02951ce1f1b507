"""What `--start rules` measures first."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

from egrl.core.from_rules import rules_of
from egrl.methods import placed
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from policies import shipped
from workloads.load import load


def test_first_come_the_baseline_the_best_rules_and_the_best_of_what_rankings_place():
    problem = NnpiProblem(load("resnet50"), load_chip("nnpi"))
    found = placed.first_mappings(problem)
    cost = problem.evaluate(np.stack(found), np.zeros(len(found), np.uint64)).cost
    assert np.array_equal(found[0], problem.baseline.mapping)
    assert len({mapping.tobytes() for mapping in found}) == len(found) == 13
    rules = {rule.tobytes() for rule in rules_of(problem)}
    assert [mapping.tobytes() in rules for mapping in found] == [True] * 5 + [False] * 8
    assert (np.diff(cost[1:5]) >= 0).all()
    for part, made in ((slice(5, 9), placed.placed_by_network), (slice(9, 13), placed.placed_by_rules)):
        kind = {mapping.tobytes() for mapping in made(problem)}
        assert {mapping.tobytes() for mapping in found[part]} <= kind
        assert (np.diff(cost[part]) >= 0).all()
    assert problem.baseline.cost / cost.min() == placed.place(problem, steps=0).speedup


def test_eight_of_the_rules_come_where_no_network_ships():
    problem = NnpiProblem(load("resnet50"), load_chip("nnpi"))
    with patch.object(placed, "network", lambda *_: None):
        found = placed.first_mappings(problem)
    kind = {mapping.tobytes() for mapping in placed.placed_by_rules(problem)}
    assert len({mapping.tobytes() for mapping in found}) == len(found) == 13
    assert all(mapping.tobytes() in kind for mapping in found[5:])


def test_all_rules_come_first_where_nothing_ships():
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    with patch.object(shipped, "rules", lambda *_: []), patch.object(placed, "network", lambda *_: None):
        found = placed.first_mappings(problem)
    assert [mapping.tobytes() for mapping in found] == [mapping.tobytes() for mapping in rules_of(problem)]
