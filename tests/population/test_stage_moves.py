"""Moves where choices are stages of a pipeline."""

from __future__ import annotations

import numpy as np
import pytest

from hwsim.stages import Pipeline, fullness, heat
from population.moves import Mix, Moves
from population.stage_moves import relieve, stage_move


def test_a_move_changes_a_run_by_one_stage_and_stays_within_the_limits():
    rng = np.random.default_rng(0)
    limit, seen = np.full(12, 4, np.int16), set()
    for _ in range(400):
        before = np.sort(rng.integers(0, 4, 12)).astype(np.int16)
        after = before.copy()
        changed = stage_move(after, limit, 3.0, rng)
        steps = after - before
        moved = np.flatnonzero(steps)
        assert changed == bool(len(moved))
        assert set(steps[moved].tolist()) in ({1}, {-1}, set())
        assert after.min() >= 0
        assert after.max() < 4
        seen.add((len(moved) > 1, int(steps[moved][0]) if changed else 0))
    assert seen >= {(False, 1), (False, -1), (True, 1), (True, -1), (False, 0)}


@pytest.mark.slow
def test_moves_reach_every_partition_of_a_short_chain():
    chain = Pipeline(np.ones(4), np.array([[0, 1, 2], [1, 2, 3]]))
    moves = Moves(np.full((4, 1), 3, np.int16), np.ones((4, 1), np.bool_), Mix(extra=0.0), None, chain)
    rng, mapping = np.random.default_rng(1), np.zeros((4, 1), np.int16)
    seen = set()
    for _ in range(6_000):
        mapping = moves.propose(mapping, rng)
        seen.add(tuple(mapping[:, 0].tolist()))
    assert len(seen) == 3**4


def test_without_stages_nothing_of_them_is_drawn():
    counts, live = np.full((9, 2), 3, np.int16), np.ones((9, 2), np.bool_)
    start = np.zeros((9, 2), np.int16)
    drawn = [
        Moves(counts, live, Mix(staged=share)).propose(start, np.random.default_rng(5))
        for share in (0.0, 1.0)
    ]
    np.testing.assert_array_equal(*drawn)


def test_the_fullest_stages_are_hot():
    load = np.array([1.0, 2.0, 3.0, 4.0])
    stage = np.array([[0, 1, 2, 3], [0, 1, 1, 3], [2, 2, 2, 2], [-1, -1, -1, -1]])
    found = heat(fullness(stage, load, 4))
    assert found[0].argmax() == 3
    assert found[0, :3].max() < 1e-4
    assert found[1].argmax() == 1
    assert found[1, 3] == np.exp((4 / 5 - 1) / 0.02)
    assert found[2, 2] == 1.0
    assert found[2, [0, 1, 3]].max() < 1e-20
    assert (found[3] == 0).all()


def test_relief_takes_a_node_out_of_the_fullest_stage_and_what_has_to_go_with_it():
    rng, limit = np.random.default_rng(2), np.full(6, 3, np.int16)
    edges = np.array([[0, 2], [2, 3], [3, 5], [1, 4]], np.int64).T
    pipeline = Pipeline(np.array([1.0, 1.0, 5.0, 5.0, 1.0, 0.0]), edges)
    for _ in range(50):
        after = np.array([0, 0, 1, 1, 2, 1], np.int16)
        assert relieve(after, limit, pipeline, rng)
        assert after.tolist() in (
            [0, 0, 0, 1, 2, 1],
            [0, 0, 1, 2, 2, 2],
        )
    assert not relieve(np.zeros(6, np.int16), limit, Pipeline(np.zeros(6), edges), rng)
