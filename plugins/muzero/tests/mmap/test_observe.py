"""What an agent sees of a game, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from mmap_programs import GRANULE, chips, playable, programs
from mmap_twin import Twin
from observe_twin import ObserveTwin

from egrl_muzero.mmap.observer import SeenGame
from egrl_muzero.mmap.parts import BUFFER_FEATURES, View
from hwsim.mmap.chip import load_chip
from hwsim.mmap.game import MmapGame
from hwsim.mmap.problem import MmapProblem
from hwsim.mmap.rules.state import GameState
from hwsim.mmap.tables import build_tables
from workloads.errors import InputError
from workloads.load import load_program

NOTHING = {"buffer_ids": -1, "supply": -1, "offsets": -1}


@st.composite
def views(draw: st.DrawFn) -> View:
    cells = draw(st.sampled_from((1, 2, 5, 8)))
    return View(
        next_buffers=draw(st.integers(0, 4)),
        same_tensor=draw(st.integers(0, 3)),
        map_cells=cells,
        map_steps=cells * draw(st.integers(1, 3)),
        profile_cells=draw(st.sampled_from((None, 1, 3, 64))),
        supply_steps=draw(st.integers(1, 9)),
        offsets=draw(st.sampled_from((None, 1, 4, 30))),
        held=draw(st.sampled_from((0, 2, 100))),
    )


def assert_in_range(game: SeenGame, seen) -> None:
    assert list(seen) == list(game.observer.parts)
    for name, part in game.observer.parts.items():
        assert seen[name].dtype == part.dtype
        assert seen[name].shape[1:] == part.shape
        assert part.low <= seen[name].min(initial=part.low)
        assert seen[name].max(initial=part.high) <= part.high


@pytest.mark.slow
@given(programs(), chips(), st.booleans(), st.booleans(), views(), st.data())
def test_every_array_at_every_move_is_the_twins(program, chip, literal, drop_backup, view, data):
    assume(playable(program))
    game = SeenGame(MmapGame(build_tables(program, chip, literal, drop_backup), GRANULE), view)
    twin, state, moves = Twin(program, chip, literal, drop_backup), game.reset(1), 0
    while not twin.over():
        seen = game.observe(state)
        assert_in_range(game, seen)
        for name, expected in ObserveTwin(twin, view, moves).all().items():
            np.testing.assert_allclose(seen[name][0], expected, rtol=1e-5, atol=1e-6, err_msg=name)
        legal = [action for action in (1, 2, 0) if twin.plan(action) is not False]
        action = data.draw(st.sampled_from(legal))
        twin.step(action)
        state, _, _ = game.step(state, np.array([action], np.int16))
        moves += 1
    event(f"resets {twin.resets}, lost {twin.state.lost}")
    seen = game.observe(state)
    assert_in_range(game, seen)
    assert all((array == NOTHING.get(name, 0)).all() for name, array in seen.items()), "seen after the end"


@pytest.fixture(scope="module")
def game() -> SeenGame:
    problem = MmapProblem(load_program("alexnet_train_batch_32"), load_chip("tpuv4i"))
    return SeenGame(problem.game, View())


def played(game: MmapGame, moves: int, batch: int = 4) -> GameState:
    rng, state = np.random.default_rng(0), game.reset(batch)
    for _ in range(moves):
        legal = game.legal(state)
        action = [rng.choice(np.flatnonzero(row)) if row.any() else 0 for row in legal]
        state, _, _ = game.step(state, np.array(action, np.int16))
    return state


def test_a_batch_is_seen_as_each_of_its_games(game):
    state = played(game, 150)
    seen = game.observe(state)
    assert_in_range(game, seen)
    assert len({row.tobytes() for row in seen["memory_map"]}) == 4
    for row in range(4):
        alone = game.observe(game.take(state, np.array([row])))
        for name, array in alone.items():
            np.testing.assert_array_equal(array[0], seen[name][row])


def test_the_full_profile_has_a_cell_a_granule_and_coarser_ones_are_made_of_it(game):
    state = played(game, 150)
    full = SeenGame(game, View(profile_cells=None)).observe(state)["memory_profile"]
    assert full.shape == (4, 32768)
    assert 0 < full.mean() < 1
    coarse = game.observe(state)["memory_profile"]
    np.testing.assert_array_equal(coarse, full.reshape(4, 512, 64).max(axis=2))


def test_the_middle_column_of_the_map_is_the_profile_where_a_column_is_a_step(game):
    seen = SeenGame(game, View(map_cells=128, map_steps=128, profile_cells=128)).observe(played(game, 150))
    np.testing.assert_array_equal(seen["memory_map"][:, :, 64], seen["memory_profile"])


def test_all_offsets_end_with_the_last_ones(game):
    state = played(game, 150)
    cursor = state.game["cursor"]
    whole = SeenGame(game, View(offsets=None)).observe(state)["offsets"]
    for row, found in enumerate(game.observe(state)["offsets"]):
        np.testing.assert_array_equal(found, whole[row, cursor[row] - 128 : cursor[row]])
        assert (whole[row, cursor[row] :] == -1).all()


def test_what_is_beyond_every_scale_is_clipped():
    problem = MmapProblem(load_program("rnn_2"), load_chip("tpuv4i"))
    tables = problem.tables._replace(buffer=problem.tables.buffer.copy())
    tables.buffer["demand_s"] = 1e40
    seen = SeenGame(MmapGame(tables, 4096), View()).observe(problem.game.reset(1))["buffers"][0, 0]
    assert seen[BUFFER_FEATURES.index("demand")] == 4.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"map_steps": 200}, r"^map_steps: expected a multiple of map_cells \(128\), found 200"),
        ({"supply_steps": 0}, r"^supply_steps: expected a whole number from 1 to 65536, found 0"),
        ({"next_buffers": -1}, r"^next_buffers: expected a whole number from 0 to 65536, found -1"),
        ({"offsets": 1.5}, r"^offsets: expected a whole number from 1 to 65536, found 1\.5"),
        ({"profile_cells": "all"}, r"^profile_cells: expected a whole number .* found 'all'"),
    ],
)
def test_a_view_that_cannot_be_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        View(**wrong)
