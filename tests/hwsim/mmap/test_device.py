"""The simulated device equals its plain twin, and costs what can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from device_twin import latency, played
from hypothesis import assume, event, given
from hypothesis import strategies as st
from mmap_programs import GRANULE, chips, playable, programs

from hwsim.mmap.chip import Chip, Cmem, Compute, Hbm
from hwsim.mmap.device import CONTENTION_S, WAIT_S, latency_parts_s, latency_s
from hwsim.mmap.game import MmapGame
from hwsim.mmap.heuristic.assignment import heuristic_layout
from hwsim.mmap.layout import Layout
from hwsim.mmap.tables import build_tables
from workloads.programs.program import NO_ALIAS, Buffer, Instruction, Program, Tensor

DROP, COPY, NO_COPY = 0, 1, 2
CHIP = Chip("c", Cmem(256, 16, 4e9, 2e9), Hbm(1e9), Compute(1e9))
"""A byte takes 1 ns from or to HBM, a quarter of that to read and half to write in fast memory; an operation 1 ns."""


@pytest.mark.slow
@given(programs(max_steps=12), chips(), st.booleans(), st.data())
def test_the_device_equals_its_twin_to_the_last_bit(program, chip, own, data):
    assume(playable(program))
    tables = build_tables(program, chip)
    wishes = data.draw(
        st.lists(st.sampled_from((0, 1, 1, 2, 2)), min_size=len(program), max_size=len(program))
    )
    game = MmapGame(tables, GRANULE)
    played = game.layout_of(np.array(wishes, np.int16))
    layout = played if own else heuristic_layout(program, tables, GRANULE)
    found = latency_s(tables, layout)
    assert found == latency(program, chip, layout)
    parts = latency_parts_s(tables, layout)
    event(f"contention {parts[CONTENTION_S] > 0}, waiting {parts[WAIT_S] > 0}")
    assert (parts >= 0).all()
    np.testing.assert_allclose(parts.sum(), found, rtol=1e-12)


@given(programs(max_steps=12), chips(), st.data())
def test_a_layout_costs_at_least_its_instructions_and_exactly_that_where_nothing_is_copied(
    program, chip, data
):
    assume(playable(program))
    tables = build_tables(program, chip)
    wishes = data.draw(
        st.lists(st.sampled_from((0, 0, 1, 2, 2)), min_size=len(program), max_size=len(program))
    )
    game = MmapGame(tables, GRANULE)
    proposal = np.array(wishes, np.int16)
    layout, cost = game.layout_of(proposal), game.play(proposal[None]).cost_s[0]
    assert latency_s(tables, layout) >= cost
    held = {
        use.tensor
        for n, use in enumerate(program.buffers)
        if use.is_output and layout.action[n] in (COPY, NO_COPY)
    }
    read = {
        use.tensor for n, use in enumerate(program.buffers) if not use.is_output and layout.action[n] == DROP
    }
    if not (layout.action == COPY).any() and not held & read:
        assert latency_s(tables, layout) == cost
    nothing = game.layout_of(np.where(layout.action < 0, -1, 0).astype(np.int16))
    assert latency_s(tables, nothing) == tables.none_s


@given(programs(max_steps=12), chips(), st.booleans(), st.data())
def test_nothing_is_read_before_it_is_there_nor_overwritten_before_it_is_read(program, chip, own, data):
    assume(playable(program))
    tables = build_tables(program, chip)
    wishes = data.draw(st.lists(st.sampled_from((0, 1, 2)), min_size=len(program), max_size=len(program)))
    layout = (
        MmapGame(tables, GRANULE).layout_of(np.array(wishes, np.int16))
        if own
        else heuristic_layout(program, tables, GRANULE)
    )
    check_accesses(program, chip, layout)


@given(programs(max_steps=12), chips(), st.data())
def test_each_instruction_takes_its_time_and_what_it_waits_for(program, chip, data):
    assume(playable(program))
    game = MmapGame(build_tables(program, chip), GRANULE)
    wishes = data.draw(st.lists(st.sampled_from((0, 1, 2)), min_size=len(program), max_size=len(program)))
    found = game.play(np.array([wishes], np.int16))
    total, _, ran = played(program, chip, game.layout_of(np.array(wishes, np.int16)))
    ends = np.array([0.0, *(end for _, end in ran), total])
    np.testing.assert_allclose(found.took_s[0], np.diff(ends), rtol=1e-5, atol=1e-7 * total)


def check_accesses(program: Program, chip: Chip, layout: Layout) -> None:
    """Against the twin's times of copies and instructions."""
    total, copies, ran = played(program, chip, layout)
    slack = 1e-9 * total
    held = []
    for n, use in enumerate(program.buffers):
        tensor = program.tensors[use.tensor]
        source = [m for m, b in enumerate(program.buffers) if b.tensor == use.tensor and b.is_output]
        if n in copies and not use.is_output:
            assert copies[n].done_s <= ran[use.instruction][0] + slack
        from_hbm = layout.action[n] == DROP or (layout.action[n] == COPY and not use.is_output)
        if from_hbm and not use.is_output and source and layout.action[source[0]] in (COPY, NO_COPY):
            read_s = copies[n].queued_s if layout.action[n] == COPY else ran[use.instruction][0]
            assert copies[source[0]].done_s <= read_s + slack
        if layout.first[n] < 0:
            continue
        first, last = int(layout.first[n]), int(layout.last[n])
        begins = copies[n].queued_s if n in copies and not use.is_output else ran[first][0]
        inside = [
            b.instruction
            for m, b in enumerate(program.buffers)
            if b.tensor == use.tensor and layout.action[m] == NO_COPY and first <= b.instruction <= last
        ]
        ends = max(ran[step][1] for step in [use.instruction, *inside])
        ends = max(ends, copies[n].done_s) if n in copies else ends
        low = int(layout.offset_bytes[n])
        held.append((low, low + tensor.size_bytes, first, last, begins, ends))
    for low, high, _, last, _, ends in held:
        for other_low, other_high, first, _, begins, _ in held:
            if low < other_high and other_low < high and last < first:
                assert ends <= begins + slack


def test_a_place_is_written_again_only_when_its_copy_out_is_done():
    # The copy out of t0 is late by 4 ns (as in a test below), and t2 takes its place in step 2.
    uses = [(0, 0, 1), (1, 1, 0), (2, 2, 1), (2, 3, 0)]
    given = program(uses, [0, 100, 50, 0], [64, 60, 64], leaves=(0,))
    chip = replace(CHIP, cmem=replace(CHIP.cmem, capacity_bytes=64))
    layout = MmapGame(build_tables(given, chip), 16).layout_of(
        np.array([COPY, DROP, NO_COPY, NO_COPY], np.int16)
    )
    assert layout.offset_bytes[0] == layout.offset_bytes[2] == 0
    check_accesses(given, chip, layout)


def program(uses, flops, sizes, leaves=()) -> Program:
    """Uses are (tensor, step, is_output); what is never written is there at the start."""
    written = {t: i for t, i, out in uses if out}
    tensors = tuple(
        Tensor(
            f"t{t}",
            size,
            written.get(t, -1),
            max([i for u, i, out in uses if u == t and not out], default=written.get(t, 0)),
            t in leaves,
        )
        for t, size in enumerate(sizes)
    )
    buffers = tuple(Buffer(t, i, bool(out), sizes[t], NO_ALIAS) for t, i, out in uses)
    return Program("p", tuple(Instruction(f"i{k}", "dot", f) for k, f in enumerate(flops)), tensors, buffers)


def parts_ns(given: Program, wishes, chip: Chip = CHIP) -> list[float]:
    tables = build_tables(given, chip)
    layout = MmapGame(tables, 16).layout_of(np.array(wishes, np.int16))
    assert layout.action.tolist() == wishes
    return (latency_parts_s(tables, layout) * 1e9).tolist()


def test_a_copy_beside_arithmetic_is_free():
    assert parts_ns(program([(0, 1, 0)], [100, 10], [64]), [COPY]) == pytest.approx([100 + 16, 0, 0])


def test_a_copy_beside_an_instruction_that_reads_hbm_gets_half_and_slows_it_down():
    # Step 0 moves 96 bytes in 96 ns; beside it the copy of 64 bytes takes 128 ns at half the bandwidth: step 0 has
    # 64 ns of its own traffic done by then, and 32 ns are left: 160 ns in all.
    given = program([(1, 0, 0), (0, 1, 0)], [96, 0], [64, 96])
    assert parts_ns(given, [DROP, COPY]) == pytest.approx([96 + 16, 64, 0])


def test_an_instruction_that_wants_less_than_its_share_is_not_slowed_down():
    # 40 of 100 ns are traffic, so that 60 % of HBM is left for a copy of 64 bytes: 60 in time, 4 are waited for.
    given = program([(1, 0, 0), (0, 1, 0)], [100, 0], [64, 40])
    assert parts_ns(given, [DROP, COPY]) == pytest.approx([100 + 16, 0, 4])


def test_what_is_kept_in_fast_memory_and_read_from_hbm_is_written_back():
    # Written at step 0 (96 bytes, 48 ns), read from HBM at step 2 (96 ns); 60 ns of step 1 hide some of the 96.
    given = program([(0, 0, 1), (0, 2, 0)], [0, 60, 0], [96])
    assert parts_ns(given, [NO_COPY, DROP]) == pytest.approx([48 + 60 + 96, 0, 36])
    assert parts_ns(given, [NO_COPY, NO_COPY]) == pytest.approx([48 + 60 + 24, 0, 0])


def test_the_step_after_the_window_of_a_copy_out_waits_for_it():
    # 64 bytes are written at step 0 and copied out during step 1, which wants 60 % of HBM and gets half: both need
    # 128 ns for 64 bytes, but step 1 is done after 120 ns; 4 bytes are left when step 2 is to begin.
    given = program([(0, 0, 1), (1, 1, 0)], [0, 100, 50], [64, 60], leaves=(0,))
    assert parts_ns(given, [COPY, DROP]) == pytest.approx([32 + 100 + 50, 20, 4])


def test_the_program_ends_with_its_last_copy():
    given = program([(0, 0, 1), (1, 1, 0)], [0, 100], [64, 60], leaves=(0,))
    assert parts_ns(given, [COPY, DROP]) == pytest.approx([32 + 100, 20, 4])


def test_a_copy_out_whose_tensor_is_read_from_hbm_before_its_window_is_queued_by_then():
    # The window of t1 is put to step 3, but step 2 reads t1 from HBM: its copy is queued by then, and waited for.
    uses = [(0, 0, 1), (1, 1, 1), (1, 2, 0)]
    given = program(uses, [0, 0, 0, 0], [64, 32], leaves=(0,))
    tables = build_tables(given, CHIP)
    layout = MmapGame(tables, 16).layout_of(np.array([COPY, COPY, DROP], np.int16))
    late = replace(layout, copy_first=layout.copy_first.copy(), copy_last=layout.copy_last.copy())
    late.copy_first[1], late.copy_last[1] = 3, 3
    _, copies, ran = played(given, CHIP, late)
    assert copies[1].queued_s <= copies[1].done_s <= ran[2][0]
    assert latency_s(tables, late) == latency(given, CHIP, late)
