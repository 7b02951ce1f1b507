"""The solver: complete, sound, and what it says where there is nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from mcm_cases import RULES, SHAPES, broken, even, graph, package

from gate import gate
from hwsim.mcm.graph import contract, of_placement, of_workload
from hwsim.mcm.network import clone_shared
from hwsim.mcm.package import Constraints, load_package
from hwsim.mcm.solver.solver import INFEASIBLE, solver
from workloads.errors import InputError
from workloads.load import load
from workloads.load_partition import read_instance


@pytest.mark.parametrize("rules", gate(RULES, RULES[::4]))
@pytest.mark.parametrize("shape", SHAPES)
def test_what_sample_reaches_is_what_brute_force_finds(shape, rules):
    given = solver(graph(*SHAPES[shape]), package(4, 3, rules))
    every = {p for p in product(range(4), repeat=len(given.graph)) if not broken(given, np.array(p))}
    answer = given.sample(even(given), np.arange(5_000, dtype=np.uint64))
    assert answer.valid.all()
    reached = {tuple(row) for row in answer.assignment.tolist()}
    assert reached <= every
    unseen = np.array(sorted(every - reached), np.int64).reshape(-1, len(given.graph))
    again = given.sample(
        np.eye(4, dtype=np.float32)[unseen], np.arange(len(unseen), dtype=np.uint64)
    ).assignment
    assert (again == unseen).all()
    assert len(reached) > 0.5 * len(every)


@pytest.mark.parametrize("rules", RULES)
def test_a_valid_proposal_comes_back_unchanged(rules):
    given = solver(graph(*SHAPES["a diamond"]), package(4, 3, rules))
    every = [p for p in product(range(4), repeat=5) if not broken(given, np.array(p))]
    proposed = np.array(every, np.int16)
    answer = given.fix(proposed, np.arange(len(every), dtype=np.uint64))
    assert (answer.assignment == proposed).all()
    assert not answer.backtracks.any()


def test_an_invalid_proposal_is_changed_into_a_valid_one_near_it():
    given = solver(graph(*SHAPES["a chain with a skip"]), package(4, 3, Constraints()))
    answer = given.fix(np.array([[0, 0, 0, 0, 2]], np.int16), np.zeros(1, np.uint64), np.arange(5))
    assert answer.assignment[0, :3].tolist() == [0, 0, 0]
    assert not broken(given, answer.assignment[0])


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2"])
def test_partitions_of_real_networks_pass_the_judge(name):
    paper = load_package("mcm36")
    given = solver(clone_shared(of_workload(load(name), paper))[0], paper)
    answer = given.sample(even(given), np.arange(3, dtype=np.uint64))
    assert answer.valid.all()
    assert not [broken(given, row) for row in answer.assignment if broken(given, row)]


def test_rows_depend_on_their_keys_alone():
    given = solver(graph(*SHAPES["a diamond"]), package(4, 3, Constraints()))
    keys = np.arange(8, dtype=np.uint64)
    whole = given.sample(even(given), keys).assignment
    assert (given.sample(even(given), keys[::-1]).assignment == whole[::-1]).all()
    assert (given.sample(even(given), keys[5:]).assignment == whole[5:]).all()


def test_probabilities_decide_where_there_is_a_choice():
    given = solver(graph(4, []), package(2, 4, Constraints(no_skip=False)))
    likely = np.tile(np.array([3.0, 1.0], np.float32), (4, 1))
    drawn = given.sample(likely, np.arange(4000, dtype=np.uint64)).assignment
    assert drawn.mean(axis=0) == pytest.approx(0.25, abs=0.03)


@pytest.mark.slow
def test_too_little_memory_is_proved_and_named():
    given = solver(graph(5, SHAPES["a diamond"][1], weight=10), package(4, 9, Constraints()))
    answer = given.sample(even(given), np.zeros(1, np.uint64))
    assert answer.status.tolist() == [INFEASIBLE]
    assert answer.assignment.tolist() == [[-1] * 5]
    reason = given.explain()
    assert (reason.constraint, reason.where, reason.demanded, reason.available) == (
        "memory",
        "node n0",
        10,
        9,
    )
    assert "sram_bytes of" in str(reason)
    assert solver(given.graph, package(4, 50, Constraints())).explain() is None


def test_a_rule_that_would_help_is_named():
    edges = [(0, v) for v in range(1, 6)] + [(v, v + 1) for v in range(1, 5)]
    given = solver(graph(6, edges), package(6, 2, Constraints()))
    reason = given.explain()
    assert reason.proved
    assert reason.demanded > reason.available == 2
    assert "triangle = false" in reason.helps
    light = replace(given.graph, weight_bytes=np.array([0, 1, 1, 1, 1, 1]))
    assert solver(clone_shared(light)[0], package(6, 1, Constraints())).explain() is None
    assert solver(light, package(6, 1, Constraints())).explain() is not None


def test_copies_serve_one_reader_each():
    larger, of = clone_shared(graph(4, [(0, 1), (0, 2), (0, 3)], weight=0))
    assert of.tolist() == [0, 1, 2, 3, 0, 0]
    assert larger.edges.tolist() == [[0, 1], [4, 2], [5, 3]]


def test_what_a_copied_node_is_computed_from_is_copied_with_it():
    """A mask of two steps, read by three layers: three chains, each of its own two nodes."""
    larger, of = clone_shared(graph(6, [(0, 1), (1, 2), (1, 3), (1, 4), (2, 3), (3, 4), (4, 5)], weight=0))
    assert of.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 0, 1]
    assert larger.edges.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [6, 7], [7, 3], [8, 9], [9, 4]]
    assert larger.nodes[7] == "n1 for n3"
    small = graph(6, [(0, 1), (1, 2), (1, 3), (1, 4), (2, 3), (3, 4), (4, 5)], weight=0)
    assert len(clone_shared(small, max_nodes=1)[0]) == 6
    heavy = replace(small, weight_bytes=np.array([1, 0, 0, 0, 0, 0]))
    assert len(clone_shared(heavy)[0]) == 6
    assert len(clone_shared(heavy, max_weight_bytes=1)[0]) == 10


def test_groups_and_cycles_of_groups_share_a_chip():
    small, member = contract(graph(5, [(0, 1), (1, 2), (2, 3), (3, 4)]), [0, 1, 0, 2, 3])
    assert member.tolist() == [0, 0, 0, 1, 2]
    assert small.weight_bytes.tolist() == [3, 1, 1]
    assert small.edges.tolist() == [[0, 1], [1, 2]]


def test_a_cycle_is_refused():
    with pytest.raises(InputError, match="expected no cycle"):
        solver(graph(2, [(0, 1), (1, 0)]), package(2, 2, Constraints()))


INSTANCES = Path(__file__).resolve().parents[4] / "shared" / "data" / "placement"


@pytest.mark.skipif(not INSTANCES.exists(), reason="the instances are not here")
@pytest.mark.parametrize("name", ["LayerGraphs-bert24_inference", "OperatorGraphs-bert_l-3_inference"])
def test_profiled_instances_are_partitioned_with_colour_classes_together(name):
    instance = read_instance(str(INSTANCES / f"{name}.json.gz"))
    whole = of_placement(instance)
    small, member = contract(whole, instance.group)
    given = solver(small, load_package("profiled"))
    answer = given.sample(even(given), np.arange(3, dtype=np.uint64))
    assert answer.valid.all()
    for row in answer.assignment[:, member]:
        assert not broken(replace(given, graph=whole), row)
        assert all(len(set(row[instance.group == colour])) == 1 for colour in instance.group)
