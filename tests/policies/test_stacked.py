"""A stacked population equals its members one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from policies_toys import CHOICES, FEATURES, HEADS, SMALL, actor, chain, logits, states

from policies.network import NetworkConfig
from policies.stacked import StackedActor
from policies.weight_vector import assign


def stack(members: int, config: NetworkConfig, seed: int = 0) -> np.ndarray:
    """Weights that are all in use: biases and norms random, too."""
    size = actor(config=config).weight_format.size
    noise = np.random.default_rng(seed).standard_normal((members, size), dtype=np.float32)
    base = np.stack([_weights(seed, config) for seed in range(members)])
    return base + np.float32(0.1) * noise


def _weights(seed: int, config: NetworkConfig) -> np.ndarray:
    return torch.cat([p.detach().flatten() for p in actor(seed, config).parameters()]).numpy()


@pytest.mark.parametrize(("nodes", "extra"), [(1, 0), (2, 1), (9, 4), (57, 20), (120, 60)])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_stack_gives_every_member_what_it_gives_alone(nodes, extra, depth):
    config = NetworkConfig(depth=depth, width=16, attention_heads=2)
    graph, x, weights = chain(nodes, extra), states(nodes), stack(5, config)
    stacked = StackedActor(config, FEATURES, HEADS, CHOICES)
    together = stacked.probabilities(weights, x, graph, np.full((nodes, HEADS), CHOICES, dtype=np.int16))
    net = actor(config=config)
    for own, vector in zip(together, weights, strict=True):
        assign(net, vector)
        assert np.allclose(own, logits(net, x, graph).softmax(-1).numpy(), atol=1e-5)


def test_nodes_that_look_alike_are_pooled_alike_in_a_stack_and_alone():
    graph, weights = chain(64), stack(6, SMALL)
    x = np.tile(states(4), (16, 1))
    stacked = StackedActor(SMALL, FEATURES, HEADS, CHOICES)
    together = stacked.logits(weights, x, graph)
    net = actor()
    for own, vector in zip(together, weights, strict=True):
        assign(net, vector)
        assert torch.allclose(own, logits(net, x, graph), atol=1e-4)


def test_probabilities_are_normalised_over_the_legal_choices_and_repeat_bit_for_bit():
    nodes = 30
    counts = np.random.default_rng(0).integers(1, CHOICES + 1, (nodes, HEADS)).astype(np.int16)
    stacked = StackedActor(SMALL, FEATURES, HEADS, CHOICES)
    weights, x, graph = stack(4, SMALL), states(nodes), chain(nodes, 8)
    out = stacked.probabilities(weights, x, graph, counts)
    assert out.dtype == np.float32
    assert out.shape == (4, nodes, HEADS, CHOICES)
    assert np.allclose(out.sum(-1), 1, atol=1e-5)
    assert not out[:, np.arange(CHOICES) >= counts[..., None]].any()
    assert np.array_equal(out, stacked.probabilities(weights, x, graph, counts))


def test_a_population_that_goes_in_several_passes_gives_the_same(monkeypatch):
    nodes = 12
    counts = np.full((nodes, HEADS), CHOICES, dtype=np.int16)
    stacked = StackedActor(SMALL, FEATURES, HEADS, CHOICES)
    weights, x, graph = stack(5, SMALL), states(nodes), chain(nodes, 3)
    at_once = stacked.probabilities(weights, x, graph, counts)
    monkeypatch.setattr("policies.stacked.NODES_A_PASS", 2 * nodes)
    assert np.allclose(stacked.probabilities(weights, x, graph, counts), at_once, atol=1e-6)


def test_weights_of_another_network_are_refused():
    stacked = StackedActor(SMALL, FEATURES, HEADS, CHOICES)
    with pytest.raises(ValueError, match="weights: expected float32"):
        stacked.logits(np.zeros((2, 7), dtype=np.float32), states(4), chain(4))
