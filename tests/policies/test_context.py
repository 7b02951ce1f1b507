"""The context network: in NumPy as in torch, for any number of memories, and blind to the size of a problem's batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from policies.context import ContextNetwork, means_around, of_unit_size
from policies.context_module import Batch, ContextModule
from policies.network import NetworkConfig
from policies.places import Places
from policies.ranker import Rankers
from policies.weight_vector import assign, weight_format_of

FEATURES, HEADS, WIDTH = 4, 2, 8


def places(seed: int, nodes: int, levels: int = 3) -> Places:
    """Drawn places; nodes have one input each from some node before, and not every decision places a tensor."""
    rng = np.random.default_rng(seed)
    node, head = np.nonzero(rng.random((nodes, HEADS)) < 0.7)
    features = rng.normal(size=(len(node), levels, FEATURES)).astype(np.float32)
    features[:, 0] = 0
    target = np.arange(1, nodes)
    return Places(node, head, features, (nodes, HEADS), np.stack([rng.integers(0, target), target]))


def drawn(network: ContextNetwork) -> np.ndarray:
    return np.random.default_rng(3).normal(size=network.weight_format.size).astype(np.float32)


@pytest.mark.parametrize("around", [True, False])
def test_numpy_and_torch_say_the_same_alone_and_in_a_batch(around):
    """Of problems with any numbers of memories."""
    network = ContextNetwork(FEATURES, HEADS, WIDTH, around)
    given = [places(k, 5 + 9 * k, levels) for k, levels in ((0, 3), (1, 2), (2, 4), (3, 3))]
    weights, module = drawn(network), ContextModule(FEATURES, HEADS, WIDTH, around)
    assert weight_format_of(module.named_parameters()) == network.weight_format
    assign(module, weights)
    with torch.no_grad():
        together, free = module(Batch.of(given))
    row = 0
    for seen, own_free in zip(given, free, strict=True):
        added, more = network.scores(weights, seen)
        assert added.shape == seen.features.shape[:2]
        assert not added[:, 0].any()
        end = row + added[:, 1:].size
        np.testing.assert_allclose(added[:, 1:].reshape(-1), together[row:end].numpy(), rtol=1e-4, atol=1e-4)
        assert more == pytest.approx(float(own_free), rel=1e-4, abs=1e-4)
        row = end


def test_means_around_a_node_are_those_of_its_producers_consumers_window_and_all():
    seen = places(7, 30)
    values = np.random.default_rng(5).normal(size=(30, 3)).astype(np.float32)
    own, producers, consumers, near, wide, everywhere = means_around(values, seen)
    assert seen.edge_index is not None
    source, target = seen.edge_index
    for node in range(30):
        for found, rows in (
            (own, [node]),
            (producers, source[target == node]),
            (consumers, target[source == node]),
            (near, range(max(node - 2, 0), min(node + 3, 30))),
            (wide, range(max(node - 8, 0), min(node + 9, 30))),
        ):
            expected = values[list(rows)].mean(axis=0) if len(rows) else np.zeros(3)
            np.testing.assert_allclose(found[node], expected, atol=1e-6)
    np.testing.assert_allclose(everywhere[0], values.mean(axis=0), atol=1e-6)


def test_a_tensor_sees_what_is_around_it():
    """A change of one tensor's features changes the scores of its neighbours: there is context."""
    network, seen = ContextNetwork(FEATURES, HEADS, WIDTH), places(1, 12)
    other = Places(seen.node, seen.head, seen.features.copy(), seen.shape, seen.edge_index)
    other.features[0, 1:] += 1
    weights = drawn(network)
    changed = np.abs(network.scores(weights, seen)[0] - network.scores(weights, other)[0]).max(axis=1) > 0
    assert changed[1:].any()


def test_without_edges_it_says_what_is_missing():
    network, seen = ContextNetwork(FEATURES, HEADS, WIDTH), places(1, 6)
    blind = Places(seen.node, seen.head, seen.features, seen.shape)
    with pytest.raises(ValueError, match="edge_index: expected the edges of the graph"):
        network.scores(drawn(network), blind)


def test_ranking_networks_with_context_have_scores_of_one_size():
    names = tuple(f"feature {k}" for k in range(FEATURES))
    rankers, seen = Rankers(NetworkConfig(name="context", width=WIDTH), names, HEADS), places(2, 20)
    weights = np.stack([rankers.draw(np.random.default_rng(k)) for k in range(3)])
    scores, share = rankers.scores(weights, seen)
    assert scores.shape == (3, len(seen.node), 3)
    assert share.shape == (3,)
    np.testing.assert_allclose(np.square(scores[:, :, 1:]).mean(axis=(1, 2)), 1, rtol=1e-5)
    alone = rankers.scores(weights[1:2], seen)[0]
    assert np.array_equal(alone[0], scores[1])


def test_scores_of_nothing_and_of_zero_stay_as_they_are():
    assert of_unit_size(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert not of_unit_size(np.zeros((4, 3), np.float32)).any()
