"""The heuristic's layouts are sound, quick to make, and what the rules say in small cases."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, event, given
from mmap_programs import chips, playable, programs
from test_device import program as uses_of

import egrl
from hwsim.mmap.chip import Chip, Cmem, Compute, Hbm, load_chip
from hwsim.mmap.device import RUN_S, latency_parts_s, latency_s
from hwsim.mmap.heuristic.assignment import RATIOS, heuristic_layout
from hwsim.mmap.heuristic.room import best_fit, hold, new_room
from hwsim.mmap.judge import judge
from hwsim.mmap.problem import MmapProblem
from workloads.load import load_program
from workloads.programs.program import Buffer

DROP, COPY, NO_COPY = 0, 1, 2
CHIP = Chip("c", Cmem(64, 16, 4e9, 2e9), Hbm(1e9), Compute(1e9))


def laid_out(program, chip=CHIP, ratios=RATIOS):
    problem = MmapProblem(program, chip)
    return problem, heuristic_layout(program, problem.tables, chip.cmem.granule_bytes, ratios)


@pytest.mark.slow
@given(programs(max_steps=14), chips())
def test_its_layouts_are_accepted_and_its_projection_can_be_played(program, chip):
    assume(playable(program))
    problem, layout = laid_out(program, chip)
    assert judge(program, problem.rates, layout, pools=True) == []
    event(f"copies {min(3, int((layout.action == COPY).sum()))}")
    found = problem.evaluate(layout.action.astype(np.int16)[None, :, None], np.zeros(1, np.uint64))
    assert np.isfinite(found.cost[0])
    assert problem.judge(found.repaired[0]) == []


@pytest.mark.slow
@given(programs(max_steps=14), chips())
def test_an_alias_group_lies_in_fast_memory_wholly_or_not_at_all(program, chip):
    assume(playable(program))
    _, layout = laid_out(program, chip)
    for group in {use.alias_id for use in program.buffers} - {-1}:
        members = [n for n, use in enumerate(program.buffers) if use.alias_id == group]
        sized = [n for n in members if program.tensors[program.buffers[n].tensor].size_bytes]
        assert len({int(layout.offset_bytes[n]) for n in sized}) <= 1


def test_copies_overlap_where_the_game_allows_one_at_a_time():
    # Two inputs of step 6 of 32 bytes each, and 20 ns a step to copy them in: 1.5 times the copy's 32 ns are 3 steps.
    given = uses_of([(0, 6, 0), (1, 6, 0)], [20] * 6 + [0], [32, 32])
    problem, layout = laid_out(given)
    assert layout.action.tolist() == [COPY, COPY]
    assert judge(given, problem.rates, layout, pools=True) == []
    assert "copies at the same time" in {found.what for found in judge(given, problem.rates, layout)}


def test_a_late_copy_is_seen_by_the_judge():
    given = uses_of([(0, 2, 0), (1, 2, 0)], [50, 50, 0], [32, 32])
    problem, layout = laid_out(given)
    late = np.array([1, 1], np.int32)
    broken = replace(layout, first=late, copy_first=late)
    assert [found.what for found in judge(given, problem.rates, broken, pools=True)] == [
        "copy ends after its window"
    ]


def test_a_value_is_kept_from_use_to_use_without_a_copy():
    given = uses_of([(0, 0, 1), (0, 1, 0), (0, 3, 0)], [0, 0, 50, 0], [32])
    assert laid_out(given)[1].action.tolist() == [NO_COPY, NO_COPY, NO_COPY]


def test_a_value_that_matters_more_for_its_size_takes_the_room():
    # Both are read at step 1 and only one fits; t1 is as large but read twice over.
    given = uses_of([(0, 1, 0), (1, 1, 0)], [200, 0], [64, 64])
    twice = replace(given, buffers=(given.buffers[0], replace(given.buffers[1], traffic_bytes=128)))
    assert laid_out(twice)[1].action.tolist() == [DROP, COPY]
    other = replace(given, buffers=(replace(given.buffers[0], traffic_bytes=128), given.buffers[1]))
    assert laid_out(other)[1].action.tolist() == [COPY, DROP]


def test_a_result_is_evicted_after_it_was_written():
    given = uses_of([(0, 0, 1), (0, 1, 0)], [0, 0, 100, 0], [32], leaves=(0,))
    layout = laid_out(given)[1]
    assert layout.action.tolist() == [COPY, NO_COPY]
    assert (layout.copy_first[0], layout.copy_last[0]) == (1, 2)


def test_a_use_that_gains_nothing_is_not_prefetched():
    given = uses_of([(0, 1, 0)], [100, 100], [32])
    assert laid_out(given)[1].action.tolist() == [DROP]


def test_the_smallest_gap_that_fits_is_taken():
    room = new_room(4, capacity=20)
    for offset, size, first, last in ((10, 3, 4, 9), (3, 2, 0, 9), (16, 2, 2, 5), (8, 1, 6, 6)):
        hold(room, first, last, offset, size, -1)
    # In steps 3 to 5 these gaps are free: [0, 3), [5, 10), [13, 16), [18, 20); [8, 9) is taken in step 6 only.
    assert [best_fit(room, 3, 5, size, -1, -1) for size in (1, 2, 3, 4, 5, 6)] == [18, 18, 0, 5, 5, -1]
    assert [best_fit(room, 3, 6, size, -1, -1) for size in (1, 4)] == [9, -1]
    assert best_fit(room, 7, 9, 7, -1, -1) == 13


def test_room_that_is_left_is_used_again():
    sizes = [16, 16, 32, 32]
    uses = [(0, 0, 1), (1, 0, 1), (2, 0, 1), (2, 1, 0), (3, 2, 1), (0, 3, 0), (1, 3, 0), (3, 3, 0)]
    given = uses_of(uses, [0, 0, 0, 0], sizes)
    chip = replace(CHIP, cmem=replace(CHIP.cmem, capacity_bytes=64))
    layout = laid_out(given, chip)[1]
    assert (layout.action == NO_COPY).all()
    assert layout.offset_bytes[4] == layout.offset_bytes[2]


def test_the_window_is_about_as_long_as_was_preferred():
    given = uses_of([(0, 9, 0)], [16] * 9 + [0], [32])
    assert laid_out(given)[1].copy_first[0] == 6, "3 steps of 16 ns are 1.5 times the copy's 32 ns"
    wider = RATIOS._replace(preferred=3.0)
    assert laid_out(given, ratios=wider)[1].copy_first[0] == 3


@pytest.mark.slow
def test_ten_thousand_buffers_take_a_few_seconds():
    program, chip = load_program("tensor2tensor_transformer_bf16"), load_chip("tpuv4i")
    laid_out(load_program("rnn_3"), chip)
    problem = MmapProblem(program, chip)
    start = time.process_time()
    layout = heuristic_layout(program, problem.tables, chip.cmem.granule_bytes)
    assert time.process_time() - start < 10  # a tenth; what is quadratic takes minutes
    assert latency_s(problem.tables, layout) < problem.tables.none_s


def test_more_fast_memory_helps_shipped_programs():
    chip = load_chip("tpuv4i")
    for name in ("alexnet_train_batch_32", "rnn_6", "gpt_decode_step"):
        run, latency = [], []
        for mib in (1, 16, 128):
            sized = replace(chip, cmem=replace(chip.cmem, capacity_bytes=mib * 2**20))
            problem, layout = laid_out(load_program(name), sized)
            assert judge(problem.program, problem.rates, layout, pools=True) == []
            run.append(latency_parts_s(problem.tables, layout)[RUN_S])
            latency.append(latency_s(problem.tables, layout))
        assert run[0] > run[1] > run[2]
        assert latency[0] > latency[2]


def test_members_of_an_alias_group_share_their_place():
    given = uses_of([(0, 1, 0), (1, 1, 1), (1, 2, 0)], [200, 0, 0], [32, 32])
    tied = replace(
        given, buffers=tuple(replace(b, alias_id=3) if n < 2 else b for n, b in enumerate(given.buffers))
    )
    layout = laid_out(tied)[1]
    assert layout.action.tolist() == [COPY, NO_COPY, NO_COPY]
    assert len(set(layout.offset_bytes.tolist())) == 1
    assert isinstance(tied.buffers[0], Buffer)


def test_a_run_keeps_the_heuristics_own_layout_in_a_file_of_its_own(tmp_path):
    given = {"problem": "mmap", "method": "random", "start": "cold", "gens": 1, "bound_seconds": 0.0}
    result = egrl.search("alexnet_train_batch_32", out=tmp_path / "r", **given)
    document = json.loads((tmp_path / "r" / "baseline_layout.json").read_text())
    problem = result.problem
    assert (document["kind"], document["cost"]) == ("layout", problem.baseline.cost)
    assert [row["node"] for row in document["layout"]] == list(problem.space.nodes)
    held = [row["place"]["offset_bytes"] for row in document["layout"] if "place" in row]
    assert held == [offset for offset in problem.own_layout.offset_bytes.tolist() if offset >= 0]
    assert len(held) > 10
