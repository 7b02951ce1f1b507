"""The benchmark of the network that reads profiles: its boards, where it begins, and that its parts fit together."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks import placing_profile
from benchmarks.placing_profile import NAMES, NETWORK, Board, board_tables, trained
from benchmarks.placing_varied import measured
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.place_features import FEATURE_NAMES
from hwsim.nnpi.tables import build_tables
from policies.ranker import Rankers
from policies.shipped import network
from policies.store import load_policy, rankers_of
from workloads.load import load


@pytest.fixture(scope="module")
def instance():
    tables = build_tables(load("resnet50"), load_chip("nnpi"))._replace(sigma=0.0)
    return measured("resnet50", ["resnet"], tables, 1, 2000)


@pytest.fixture(scope="module")
def shipped():
    return network(FEATURE_NAMES, 2)


def test_a_board_differs_from_its_chip_file_and_holds_as_much(instance):
    own, drawn = instance.tables, [board_tables(instance.tables, np.random.default_rng(k)) for k in range(8)]
    for board in drawn:
        assert np.array_equal(board.capacity_bytes, own.capacity_bytes)
        assert np.array_equal(board.weight_bytes, own.weight_bytes)
        assert (np.abs(np.log(board.bandwidth_Bps / own.bandwidth_Bps)) <= placing_profile.OFF).all()
        assert not np.array_equal(board.compute_s, own.compute_s)
        assert ((board.written_bytes > 0) == (own.written_bytes > 0)).all()
    assert len({board.launch_s for board in drawn}) == 8
    assert {board.prefetch for board in drawn} | {board.moves for board in drawn} == {True, False}


def test_a_widened_network_ranks_as_before_whatever_profile_it_is_shown(instance, shipped):
    board = Board.of(instance, np.random.default_rng(0))
    weights = shipped.rankers.for_features(NAMES, shipped.weights)[1]
    before, free = shipped.rankers.scores(shipped.weights[None], instance.places)
    for places in (board.blank(), board.after(board.rule, 1)):
        scores, own = Rankers(NETWORK, NAMES, 2).scores(weights[None], places)
        np.testing.assert_allclose(scores, before, atol=2e-4)
        np.testing.assert_allclose(own, free, atol=1e-5)
    assert not np.array_equal(board.blank().features, board.after(board.rule, 1).features)


def test_training_changes_what_a_profile_does(instance, shipped):
    begin = shipped.rankers.for_features(NAMES, shipped.weights)[1]
    weights = trained([instance], begin, 3, 0)
    wide = Rankers(NETWORK, NAMES, 2).weight_format.arrays(weights)["coefficients"]
    assert np.any(wide[..., len(FEATURE_NAMES) :])


def test_the_command_writes_a_network(instance, tmp_path, monkeypatch):
    import pickle

    (tmp_path / "drawn.pickle").write_bytes(pickle.dumps([instance]))
    out = tmp_path / "n.safetensors"
    monkeypatch.setattr(sys, "argv", ["x", str(tmp_path / "drawn.pickle"), "-o", str(out), "--rounds", "1"])
    placing_profile.main()
    assert rankers_of(load_policy(out)).names == NAMES
