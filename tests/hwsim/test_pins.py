"""What pins say, and what is none."""

from __future__ import annotations

import numpy as np
import pytest

from hwsim.pins import Pins, pins_of
from workloads.errors import InputError

NODES = ("conv1", "conv1.b", "relu", "conv2")
HEADS = ("weight", "activation")
MEMORIES = ("dram", "llc", "sram")
LIVE = np.array([[1, 1], [1, 1], [0, 1], [1, 1]], np.bool_)


def pins(*texts: str, optional: tuple[str, ...] = ()) -> Pins | None:
    return pins_of(texts, NODES, HEADS, MEMORIES, LIVE, optional)


def test_no_pins_are_none_and_those_of_a_chip_file_may_name_what_is_not_there():
    assert pins() is None
    assert pins(optional=("embedding.weight=dram", "embedding.weight=conv1.weight")) is None


def test_patterns_name_tensors_a_node_names_all_of_its_own_and_free_bytes_add_up():
    found = pins("conv1*.weight=sram", "relu=llc", "sram.free=64KiB", optional=("sram.free=1",))
    assert found.fixed.tolist() == [[2, -1], [2, -1], [-1, 1], [-1, -1]]
    assert dict(found.free_bytes) == {"sram": 65537}
    kept = found.kept(np.zeros((3, 4, 2), np.int16))
    assert (kept == np.where(found.fixed >= 0, found.fixed, 0)).all()


def test_what_lies_together_lies_where_the_first_of_them_lies():
    found = pins("conv2.weight=conv1.weight", "conv1.b.activation=conv2.weight")
    mapping = np.array([[2, 0], [0, 1], [-1, 0], [0, 1]], np.int16)
    assert found.kept(mapping).tolist() == [[2, 0], [0, 2], [-1, 0], [2, 1]]
    assert found.together == [[0, 3, 6]]
    assert found.own.sum() == 6
    assert pins("conv2.weight=conv1.weight", "conv2.weight=llc").fixed[[0, 3], 0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["conv1"], "expected TENSOR=MEMORY, TENSOR=TENSOR or MEMORY.free=BYTES"),
        (
            ["conv3.weight=sram"],
            "pin 'conv3.weight=sram': expected a tensor of the network, found 'conv3.weight'; did",
        ),
        (["relu.weight=sram"], "found relu.weight, which has no bytes"),
        (["conv1.weight=srm"], "expected a memory or one tensor after '=', found 'srm'; did you mean sram"),
        (["conv1.weight=conv*.activation"], "expected a memory or one tensor after '=', found 3 tensors"),
        (
            ["conv1.weight=sram", "conv*.weight=llc"],
            "pin 'conv*.weight=llc': it contradicts 'conv1.weight=sram'",
        ),
        (
            ["conv1.weight=sram", "conv2.weight=llc", "conv1.weight=conv2.weight"],
            "it contradicts 'conv1.weight=sram'",
        ),
        (["sram.free=many"], "expected bytes, 65536 or 64KiB say, found 'many'"),
        (["sram.free=3 parsecs"], "found '3 parsecs'"),
    ],
)
def test_what_is_no_pin_is_one_line(texts, words):
    with pytest.raises(InputError) as caught:
        pins(*texts)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
