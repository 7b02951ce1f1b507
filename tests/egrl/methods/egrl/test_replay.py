"""The replay buffer of archive positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egrl.methods.egrl.replay import Replay


@given(st.integers(1, 8), st.lists(st.lists(st.integers(0, 99), max_size=12), max_size=8))
def test_the_buffer_holds_exactly_the_last_positions_added(capacity, chunks):
    replay, added = Replay(capacity), []
    for chunk in chunks:
        replay.add(chunk)
        added += chunk
    held = added[-capacity:]
    assert len(replay) == len(held)
    assert sorted(replay.state_dict()["indices"].tolist()) == sorted(held)


def test_samples_are_uniform_over_what_is_held_and_repeat():
    replay = Replay(4)
    replay.add(np.arange(6))
    drawn = replay.sample(np.random.default_rng(0), 4000)
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [2, 3, 4, 5]
    assert counts.min() > 900
    assert np.array_equal(drawn, replay.sample(np.random.default_rng(0), 4000))


@given(st.integers(1, 6), st.lists(st.integers(0, 9), max_size=20), st.lists(st.integers(0, 9), max_size=9))
def test_a_restored_buffer_goes_on_as_the_old_one(capacity, before, after):
    replay = Replay(capacity)
    replay.add(before)
    restored = Replay(1)
    restored.load_state_dict(replay.state_dict())
    for buffer in (replay, restored):
        buffer.add(after)
    if len(replay):
        rngs = np.random.default_rng(1), np.random.default_rng(1)
        assert np.array_equal(replay.sample(rngs[0], 50), restored.sample(rngs[1], 50))
    assert len(restored) == len(replay)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="capacity"):
        Replay(0)
    with pytest.raises(ValueError, match="sample: expected a buffer"):
        Replay(3).sample(np.random.default_rng(0), 1)
    with pytest.raises(ValueError, match="indices"):
        Replay(3).add([-1])
    with pytest.raises(ValueError, match="indices"):
        Replay(3).add([0.5])
    with pytest.raises(ValueError, match="state"):
        Replay(3).load_state_dict({"indices": [1], "added": 5, "capacity": 3})
