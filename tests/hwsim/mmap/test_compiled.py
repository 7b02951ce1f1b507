"""A compiler's placement as the baseline of the game, and its cycles as prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from mmap_programs import chips, playable, programs

from egrl.problems import build_problem, own_baseline
from hwsim.mmap.chip import Chip, Cmem, Compute, Hbm
from hwsim.mmap.compiled import compiled_layout, priced_by_compiler
from hwsim.mmap.device import latency_by_step_s, latency_s
from hwsim.mmap.judge import judge
from hwsim.mmap.problem import MmapConfig, MmapProblem
from workloads.errors import InputError, Notice
from workloads.programs.compiled import Compiled, Estimate, Placed
from workloads.programs.program import Buffer, Instruction, Program, Tensor

CHIP = Chip("c", Cmem(64, 16, 4e9, 4e9), Hbm(1e9), Compute(1e9, clock_Hz=1e9))
ESTIMATES = tuple(Estimate(cycles, 0) for cycles in (100, 0, 200))


def program(placed: tuple[Placed, ...], estimates: tuple[Estimate, ...] = ESTIMATES) -> Program:
    """Three instructions: x is written, waited beside, and read together with a weight w."""
    return Program(
        "three",
        (Instruction("a", "any", 10), Instruction("b", "any", 50), Instruction("c", "any", 10)),
        (Tensor("w", 16, -1, 2), Tensor("x", 16, 0, 2), Tensor("y", 16, 1, 1), Tensor("z", 16, 2, 2, True)),
        (
            Buffer(1, 0, True, 16),
            Buffer(2, 1, True, 16),
            Buffer(0, 2, False, 16),
            Buffer(1, 2, False, 16),
            Buffer(3, 2, True, 16),
        ),
        compiled=Compiled("xla", estimates, placed),
    )


KEPT = (Placed(2), Placed(0), Placed(1, 0, 1), Placed(2), Placed(0))


def test_a_placement_has_the_intervals_that_its_copies_and_uses_give():
    layout = compiled_layout(program(KEPT), program(KEPT).compiled, 64, 16)
    assert layout.action.tolist() == [2, 0, 1, 2, 0]
    assert list(zip(layout.first, layout.last, strict=True)) == [(0, 2), (-1, -1), (0, 2), (-1, -1), (-1, -1)]
    assert list(zip(layout.copy_first, layout.copy_last, strict=True))[2] == (0, 1)
    assert sorted(layout.offset_bytes[[0, 2]].tolist()) == [0, 16]
    assert layout.offset_bytes[3] == layout.offset_bytes[0]
    problem = MmapProblem(program(KEPT), CHIP)
    assert problem.baseline_broken() == []
    assert (problem.about.baseline_name, problem.baseline.name) == ("xla's placement", "xla")
    assert problem.baseline.cost == latency_s(problem.tables, problem.own_layout)


def test_an_output_that_is_copied_out_stays_for_later_uses():
    placed = (Placed(1, 1, 1), Placed(0), Placed(0), Placed(2), Placed(0))
    layout = compiled_layout(program(placed), program(placed).compiled, 64, 16)
    assert (layout.first[[0, 3]].tolist(), layout.last[[0, 3]].tolist()) == ([0, 2], [1, 2])
    assert MmapProblem(program(placed), CHIP).baseline_broken() == []


@pytest.mark.parametrize(
    ("placed", "rule"),
    [
        ((Placed(0), Placed(0), Placed(0), Placed(2), Placed(0)), "the tensor does not lie there already"),
        (
            (Placed(0), Placed(0), Placed(1, 2, 2), Placed(0), Placed(0)),
            "copy does not end before the instruction",
        ),
        ((Placed(0), Placed(0), Placed(1, 1, 0), Placed(0), Placed(0)), "copy window is empty"),
        ((Placed(0), Placed(0), Placed(0), Placed(0), Placed(2)), "a result is kept in fast memory only"),
    ],
)
def test_a_rule_that_the_compiler_breaks_is_named(placed, rule):
    assert MmapProblem(program(placed), CHIP).baseline_broken()[0].what == rule
    with pytest.warns(Notice, match=f"xla's placement breaks rules of the game: {rule}"):
        MmapProblem(program(placed), CHIP, MmapConfig(baseline="xla"))


@given(programs(max_steps=12), chips(), st.data())
def test_what_the_game_places_comes_back_with_its_intervals(program, chip, data):
    assume(playable(program))
    problem = MmapProblem(program, chip)
    wishes = st.lists(st.sampled_from((0, 1, 2, 2)), min_size=len(program), max_size=len(program))
    layout = problem.layout(np.array(data.draw(wishes), np.int16)[:, None])
    rows = zip(layout.action.tolist(), layout.copy_first.tolist(), layout.copy_last.tolist(), strict=True)
    placed = tuple(Placed(max(action, 0), first, last) for action, first, last in rows)
    compiled = Compiled("game", tuple(Estimate(0, 0) for _ in program.instructions), placed)
    found = compiled_layout(program, compiled, chip.cmem.capacity_bytes, chip.cmem.granule_bytes)
    for part in ("action", "first", "last", "copy_first", "copy_last"):
        np.testing.assert_array_equal(getattr(found, part), getattr(layout, part))
    rules = {
        each.what for each in judge(program, problem.rates, replace(found, copy_use_s=layout.copy_use_s))
    }
    event(f"{rules or 'valid'}")
    assert rules <= {"beyond fast memory"}  # another packing, which may not be found


def test_an_address_that_aliases_share_has_room_for_the_largest_of_them():
    one, other = Buffer(0, 0, True, 1, alias_id=0), Buffer(1, 1, True, 40, alias_id=0)
    aliased = Program(
        "aliased",
        (Instruction("a", "any", 0), Instruction("b", "any", 0)),
        (Tensor("x", 1, 0, 0), Tensor("y", 40, 1, 1), Tensor("z", 16, 0, 1)),
        (one, Buffer(2, 0, True, 16), other, Buffer(2, 1, False, 16)),
    )
    placed = Compiled("xla", ESTIMATES[:2], (Placed(2), Placed(2), Placed(2), Placed(2)))
    x, z, y, _ = compiled_layout(aliased, placed, 64, 16).offset_bytes.tolist()
    assert x == y
    assert z + 16 <= y or y + 40 <= z


def test_speedups_are_over_the_placement_that_is_asked_for():
    given = program(KEPT)
    own, heuristic = MmapProblem(given, CHIP), MmapProblem(given, CHIP, MmapConfig(baseline="heuristic"))
    assert heuristic.baseline.name == "heuristic"
    plain = MmapProblem(replace(given, compiled=None), CHIP)
    assert heuristic.baseline.cost == plain.baseline.cost
    assert own.fingerprint() != heuristic.fingerprint() != plain.fingerprint()
    named = build_problem("mmap", given, CHIP, MmapConfig(), "heuristic")
    assert named.baseline.name == "heuristic"
    assert own_baseline(MmapConfig(), "xla") == (MmapConfig(baseline="xla"), "")
    assert own_baseline(MmapConfig(), "some.csv") == (MmapConfig(), "some.csv")
    assert own_baseline(None, "xla") == (None, "xla")


def test_arithmetic_takes_the_compilers_cycles_where_it_states_them():
    given = program(KEPT)
    priced = priced_by_compiler(given, 1e9, 2e9)
    assert [each.flops for each in priced.instructions] == [200, 50, 400]
    problem = MmapProblem(given, CHIP, MmapConfig(price="compiler"))
    # 100 cycles of 1 ns; 50 operations of 1 ns; 200 cycles. No traffic takes longer, and no copy is waited for.
    assert latency_by_step_s(problem.tables, problem.own_layout).tolist() == pytest.approx(
        [1e-7, 5e-8, 2e-7, 0]
    )
    assert problem.files() == MmapProblem(given, CHIP).files()


def test_what_the_compiler_keeps_for_the_inside_of_instructions_is_not_there():
    scratch = tuple(Estimate(1, size) for size in (0, 20, 4))
    problem = MmapProblem(program(KEPT, scratch), CHIP)
    assert problem.placed_in() == ("CMEM", 32)
    with pytest.raises(InputError, match="expected less than 64 bytes of fast memory for the inside"):
        MmapProblem(program(KEPT, (Estimate(1, 64), *scratch[1:])), CHIP)


@pytest.mark.parametrize("config", [MmapConfig(baseline="xla"), MmapConfig(price="compiler")])
def test_a_program_without_its_compilers_placement_is_refused_in_one_line(config):
    with pytest.raises(InputError, match="expected a program with what its compiler decided"):
        MmapProblem(replace(program(KEPT), compiled=None), CHIP, config)


def test_a_chip_without_a_clock_has_no_time_for_cycles():
    chip = replace(CHIP, compute=Compute(1e9))
    with pytest.raises(InputError, match=r"expected a chip with compute\.clock_Hz, found 'c' without"):
        MmapProblem(program(KEPT), chip, MmapConfig(price="compiler"))
