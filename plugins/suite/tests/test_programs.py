"""Programs: the judge that plays the MMapGame against egrl's kernels, and their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from make_instances import program_document
from mmap_programs import GRANULE, chips, playable, programs
from test_suite import drawn

from egrl_suite import library, through_egrl
from egrl_suite.judge import Wrong
from egrl_suite.programs import ProgramJudge
from gate import gate
from hwsim.mmap.game import MmapGame
from hwsim.mmap.tables import build_tables

PROGRAMS = [one.name for one in library.instances(kinds=("program",))]


@pytest.mark.parametrize("name", gate(PROGRAMS, ("program:rnn_2@tpuv4i",)))
def test_the_judge_of_programs_plays_as_the_kernels_do(name):
    one, maps = library.find(name), drawn(library.find(name), 8, 3)
    problem = through_egrl.problem_of(one)
    found = problem.evaluate(maps, np.zeros(len(maps), np.uint64))
    assert not np.array_equal(found.repaired, maps)
    assert np.array_equal([one.judge.fitted(mapping) for mapping in maps], found.repaired)
    costs = through_egrl.costs_of(problem, found)
    np.testing.assert_allclose([one.judge.cost(mapping) for mapping in maps], costs, rtol=1e-9)
    with pytest.raises(Wrong, match="actions 0 to 2"):
        one.judge.cost(np.full_like(maps[0], 3))


@given(programs(), chips(), st.integers(0, 9999))
def test_drawn_programs_with_groups_and_dead_ends_are_played_as_the_kernels_do(program, chip, seed):
    assume(playable(program))
    game = MmapGame(build_tables(program, chip), GRANULE)
    rates = {"capacity_bytes": chip.cmem.capacity_bytes, "granule_bytes": GRANULE}
    rates |= {"hbm_Bps": chip.hbm.bandwidth_Bps, "peak_flops": chip.compute.peak_flops}
    rates |= {"read_Bps": chip.cmem.read_Bps, "write_Bps": chip.cmem.write_Bps}
    judge = ProgramJudge(program_document(program), rates)
    maps = np.random.default_rng(seed).integers(3, size=(4, len(program))).astype(np.int16)
    maps[:, judge.sizes[:, 0] == 0] = -1
    played = game.play(maps)
    for mapping, action, cost in zip(maps, played.action, played.cost_s, strict=True):
        mine = judge.play(mapping[:, None])
        event(f"dead ends: {bool(mine.dropped)}")
        assert mine.action == action.tolist()
        assert judge.cost(mapping[:, None]) == pytest.approx(cost, rel=1e-9)


@pytest.mark.parametrize("name", gate(PROGRAMS, ("program:rnn_2@tpuv4i",)))
def test_the_bound_of_a_program_is_proved_again(name):
    one = library.find(name)
    bound, _ = through_egrl.prove(name, 30.0)
    assert one.bound * (1 - 0.02) <= bound <= one.best_cost * (1 + 1e-9)


def test_the_judge_of_programs_can_be_read_at_once():
    text = (library.DATA.parent / "programs.py").read_text("utf-8")
    assert len(text.splitlines()) <= 215
