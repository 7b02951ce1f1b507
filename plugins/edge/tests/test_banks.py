"""Placements of tensors in banks: the cost, the judge, the proof, and what is said where nothing fits."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egrl_edge.banks.problem import Banks, BanksConfig, BanksProblem
from egrl_edge.executorch.plan_file import dumps
from hwsim.nnpi.chip import Chip, load_chip
from workloads.errors import InputError
from workloads.programs.program import Buffer, Instruction, Program, Tensor, check

SLOW, FAST = 0, 1


def chip(slow: int, fast: int) -> Chip:
    edge = load_chip("edge")
    sizes = (slow, fast)
    return replace(
        edge,
        memories=tuple(
            replace(memory, capacity_bytes=size) for memory, size in zip(edge.memories, sizes, strict=True)
        ),
    )


def chain(sizes: list[int], reads: list[int]) -> Program:
    """Instruction i writes tensor i, and reads tensor i - 1 - reads[i] where there is one."""
    buffers, last = [], list(range(len(sizes)))
    for i, size in enumerate(sizes):
        for source in {i - 1, i - 1 - reads[i]}:
            if source >= 0:
                buffers.append(Buffer(source, i, False, sizes[source]))
                last[source] = i
        buffers.append(Buffer(i, i, True, size))
    return check(
        Program(
            "chain",
            tuple(Instruction(f"i{i}", "add", 10) for i in range(len(sizes))),
            tuple(Tensor(f"t{i}", size, i, last[i]) for i, size in enumerate(sizes)),
            tuple(buffers),
        )
    )


def fits(program: Program, choices: tuple[int, ...], capacities: tuple[int, int]) -> bool:
    """The plain rule, on tensors of whole alignments."""
    for step in range(len(program.instructions)):
        for memory, capacity in enumerate(capacities):
            held = sum(
                t.size_bytes
                for t, choice in zip(program.tensors, choices, strict=True)
                if choice == memory and t.produced <= step <= t.last_use
            )
            if held > capacity:
                return False
    return True


@given(st.data())
def test_the_solution_is_the_best_of_all_that_fit_and_impossible_means_that_none_does(data):
    n = data.draw(st.integers(1, 6))
    sizes = [16 * data.draw(st.integers(1, 9)) for _ in range(n)]
    program = chain(sizes, [data.draw(st.integers(0, 3)) for _ in range(n)])
    capacities = (16 * data.draw(st.integers(1, 20)), 16 * data.draw(st.integers(1, 20)))
    on = chip(*capacities)
    rate = [memory.bandwidth_Bps for memory in on.memories]
    moved = [sum(b.traffic_bytes for b in program if b.tensor == t) for t in range(n)]
    allowed = [c for c in itertools.product((SLOW, FAST), repeat=n) if fits(program, c, capacities)]
    if not allowed:
        with pytest.raises(InputError, match="impossible, by proof"):
            BanksProblem(program, on)
        return
    problem = BanksProblem(program, on)
    solution = problem.solve(600, 0)
    best = min(sum(m / rate[c] for m, c in zip(moved, choices, strict=True)) for choices in allowed)
    assert solution.cost == pytest.approx(problem.tables.fixed_s + best)
    assert solution.bound.cost <= solution.cost * (1 + 1e-9)
    assert solution.bound.cost == pytest.approx(solution.cost, rel=1e-4)
    for choices in itertools.product((SLOW, FAST), repeat=n):
        mapping = np.array(choices, np.int16)[:, None]
        assert (problem.judge(mapping) == []) == fits(program, choices, capacities)


def test_a_placement_that_fits_comes_back_unchanged_and_another_is_made_to_fit():
    problem = BanksProblem(chain([160, 160, 160], [0, 0, 0]), chip(480, 160))
    good, bad = np.array([[FAST], [SLOW], [FAST]], np.int16), np.full((3, 1), FAST, np.int16)
    found = problem.evaluate(np.stack([good, bad]), np.zeros(2, np.uint64))
    assert (found.repaired[0] == good).all()
    assert found.epsilon.tolist() == [0.0, pytest.approx(1 / 3)]
    assert problem.judge(found.repaired[1]) == []
    assert [v.what for v in problem.judge(bad)] == ["sram overflows", "sram overflows"]


def test_a_pinned_tensor_takes_room_and_time_and_is_no_decision():
    program, on = chain([160, 160, 160], [0, 0, 0]), chip(480, 160)
    banks = Banks((480, 160), (16, 16), {"t1": FAST})
    problem = BanksProblem(program, on, banks=banks)
    assert problem.space.live[:, 0].tolist() == [True, False, True]
    assert problem.solve(600, 0).mapping[:, 0].tolist() == [SLOW, -1, SLOW]
    assert problem.moved_bytes(problem.baseline.mapping).tolist() == [160 * 3, 160 * 2]
    assert problem.judge(np.array([[FAST], [-1], [SLOW]], np.int16)) != []


def test_what_does_not_fit_is_said_with_tensors_banks_and_bytes():
    program = chain([160, 160, 160], [0, 0, 0])
    BanksProblem(program, chip(160, 160))
    with pytest.raises(InputError) as caught:
        BanksProblem(program, chip(159, 160))
    said = str(caught.value)
    assert "impossible, by proof" in said
    assert "t0 (160), t1 (160) need 320 bytes together, the banks have dram 159, sram 160" in said
    assert "\n" not in said
    with pytest.raises(InputError, match="t0 needs 160 bytes, the banks have dram 159, sram 100"):
        BanksProblem(program, chip(159, 100))


def test_tensors_that_fit_together_and_not_apart_are_said_to_be_so():
    # Of the three that live at once two must share a bank, and no bank has room for two.
    program = chain([160] * 4, [2, 2, 2, 2])
    with pytest.raises(
        InputError, match="480 bytes together, which no way to share them out over the banks fits"
    ):
        BanksProblem(program, chip(300, 300))


@given(st.data())
def test_in_a_written_plan_no_two_tensors_share_a_byte_at_a_step_and_each_fits_its_bank(data):
    """By sets of bytes and steps; a tensor may take the place of one that is used for the last time."""
    n = data.draw(st.integers(1, 8))
    program = chain(
        [data.draw(st.integers(0, 200)) for _ in range(n)], [data.draw(st.integers(0, 3)) for _ in range(n)]
    )
    ends = {
        tensor.last_use: number for number, tensor in enumerate(program.tensors) if tensor.last_use > number
    }
    in_place = (
        {i: ends[i] for i in data.draw(st.sets(st.sampled_from(sorted(ends)))) if ends[i] == i - 1}
        if ends
        else {}
    )
    of = list(range(n))
    for i, before in sorted(in_place.items()):
        of[i] = of[before]
    sizes = [program.tensors[of[i]].size_bytes for i in range(n)]
    shared = {i for i in range(n) if of.count(of[i]) > 1}
    program = check(
        replace(
            program,
            source="executorch",
            tensors=tuple(replace(t, size_bytes=s) for t, s in zip(program.tensors, sizes, strict=True)),
            buffers=tuple(
                replace(b, traffic_bytes=sizes[b.tensor], alias_id=of[b.tensor] if b.tensor in shared else -1)
                for b in program.buffers
            ),
        )
    )
    rooms = {"dram": data.draw(st.integers(1, 600)), "sram": data.draw(st.integers(1, 600))}
    align = data.draw(st.sampled_from([1, 3, 16]))
    try:
        problem = BanksProblem(program, chip(*rooms.values()), BanksConfig(align))
        rows = json.loads(dumps(problem, problem.baseline.mapping, 600.0, 0))["tensors"]
    except InputError:  # no placement fits, or does not pack
        return
    taken: set[tuple[str, int, int]] = set()
    for place in {of[i] for i in range(n) if sizes[i]}:
        (row,) = (row for row in rows if row["tensor"] == f"t{place}")
        lives = [t for t, own in zip(program.tensors, of, strict=True) if own == place]
        room = range(row["offset_bytes"], row["offset_bytes"] + sizes[place])
        steps = range(min(t.first for t in lives), max(t.last_use for t in lives) + 1)
        held = {(row["bank"], step, byte) for step in steps for byte in room}
        assert room.start % align == 0
        assert room.stop <= rooms[row["bank"]]
        assert not held & taken
        taken |= held
