"""The judge of packings finds each kind of mistake, and nothing where there is none."""

from __future__ import annotations

import pytest

from hwsim.allocation.judge import judge
from hwsim.problem import Violation

BUFFERS = [("a", 10, 0, 2), ("b", 20, 1, 3), ("c", 5, 2, 4)]


def test_buffers_that_live_after_one_another_may_share_bytes():
    assert judge(BUFFERS, [0, 16, 0], 36, 8) == []


@pytest.mark.parametrize(
    ("offsets", "capacity", "align", "expected"),
    [
        ([0, 8, 0], 36, 8, ["buffers overlap at a and b: demanded 2 bytes, available 0 bytes"]),
        ([0, 16, 0], 35, 8, ["buffer sticks out at b: demanded 36 bytes, available 35 bytes"]),
        ([0, 12, 0], 36, 8, ["offset not aligned at b: demanded 12 bytes, available 8 bytes"]),
        ([-8, 16, 0], 36, 8, ["offset below the memory at a: demanded 0 bytes, available -8 bytes"]),
        ([0, 16, 16], 36, 8, ["buffers overlap at b and c: demanded 5 bytes, available 0 bytes"]),
    ],
)
def test_each_mistake_is_found(offsets, capacity, align, expected):
    assert [str(violation) for violation in judge(BUFFERS, offsets, capacity, align)] == expected


def test_every_pair_that_overlaps_is_named_in_order():
    buffers = [("a", 10, 0, 9), ("b", 4, 0, 9), ("c", 6, 5, 7), ("none", 0, 0, 9)]
    found = judge(buffers, [0, 6, 8, 9], 36, 1)
    assert [(violation.where, violation.demanded) for violation in found] == [
        ("a and b", 4), ("a and c", 2), ("b and c", 2)
    ]  # fmt: skip


def test_one_offset_a_buffer_is_expected():
    with pytest.raises(ValueError, match="expected 3, received 2"):
        judge(BUFFERS, [0, 16], 36, 8)


def test_what_a_violation_demands_is_told_to_the_last_byte():
    told = str(Violation("sram overflows", "step 3", 1_758_380, 1_048_576, "bytes"))
    assert told == "sram overflows at step 3: demanded 1758380 bytes, available 1048576 bytes"
