"""The kernels against plain Python, move for move."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from mmap_programs import GRANULE, chips, playable, programs
from mmap_twin import Placed, Twin

from hwsim.mmap.game import MmapGame
from hwsim.mmap.tables import build_tables


def row_of(plan: Placed | None) -> tuple[int, ...]:
    if plan is None:
        return (-1, -1, -1, -1, -1)
    return (*(plan.interval or (-1, -1)), *(plan.window or (-1, -1)), plan.offset)


def assert_same_state(game: MmapGame, state, twin: Twin) -> None:
    assert game.done(state)[0] == twin.over()
    np.testing.assert_allclose(game.total(state)[0] * game.tables.most_s, twin.state.total, rtol=1e-12)
    assert state.game["total_s"][0] == twin.state.total
    assert state.game["resets"][0] == twin.resets
    if twin.state.lost:
        return
    assert state.game["cursor"][0] == twin.state.at
    np.testing.assert_array_equal(state.step["supply_s"][0], twin.state.left)
    assert {b: a for b, a in enumerate(state.buffer["action"][0].tolist()) if a >= 0} == twin.state.actions


@pytest.mark.slow
@given(programs(), chips(), st.booleans(), st.booleans(), st.data())
def test_every_action_and_every_move_is_the_twins(program, chip, literal, drop_backup, data):
    assume(playable(program))
    game = MmapGame(build_tables(program, chip, literal, drop_backup), GRANULE)
    twin = Twin(program, chip, literal, drop_backup)
    state, rewards = game.reset(1), []
    while not twin.over():
        assert_same_state(game, state, twin)
        outcomes, legal = game.outcomes(state), []
        for action in range(3):
            expected = twin.plan(action)
            assert outcomes.legal[0, action] == (expected is not False)
            if expected is not False:
                legal.append(action)
                parts = (
                    outcomes.first,
                    outcomes.last,
                    outcomes.copy_first,
                    outcomes.copy_last,
                    outcomes.offset_bytes,
                )
                assert tuple(int(part[0, action]) for part in parts) == row_of(expected)
        action = data.draw(st.sampled_from(legal))
        expected_s = twin.step(action)
        state, reward, _ = game.step(state, np.array([action], np.int16))
        assert reward[0] == expected_s / game.tables.most_s
        rewards.append(reward[0])
        assert len(rewards) <= game.max_moves
    assert_same_state(game, state, twin)
    event(f"resets {twin.resets}, lost {twin.state.lost}")
    np.testing.assert_allclose(sum(rewards), twin.state.total / game.tables.most_s, atol=1e-12)


@pytest.mark.slow
@given(programs(max_steps=12), chips(), st.booleans(), st.booleans(), st.data())
def test_proposals_are_played_as_the_twin_plays_them(program, chip, literal, drop_backup, data):
    assume(playable(program))
    game = MmapGame(build_tables(program, chip, literal, drop_backup), GRANULE)
    twin = Twin(program, chip, literal, drop_backup)
    wishes = data.draw(
        st.lists(st.sampled_from((0, 1, 1, 2, 2)), min_size=len(program), max_size=len(program))
    )
    twin.play(wishes)
    found = game.play(np.array([wishes], np.int16))
    event(f"resets {twin.resets}, lost {twin.state.lost}")
    assert found.resets[0] == twin.resets
    assert np.isnan(found.cost_s[0]) if twin.state.lost else found.cost_s[0] == twin.cost()
    layout = game.layout_of(np.array(wishes, np.int16))
    assert {b: a for b, a in enumerate(found.action[0].tolist()) if a >= 0} == twin.state.actions
    for placed in twin.state.placed:
        b = placed.buffer
        parts = (layout.first, layout.last, layout.copy_first, layout.copy_last, layout.offset_bytes)
        assert tuple(int(part[b]) for part in parts) == row_of(placed)
    np.testing.assert_array_equal(layout.copy_use_s, np.array(twin.supply) - np.array(twin.state.left))
