"""What memories hold over time, against the judge and by looking at every tensor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.capabilities import HasOccupancy
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.judge import judge
from hwsim.nnpi.problem import NnpiProblem
from strategies import chips, mappings, workloads
from workloads.load import load
from workloads.workload import Edge, Op, Workload


def network() -> Workload:
    """Weights of 50, 0 and 20 bytes, activations of 60, 30 and 7; c reads a and b."""
    shape = (1, 1, 1)
    return Workload(
        "net",
        (
            Op("a", "conv", (), shape, shape, 60, weight_bytes=50, vector_ops=1),
            Op("b", "conv", (Edge("a", 60),), shape, shape, 30),
            Op("c", "conv", (Edge("a", 60), Edge("b", 30)), shape, shape, 7, weight_bytes=20),
            Op("d", "conv", (Edge("c", 7),), shape, shape, 1),
        ),
    )


def test_weights_are_held_all_along_and_activations_from_their_op_to_their_last_consumer():
    problem = NnpiProblem(network(), load_chip("nnpi"))
    found = problem.occupancy(np.array([[1, 2], [0, 2], [0, 2], [2, 0]], np.int16))
    assert isinstance(problem, HasOccupancy)
    assert found.memories == ("dram", "llc", "sram")
    assert found.capacity_bytes.tolist() == [2**35, 24 * 2**20, 4 * 2**20]
    assert found.by_head.dtype == np.int64
    assert found.by_head[:, :, 0].tolist() == [[20, 50, 0]] * 4
    assert found.by_head[:, 2, 1].tolist() == [60, 90, 97, 7]
    assert found.occupied_bytes.tolist() == [[20, 50, 60], [20, 50, 90], [20, 50, 97], [21, 50, 7]]


def test_it_is_the_mapping_as_it_stands_not_what_the_compiler_makes_of_it():
    problem = NnpiProblem(load("vgg16"), load_chip("nnpi"))
    everything_fast = np.full((len(problem.space.nodes), 2), 2, np.int16)
    found = problem.occupancy(everything_fast)
    assert (found.occupied_bytes[:, 2] > found.capacity_bytes[2]).all()
    assert found.occupied_bytes[:, :2].sum() == 0


def test_a_choice_out_of_range_is_a_programming_error():
    problem = NnpiProblem(network(), load_chip("nnpi"))
    with pytest.raises(ValueError, match="weight of a"):
        problem.occupancy(np.array([[9, 2], [0, 2], [0, 2], [0, 0]], np.int16))


@pytest.mark.slow
@given(st.data())
def test_a_rectified_mapping_never_holds_more_than_there_is_room(data: st.DataObject):
    workload, chip = data.draw(workloads()), data.draw(chips())
    problem = NnpiProblem(workload, chip)
    for mapping in problem.rectify(data.draw(mappings(len(workload), len(chip.memories)))):
        found = problem.occupancy(mapping)
        assert (found.occupied_bytes <= found.capacity_bytes).all()


@pytest.mark.slow
@given(st.data())
def test_the_judge_finds_an_overflow_of_as_many_bytes_exactly_where_there_is_one(data: st.DataObject):
    workload, chip = data.draw(workloads()), data.draw(chips())
    problem = NnpiProblem(workload, chip)
    drawn = data.draw(mappings(len(workload), len(chip.memories), 1))[0]
    mapping = np.where(problem.space.live, drawn, np.int16(-1))
    found = problem.occupancy(mapping)
    steps, memories = np.nonzero(found.occupied_bytes > found.capacity_bytes)
    expected = {
        (f"{found.memories[m]} overflows", f"step {t} ({problem.space.nodes[t]})", found.occupied_bytes[t, m])
        for t, m in zip(steps, memories, strict=True)
    }
    assert {(v.what, v.where, v.demanded) for v in problem.judge(mapping)} == expected


@pytest.mark.slow
@given(st.data())
def test_it_counts_the_bytes_that_the_judge_counts_where_nothing_has_room(data: st.DataObject):
    workload, chip = data.draw(workloads()), data.draw(chips())
    problem = NnpiProblem(workload, chip)
    drawn = data.draw(mappings(len(workload), len(chip.memories), 1))[0]
    mapping = np.where(problem.space.live, drawn, np.int16(-1))
    no_room = [(name, 0) for name in chip.memory_names]
    widths = chip.element_bytes
    counted = {
        (v.what.split()[0], int(v.where.split()[1])): v.demanded
        for v in judge(workload, no_room, widths.weight, widths.activation, mapping)
    }
    found = problem.occupancy(mapping).occupied_bytes
    for t, m in np.ndindex(found.shape):
        assert found[t, m] == counted.get((chip.memory_names[m], t), 0)
