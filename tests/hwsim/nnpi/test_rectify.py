"""The rectifier, against brute-force liveness and the judge."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.nnpi.chip import Chip, Memory, load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from strategies import chips, mappings, workloads
from workloads.workload import Edge, Op, Workload


def op(name: str, weight: int, activation: int, *inputs: str) -> Op:
    edges = tuple(Edge(source, 1) for source in inputs)
    return Op(
        name,
        "conv",
        edges,
        (1, 1, 1),
        (1, 1, 1),
        activation,
        weight_bytes=weight,
        weight_read_bytes=weight,
        vector_ops=1,
    )


def small_chip(*capacities: int) -> Chip:
    """Memories m0 (slowest, large), m1 … with these capacities."""
    sizes = (2**30, *capacities)
    memories = tuple(Memory(f"m{k}", size, 1e9 * 10**k) for k, size in enumerate(sizes))
    chip = load_chip("nnpi")
    return replace(chip, memories=memories, prefetch=replace(chip.prefetch, into="m1", via="m1"))


def rectified(problem: NnpiProblem, rows: list[list[int]]) -> list[list[int]]:
    return problem.rectify(np.array([rows], np.int16))[0].tolist()


def held(workload: Workload, rows: np.ndarray, memory: int, step: int) -> int:
    """Bytes in a memory at a step, by looking at every tensor."""
    total = 0
    for i, o in enumerate(workload.ops):
        last = max(
            [i] + [j for j, other in enumerate(workload.ops) for e in other.inputs if e.source == o.name]
        )
        total += o.weight_bytes if rows[i][0] == memory else 0
        total += o.output_bytes if rows[i][1] == memory and i <= step <= last else 0
    return total


def test_rectifier_moves_the_tensor_that_no_longer_fits_to_the_next_slower_memory():
    chain = Workload("chain", (op("a", 60, 30), op("b", 60, 30, "a"), op("c", 0, 10, "b")))
    problem = NnpiProblem(chain, small_chip(100, 100))
    assert rectified(problem, [[2, 2], [2, 2], [0, 1]]) == [[2, 2], [1, 1], [-1, 1]]


def test_rectifier_goes_down_to_the_slowest_memory_where_no_other_has_room():
    chain = Workload("chain", (op("a", 60, 30), op("b", 200, 30, "a")))
    problem = NnpiProblem(chain, small_chip(100, 100))
    assert rectified(problem, [[2, 2], [2, 0]]) == [[2, 2], [0, 0]]


def test_an_activation_gives_its_room_back_only_after_its_last_consumer():
    ops = (
        op("a", 0, 50),
        op("b", 0, 50, "a"),
        op("c", 0, 50, "b"),
        op("d", 0, 50, "a", "c"),
        op("e", 0, 50, "d"),
    )
    problem = NnpiProblem(Workload("skip", ops), small_chip(100))
    assert rectified(problem, [[0, 1]] * 5) == [[-1, 1], [-1, 1], [-1, 0], [-1, 1], [-1, 1]]


def test_a_late_weight_must_fit_beside_the_fullest_step_before_it():
    ops = (op("a", 0, 50), op("b", 0, 50, "a"), op("c", 10, 1, "b"))
    problem = NnpiProblem(Workload("late", ops), small_chip(100))
    assert rectified(problem, [[0, 1], [0, 1], [1, 1]]) == [[-1, 1], [-1, 1], [0, 1]]


def test_epsilon_is_the_share_of_bytes_that_had_to_move():
    chain = Workload("chain", (op("a", 60, 40), op("b", 100, 0, "a")))
    problem = NnpiProblem(chain, small_chip(100))
    result = problem.evaluate(
        np.array([[[1, 1], [1, 1]], [[1, 0], [0, 0]]], np.int16), np.zeros(2, np.uint64)
    )
    assert result.epsilon.tolist() == [0.5, 0.0]


@pytest.mark.slow
@given(st.data())
def test_rectified_maps_are_silent_fixed_points_and_only_ever_go_slower(data: st.DataObject):
    workload, chip = data.draw(workloads()), data.draw(chips())
    problem = NnpiProblem(workload, chip)
    batch = data.draw(mappings(len(workload), len(chip.memories)))
    first = problem.rectify(batch)
    for row in first:
        assert problem.judge(row) == []
    assert np.array_equal(problem.rectify(first), first)
    assert (first <= np.where(problem.space.live, batch, -1)).all()


@pytest.mark.slow
@given(st.data())
def test_a_map_that_the_judge_accepts_is_left_alone_and_any_other_is_moved(data: st.DataObject):
    workload, chip = data.draw(workloads()), data.draw(chips())
    problem = NnpiProblem(workload, chip, NnpiConfig(invalid="penalise"))
    batch = data.draw(mappings(len(workload), len(chip.memories)))
    batch = np.where(problem.space.live, batch, np.int16(-1))
    result = problem.evaluate(batch, np.zeros(len(batch), np.uint64))
    for mapping, epsilon in zip(batch, result.epsilon, strict=True):
        assert (epsilon == 0) == (problem.judge(mapping) == [])


def test_on_a_tiny_network_a_map_is_unchanged_exactly_if_brute_force_liveness_says_that_it_fits():
    ops = (op("a", 30, 40), op("b", 20, 50, "a"), op("c", 30, 20, "a", "b"))
    workload = Workload("tiny", ops)
    capacities = (100, 70)
    problem = NnpiProblem(workload, small_chip(*capacities))
    fits = 0
    for choices in product(range(3), repeat=6):
        rows = np.array(choices, np.int16).reshape(3, 2)
        valid = all(
            held(workload, rows, memory, step) <= capacity
            for memory, capacity in enumerate(capacities, start=1)
            for step in range(3)
        )
        fits += valid
        assert np.array_equal(problem.rectify(rows[None])[0], rows) == valid
    assert 0 < fits < 3**6
