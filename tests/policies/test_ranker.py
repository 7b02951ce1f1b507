"""Ranking networks: scores as the formula says, for any number of memories, in one pass and as a module."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from policies.graph import prepare
from policies.network import NetworkConfig
from policies.places import Places
from policies.pyg import make_actor
from policies.ranker import MOST_FREE, NO_SHARE, Rankers, added_network, by_hand, free_share
from policies.shipped import rules
from policies.weight_vector import assign
from workloads.errors import InputError

NAMES = ("one", "saved_of_mean", "bytes_times_lifetime")
NODES, HEADS = 5, 2
EDGES = np.stack([np.arange(NODES - 1), np.arange(1, NODES)])
LINEAR = NetworkConfig(name="linear")
CONTEXT = NetworkConfig(name="context", width=8)
UNET = NetworkConfig(depth=1, width=4, attention_heads=1)
SAGE = NetworkConfig(name="sage", depth=1, width=4, attention_heads=1)


def places(levels: int = 3) -> Places:
    rng = np.random.default_rng(1)
    node, head = np.nonzero(rng.random((NODES, HEADS)) < 0.8)
    features = rng.normal(size=(len(node), levels, len(NAMES))).astype(np.float32)
    features[:, 0] = 0
    return Places(node, head, features, (NODES, HEADS), EDGES)


def weights(rankers: Rankers, members: int = 4) -> np.ndarray:
    rng = np.random.default_rng(2)
    return np.stack([rankers.draw(rng) for _ in range(members)])


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_a_linear_score_is_features_times_coefficients_between_those_of_the_two_ends(levels):
    seen, rankers = places(levels), Rankers(LINEAR, NAMES, HEADS)
    drawn = weights(rankers)
    scores, share = rankers.scores(drawn, seen)
    for m, row in enumerate(drawn):
        coefficients = row[:-1].reshape(HEADS, 2, len(NAMES))
        asked = 1 / (1 + np.exp(-2 * float(row[-1])))
        assert share[m] == pytest.approx(MOST_FREE * max(asked - NO_SHARE, 0) / (1 - NO_SHARE))
        for t, head in enumerate(seen.head):
            assert scores[m, t, 0] == 0
            for level in range(1, levels):
                fast = (level - 1) / (levels - 2) if levels > 2 else 1.0
                own = (1 - fast) * coefficients[head, 0] + fast * coefficients[head, 1]
                assert scores[m, t, level] == pytest.approx(float(own @ seen.features[t, level]), abs=1e-5)


def test_linear_scores_are_the_same_alone_and_among_others_and_are_rounded_once():
    rng, count = np.random.default_rng(4), 300
    features = rng.normal(size=(count, 3, 41)).astype(np.float32)
    node, head = np.divmod(np.arange(count), HEADS)
    seen = Places(node, head, features, (count // HEADS, HEADS))
    drawn = rng.normal(size=(24, HEADS, 2, 41)).astype(np.float32)
    together = seen.linear(drawn)
    np.testing.assert_array_equal(together, np.concatenate([seen.linear(row[None]) for row in drawn]))
    terms = drawn[:, head].astype(np.float64) * features[:, 1:]
    np.testing.assert_array_equal(together[:, :, 1:], terms.sum(axis=-1).astype(np.float32))


@pytest.mark.parametrize("config", [UNET, SAGE], ids=lambda config: config.name)
@pytest.mark.parametrize("levels", [2, 4])
def test_a_network_over_the_graph_adds_to_both_ends_what_it_says_of_an_op(config, levels):
    """One pass over a population against a module for each of its networks."""
    seen, graph = places(levels), prepare(EDGES, NODES)
    rankers = Rankers(config, NAMES, HEADS)
    drawn = weights(rankers)
    scores, _ = rankers.scores(drawn, seen)
    rule = HEADS * 2 * len(NAMES)
    network = make_actor(added_network(config), HEADS * len(NAMES), HEADS, 2, np.random.default_rng(0))
    for row, expected in zip(drawn, scores, strict=True):
        assign(network, row[rule + 1 :])
        with torch.no_grad():
            said = network(torch.from_numpy(seen.of_nodes), graph).numpy()
        linear = seen.linear(row[:rule].reshape(1, HEADS, 2, -1))[0]
        np.testing.assert_allclose(linear + said[seen.node, seen.head] @ seen.ends.T, expected, atol=1e-5)


def test_a_fresh_network_changes_the_rule_that_it_begins_with_a_little():
    seen, rng = places(), np.random.default_rng(0)
    rule = by_hand(NAMES, HEADS)
    alone = Rankers(LINEAR, NAMES, HEADS).scores(rule[None], seen)[0]
    rankers = Rankers(UNET, NAMES, HEADS)
    with_network = rankers.scores(rankers.of_rule(rule, rng)[None], seen)[0]
    assert 0 < np.abs(with_network - alone).max() < 1


def test_the_rule_by_hand_weighs_time_saved_against_room():
    rule = by_hand(NAMES, HEADS)
    assert rule[:-1].reshape(4, 3).tolist() == [[0.5, 1.0, -1.0]] * 4
    assert by_hand(("else",), 1).tolist() == [0.0, 0.0, -1.0]


def test_the_free_share_is_within_bounds_for_any_weight():
    found = free_share(np.array([-1e9, -2.0, -1.0, 0.0, 1e9], np.float32))
    assert found[0] == found[1] == 0  # none at all: tensors that fill a memory to its last byte are common
    assert found[-1] == pytest.approx(MOST_FREE, rel=1e-12)
    assert (np.diff(found[1:]) > 0).all()


def test_places_without_edges_are_refused_by_a_network_over_graphs():
    rankers = Rankers(UNET, NAMES, HEADS)
    with pytest.raises(ValueError, match="edge_index: expected the edges of the graph"):
        rankers.scores(weights(rankers), replace(places(), edge_index=None))
    with pytest.raises(ValueError, match="weights: expected"):
        rankers.scores(weights(rankers)[:, 1:], places())


def test_a_linear_rule_is_no_network_over_a_graph():
    from policies.pyg import make_actor

    with pytest.raises(InputError, match="expected a network over the graph, found linear"):
        make_actor(LINEAR, 3, 2, 3)


def test_probabilities_are_a_softmax_of_each_decision_by_itself():
    seen = places()
    scores = np.random.default_rng(3).normal(size=(2, len(seen.node), 3)).astype(np.float32)
    odds = seen.probabilities(scores, np.full((NODES, HEADS), 3, np.int16), 3)
    expected = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(odds[:, seen.node, seen.head], expected, rtol=1e-5)


def test_rules_are_shipped_for_the_features_of_nnpi_and_for_no_others():
    from hwsim.nnpi.place_features import FEATURE_NAMES

    found = rules(FEATURE_NAMES, 2)
    assert len(found) >= 20
    assert {(len(row), row.dtype.name) for row in found} == {(4 * len(FEATURE_NAMES) + 1, "float32")}
    assert rules(FEATURE_NAMES[1:], 2) == []
    assert rules(FEATURE_NAMES, 1) == []
