"""The judge accepts what the game leaves and sees every constraint broken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mmap_programs import chips, playable, programs

from hwsim.mmap.chip import Chip, Cmem, Compute, Hbm
from hwsim.mmap.judge import judge
from hwsim.mmap.problem import MmapConfig, MmapProblem
from workloads.programs.program import NO_ALIAS, Buffer, Instruction, Program, Tensor

DROP, COPY, NO_COPY = 0, 1, 2


@given(programs(max_steps=12), chips(), st.booleans(), st.data())
def test_every_layout_that_the_game_leaves_is_accepted(program, chip, literal, data):
    assume(playable(program))
    problem = MmapProblem(program, chip, MmapConfig(literal_copies=literal))
    wishes = data.draw(
        st.lists(st.sampled_from((0, 1, 1, 2, 2)), min_size=len(program), max_size=len(program))
    )
    assert problem.judge(np.array(wishes, np.int16)[:, None]) == []


def problem(literal: bool = False) -> MmapProblem:
    """6 steps of 100 ns each; copies of 48 and 64 bytes take 48 and 64 ns."""
    tensors = [
        Tensor("w0", 48, -1, 5),
        Tensor("w1", 64, -1, 4),
        Tensor("a", 32, 1, 4),
        Tensor("b", 32, 2, 3, leaves=True),
        Tensor("state", 16, -1, 2),
        Tensor("next", 16, 2, 5),
        Tensor("token", 0, 1, 3),
    ]
    uses = [
        (0, 1, 0),
        (2, 1, 1),
        (6, 1, 1),
        (4, 2, 0),
        (3, 2, 1),
        (5, 2, 1),
        (1, 3, 0),
        (2, 4, 0),
        (5, 5, 0),
        (0, 5, 0),
    ]
    buffers = [
        Buffer(t, i, bool(out), tensors[t].size_bytes, 3 if t in (4, 5) else NO_ALIAS) for t, i, out in uses
    ]
    program = Program(
        "p", tuple(Instruction(f"i{k}", "dot", 100) for k in range(6)), tuple(tensors), tuple(buffers)
    )
    chip = Chip("c", Cmem(256, 16, 3e9, 2e9), Hbm(1e9), Compute(1e9))
    return MmapProblem(program, chip, MmapConfig(literal_copies=literal))


W0, A, TOKEN, STATE, B, NEXT, W1, A_AGAIN, NEXT_AGAIN, W0_AGAIN = range(10)
WISHES = np.array([COPY, NO_COPY, -1, COPY, COPY, NO_COPY, COPY, NO_COPY, NO_COPY, COPY], np.int16)
DAMAGE = {
    "undecided": ("decision for a buffer without a size, or none for one with", {"action": {A: -1}}),
    "a token placed": ("decision for a buffer without a size, or none for one with", {"action": {TOKEN: 0}}),
    "dropped at an offset": ("place in fast memory though not put there", {"action": {B: DROP}}),
    "between granules": ("offset is no whole granule", {"offset_bytes": {W1: 8}}),
    "no offset": ("offset is no whole granule", {"offset_bytes": {W1: -1}}),
    "too high": ("beyond fast memory", {"offset_bytes": {W1: 240}}),
    "a late window": ("copy does not end before the instruction", {"copy_last": {W1: 3}}),
    "an empty window": ("copy window is empty", {"copy_last": {W1: 1}}),
    "a short interval": ("interval is not from the copy's start to the instruction", {"first": {W1: 3}}),
    "a short output": ("interval is not from the instruction to the copy's end", {"last": {B: 2}}),
    "an early output": ("copy does not begin after the instruction", {"copy_first": {B: 2}}),
    "past the end": ("copy ends after the program", {"copy_last": {B: 6}, "last": {B: 6}}),
    "a window of a NoCopy": ("copy window of a NoCopy", {"copy_first": {A: 2}, "copy_last": {A: 2}}),
    "half a live range": ("interval is not the live range", {"last": {A: 3}}),
    "a result kept": (
        "a result is kept in fast memory only",
        {"action": {B: NO_COPY}, "copy_first": {B: -1}, "copy_last": {B: -1}},
    ),
    "moved between uses": ("the tensor does not lie there already", {"offset_bytes": {A_AGAIN: 224}}),
    "an interval too long": (
        "interval does not end at the instruction",
        {"first": {A_AGAIN: 4}, "last": {A_AGAIN: 5}},
    ),
    "a group apart": ("alias group 3 is apart", {"offset_bytes": {NEXT: 224, NEXT_AGAIN: 224}}),
    "at the same place": ("two buffers at the same place and time", {"offset_bytes": {W1: 0}}),
}


def damaged(layout, changes):
    columns = {}
    for name, values in changes.items():
        column = getattr(layout, name).copy()
        for at, value in values.items():
            column[at] = value
        columns[name] = column
    return replace(layout, **columns)


def verdict(subject: MmapProblem, layout) -> set[str]:
    literal = subject.config.literal_copies
    return {violation.what for violation in judge(subject.program, subject.rates, layout, literal)}


@pytest.mark.parametrize("damage", DAMAGE)
def test_each_broken_rule_of_a_buffer_is_seen(damage):
    subject = problem()
    layout = subject.layout(WISHES[:, None])
    assert layout.action.tolist() == WISHES.tolist()
    assert verdict(subject, layout) == set()
    expected, changes = DAMAGE[damage]
    assert expected in verdict(subject, damaged(layout, changes))


def test_copies_at_the_same_time_are_seen():
    subject = problem()
    layout = subject.layout(WISHES[:, None])
    wide = damaged(
        layout,
        {
            "first": {W1: 0, W0_AGAIN: 0},
            "copy_first": {W1: 0, W0_AGAIN: 0},
            "copy_last": {W1: 1, W0_AGAIN: 1},
        },
    )
    assert "copies at the same time" in verdict(subject, wide)


def test_a_copy_before_its_tensor_is_in_hbm_is_seen():
    subject = problem()
    wishes = WISHES.copy()
    wishes[[A, A_AGAIN]] = DROP, COPY
    layout = subject.layout(wishes[:, None])
    assert layout.action[A_AGAIN] == COPY
    early = damaged(layout, {"first": {A_AGAIN: 1}, "copy_first": {A_AGAIN: 1}})
    assert "copy before the tensor is in HBM" in verdict(subject, early)


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (0.5, "window is too short for its copy"),
        (-1.0, "copies take longer than the step"),
        (100.0, "copies take longer than the step"),
        (1.2, "more is taken than is copied"),
    ],
)
def test_a_wrong_use_of_the_supply_is_seen(factor, expected):
    subject = problem()
    layout = subject.layout(WISHES[:, None])
    assert layout.copy_use_s.sum() > 0
    assert expected in verdict(subject, replace(layout, copy_use_s=layout.copy_use_s * factor))


def test_with_literal_copies_a_window_must_touch_its_instruction():
    subject = problem(literal=True)
    layout = subject.layout(WISHES[:, None])
    assert verdict(subject, layout) == set()
    apart = damaged(layout, {"first": {W0_AGAIN: 0}, "copy_first": {W0_AGAIN: 0}, "copy_last": {W0_AGAIN: 0}})
    assert "copy does not end before the instruction" in verdict(subject, apart)
    assert "copy does not end before the instruction" not in verdict(problem(), apart)


def test_a_layout_of_another_program_is_refused():
    subject = problem()
    layout = subject.layout(WISHES[:, None])
    with pytest.raises(ValueError, match="expected 10 buffers and 6 steps, received 9 and 6"):
        judge(subject.program, subject.rates, replace(layout, action=layout.action[1:]))
