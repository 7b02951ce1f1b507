"""Random play of the MMapGame."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mmap_programs import GRANULE, chips, playable, programs
from test_device import CHIP
from test_device import program as uses_of

from egrl_muzero.mmap.random_play import random_legal
from hwsim.mmap.game import MmapGame
from hwsim.mmap.tables import build_tables

COPY = 1


@given(programs(max_steps=12), chips(), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_what_the_random_player_plays_is_legal_and_decided_by_its_draws(program, chip, seed):
    assume(playable(program))
    game = MmapGame(build_tables(program, chip), GRANULE)
    draws = np.random.default_rng(seed).random((3, len(program)))
    played = random_legal(game, draws)
    np.testing.assert_array_equal(game.play(played.action).action, played.action)
    np.testing.assert_array_equal(random_legal(game, draws[1:]).action, played.action[1:])


def test_the_random_player_takes_each_legal_action_equally_often():
    game = MmapGame(build_tables(uses_of([(0, 1, 0), (0, 3, 0)], [100] * 4, [64]), CHIP), 16)
    first, second = random_legal(game, np.random.default_rng(0).random((6000, 2))).action.T
    np.testing.assert_allclose(np.bincount(first, minlength=3) / 6000, [1 / 2, 1 / 2, 0], atol=0.03)
    np.testing.assert_allclose(np.bincount(second[first == COPY]) / 3000, [1 / 3, 1 / 3, 1 / 3], atol=0.04)
