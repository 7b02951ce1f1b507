"""Budgets, and graphs and packages at the edge of what there can be: an answer, never an endless search."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from mcm_cases import RULES, broken, even, graph, package, random_graph

from hwsim.mcm.config import McmConfig
from hwsim.mcm.graph import of_workload
from hwsim.mcm.network import clone_shared
from hwsim.mcm.package import Constraints, load_package
from hwsim.mcm.problem import McmProblem
from hwsim.mcm.solver import solver as module
from hwsim.mcm.solver.solver import BUDGET, INFEASIBLE, clock, solver
from workloads.errors import InputError
from workloads.load import load

KEY = np.zeros(1, np.uint64)


@drawn(st.integers(2, 60), st.integers(1, 12), st.sampled_from(RULES), st.integers(0, 2**32 - 1))
def test_a_valid_partition_of_any_graph_comes_back_from_fix_unchanged(nodes, chips, rules, seed):
    rng = np.random.default_rng(seed)
    made = random_graph(rng, nodes)
    sram = max(int(made.weight_bytes.sum() / chips * rng.uniform(1.5, 3)), 6)
    given = solver(made, package(chips, sram, rules))
    found = given.sample(even(given), np.array([seed, seed + 1], np.uint64), None, 200)
    proposed = found.assignment[found.valid]
    assert not any(broken(given, row) for row in proposed)
    answer = given.fix(proposed, np.arange(len(proposed), dtype=np.uint64))
    assert (answer.assignment == proposed).all()
    assert not answer.backtracks.any()
    certain = np.eye(chips, dtype=np.float32)[proposed]
    if len(proposed):
        again = given.sample(certain, np.arange(len(proposed), dtype=np.uint64))
        assert (again.assignment == proposed).all()


def hard(nodes: int = 300):
    """A graph with many long edges and hardly any memory to spare: neither solved nor refuted soon."""
    made = random_graph(np.random.default_rng(0), nodes)
    return solver(made, package(12, int(made.weight_bytes.sum() / 12 * 1.6), Constraints()))


def test_a_budget_of_decisions_ends_the_search():
    answer = hard().sample(even(hard()), KEY, None, 60)
    assert answer.status.tolist() == [BUDGET]
    assert 60 <= answer.backtracks[0] < 100
    assert (answer.assignment == -1).all()


def test_a_budget_of_seconds_ends_the_search_for_all_keys():
    given = hard()
    answer = given.sample(even(given), np.arange(1000, dtype=np.uint64), None, 10**9, seconds=1e-9)
    assert answer.status[-1] == BUDGET
    small = solver(graph(3, []), package(2, 3, Constraints()))
    assert small.sample(even(small), KEY, seconds=float("inf")).valid.all()


@pytest.mark.slow
def test_an_explanation_within_its_time_says_that_nothing_is_proved(monkeypatch):
    monkeypatch.setattr(module, "clock", lambda seconds: clock(1e-9))  # of each of its searches
    reason = hard().explain(10**9, seconds=600.0)
    assert reason is not None
    assert not reason.proved
    assert str(reason).startswith(
        "no partition found within the budget: memory at a chip, under the other rules"
    )


def test_a_node_that_no_chip_can_hold_is_named_at_once():
    small = replace(load_package("mcm36"), name="small")
    given = solver(clone_shared(of_workload(load("gpt2"), small))[0], small)
    assert given.sample(even(given), KEY).status.tolist() == [INFEASIBLE]
    reason = given.explain(200, 5.0)
    assert (reason.where, reason.demanded, reason.available) == ("node wte", 50257 * 768, 32 * 2**20)
    assert "sram_bytes of" in str(reason)


@pytest.mark.slow
def test_a_weight_that_no_chip_can_hold_is_refused_with_what_to_change():
    with pytest.raises(InputError, match=r"alexnet on mcm36: no partition: memory at node fc1: .*") as caught:
        McmProblem(load("alexnet"), load_package("mcm36"), McmConfig())
    said = str(caught.value)
    assert "in a package file of your own (`egrl chip new FILE.toml --problem mcm` writes one" in said
    least = int(re.search(r"sram_bytes of (\d+)", said)[1])
    larger = replace(load_package("mcm36"), chip=replace(load_package("mcm36").chip, sram_bytes=least))
    assert McmProblem(load("alexnet"), larger, McmConfig()).baseline.cost > 0


def test_on_one_chip_everything_is_there_or_nothing():
    given = solver(graph(3, [(0, 1), (1, 2)]), package(1, 3, Constraints()))
    assert given.sample(even(given), KEY).assignment.tolist() == [[0, 0, 0]]
    given = solver(graph(3, [(0, 1), (1, 2)]), package(1, 2, Constraints()))
    assert given.sample(even(given), KEY).status.tolist() == [INFEASIBLE]


def test_more_chips_than_bits_are_refused_with_the_limit():
    with pytest.raises(ValueError, match="less than or equal to 62"):
        replace(load_package("mcm36"), chips=10_000)
    given = solver(graph(100, [(v, v + 1) for v in range(99)]), package(62, 10, Constraints()))
    answer = given.sample(even(given), np.arange(20, dtype=np.uint64))
    assert answer.valid.all()
    assert not [row for row in answer.assignment if broken(given, row)]


def test_an_empty_graph_is_refused():
    with pytest.raises(InputError, match="small: expected at least one node, found none"):
        solver(graph(0, []), package(2, 2, Constraints()))


@pytest.mark.parametrize(("backtracks", "seconds"), [(-1, None), (1, -0.5), (1, float("nan"))])
def test_a_budget_below_nothing_is_refused(backtracks, seconds):
    given = solver(graph(2, []), package(2, 2, Constraints()))
    with pytest.raises(ValueError, match="expected numbers from 0"):
        given.sample(even(given), KEY, None, backtracks, seconds)


@pytest.mark.parametrize("name", ["bert", "bert_large"])
def test_transformers_have_partitions_under_all_rules(name):
    paper = load_package("mcm36")
    given = solver(clone_shared(of_workload(load(name), paper))[0], paper)
    answer = given.sample(even(given), np.arange(10, dtype=np.uint64))
    assert answer.valid.all()
    assert not broken(given, answer.assignment[0])
    assert np.median(answer.assignment.max(axis=1)) > 15
