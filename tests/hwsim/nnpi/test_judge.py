"""The judge is loud where a mapping is wrong and names what, where, how much."""

from __future__ import annotations

import numpy as np
import pytest

from hwsim.nnpi.judge import judge
from hwsim.problem import Violation
from workloads.workload import Edge, ElementBytes, Op, Workload

MEMORIES = [("dram", 10_000), ("llc", 300), ("sram", 100)]


def network() -> Workload:
    shape = (1, 1, 1)
    return Workload(
        "net",
        (
            Op("a", "conv", (), shape, shape, 60, weight_bytes=50),
            Op("b", "conv", (Edge("a", 60),), shape, shape, 60),
            Op("c", "conv", (Edge("b", 60),), shape, shape, 30, weight_bytes=200),
        ),
    )


def verdict(rows: list[list[int]], weight: float = 1.0, activation: float = 1.0) -> list[Violation]:
    return judge(network(), MEMORIES, weight, activation, np.array(rows, np.int16))


def test_a_mapping_that_fits_is_silent():
    assert verdict([[0, 0], [-1, 0], [0, 0]]) == []
    assert verdict([[1, 2], [-1, 0], [1, 2]]) == []


def test_an_overfull_memory_is_named_with_its_step_and_bytes():
    assert verdict([[0, 2], [-1, 2], [0, 0]]) == [
        Violation("sram overflows", "step 1 (b)", 120, 100, "bytes")
    ]


def test_a_weight_counts_at_every_step_and_an_activation_until_its_last_consumer():
    found = verdict([[2, 2], [-1, 0], [0, 2]])
    assert [(v.where, v.demanded) for v in found] == [("step 0 (a)", 110), ("step 1 (b)", 110)]
    assert verdict([[0, 0], [-1, 1], [1, 1]]) == []
    late = verdict([[1, 1], [-1, 0], [1, 0]])
    assert [(v.what, v.where, v.demanded) for v in late] == [
        ("llc overflows", "step 0 (a)", 310),
        ("llc overflows", "step 1 (b)", 310),
    ]


def test_the_slowest_memory_is_judged_too():
    found = judge(
        network(), [("dram", 300), ("llc", 300)], 1.0, 1.0, np.array([[0, 0], [-1, 0], [0, 0]], np.int16)
    )
    assert {v.what for v in found} == {"dram overflows"}
    assert found[0].available == 300


def test_choices_out_of_range_dead_decisions_and_unplaced_tensors_are_named():
    assert verdict([[3, 0], [-1, 0], [0, 0]]) == [Violation("no such memory", "weight of a", 3, 2, "choice")]
    assert verdict([[0, 0], [0, 0], [0, 0]]) == [
        Violation("no tensor to place", "weight of b", 0, -1, "choice")
    ]
    assert verdict([[0, 0], [-1, 0], [0, -1]]) == [
        Violation("tensor not placed", "activation of c", 1, 0, "memory")
    ]


def test_sizes_are_rescaled_to_the_chips_element_widths_and_rounded_up():
    assert verdict([[0, 2], [-1, 2], [0, 2]], activation=0.5) == []
    assert verdict([[2, 2], [-1, 0], [0, 0]], weight=0.5, activation=1.0) == []
    shape = (1, 1, 1)
    odd = Workload("odd", (Op("a", "conv", (), shape, shape, 7),), ElementBytes(1.0, 2.0))
    memories = [("dram", 100), ("sram", 3)]
    found = judge(odd, memories, 1.0, 1.0, np.array([[-1, 1]], np.int16))
    assert [v.demanded for v in found] == [4]


def test_what_overflows_is_what_counting_every_tensor_at_every_step_finds():
    rng = np.random.default_rng(0)
    for _ in range(50):
        ops = []
        for i in range(12):
            sources = rng.choice(i, size=min(i, 2), replace=False).tolist()
            sizes = [int(size) for size in rng.integers(0, 40, 2)]
            inputs = tuple(Edge(f"op{j}", 0) for j in sources)
            ops.append(Op(f"op{i}", "conv", inputs, (1, 1, 1), (1, 1, 1), sizes[0], weight_bytes=sizes[1]))
        sizes = np.array([[op.weight_bytes, op.output_bytes] for op in ops])
        mapping = np.where(sizes > 0, rng.integers(0, 3, sizes.shape), -1).astype(np.int16)
        expected = []
        for memory, capacity in enumerate((10_000, 120, 90)):
            for step in range(12):
                held = sum(sizes[i, 0] for i in range(12) if mapping[i, 0] == memory)
                for i in range(step + 1):
                    read_later = any(e.source == f"op{i}" for op in ops[step:] for e in op.inputs)
                    if mapping[i, 1] == memory and (i == step or read_later):
                        held += sizes[i, 1]
                if held > capacity:
                    expected.append((memory, step, held))
        found = judge(Workload("net", tuple(ops)), [("0", 10_000), ("1", 120), ("2", 90)], 1.0, 1.0, mapping)
        steps = [(int(v.what.split()[0]), int(v.where.split()[1]), v.demanded) for v in found]
        assert steps == expected


def test_a_mapping_of_the_wrong_shape_is_a_programming_error():
    with pytest.raises(ValueError, match=r"mapping: expected shape \(3, 2\), received \(2, 2\)"):
        verdict([[0, 0], [0, 0]])
