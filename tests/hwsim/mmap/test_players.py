"""The simple players play legal games, and well enough to be worth beating."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mmap_programs import GRANULE, chips, playable, programs
from test_device import CHIP
from test_device import program as uses_of

from hwsim.mmap.chip import load_chip
from hwsim.mmap.game import MmapGame
from hwsim.mmap.players import best_greedy, greedy
from hwsim.mmap.problem import MmapProblem
from hwsim.mmap.tables import build_tables
from workloads.load import load_program

DROP, COPY, NO_COPY = 0, 1, 2


@given(programs(max_steps=12), chips(), st.booleans(), st.sampled_from((0.0, 0.3, 2.0)))
def test_what_the_greedy_player_plays_is_legal(program, chip, drop_backup, price):
    assume(playable(program))
    game = MmapGame(build_tables(program, chip, drop_backup=drop_backup), GRANULE)
    action = greedy(game, price, price)
    played = game.play(action[None])
    if not np.isnan(played.cost_s[0]):
        np.testing.assert_array_equal(played.action[0], action)
        assert played.resets[0] == 0


def test_room_goes_to_what_saves_more_for_the_time_that_it_is_held():
    # t0 is written at step 0 and read at step 9 only; t1 is written at step 1 and read at once; one of them fits.
    uses = [(0, 0, 1), (1, 1, 1), (1, 2, 0), (0, 9, 0)]
    program = uses_of(uses, [0, 0, 0, *[64] * 6, 0], [64, 64])
    chip = replace(CHIP, cmem=replace(CHIP.cmem, capacity_bytes=64))
    game = MmapGame(build_tables(program, chip), 16)
    assert greedy(game, 0.0, 0.0)[0] == NO_COPY
    assert greedy(game, 1.0, 0.0).tolist()[:3] == [DROP, NO_COPY, NO_COPY]


def test_a_copy_must_be_worth_its_price():
    # 64 ns of copying save 48 ns of reading.
    game = MmapGame(build_tables(uses_of([(0, 1, 0)], [100, 0], [64]), CHIP), 16)
    assert greedy(game, 0.0, 0.7).tolist() == [COPY]
    assert greedy(game, 0.0, 0.8).tolist() == [DROP]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["alexnet_train_batch_32", "rnn_3"])
def test_the_greedy_player_comes_near_the_heuristic(name):
    problem = MmapProblem(load_program(name), load_chip("tpuv4i"))
    found = problem.evaluate(best_greedy(problem.game)[None, :, None], np.zeros(1, np.uint64))
    assert found.speedup[0] > 0.95
