"""The twin critic."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from policies_toys import CHOICES, FEATURES, HEADS, chain, states

from policies.critic import Critic, CriticConfig
from policies.graph import Graph

CONFIG = CriticConfig(width=8, layers=2)


def critic(seed: int = 0) -> Critic:
    return Critic(CONFIG, FEATURES, HEADS, CHOICES, np.random.default_rng(seed))


def actions(batch: int, nodes: int, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((batch, nodes, HEADS * CHOICES), dtype=np.float32))


def obvious(net: Critic, x: torch.Tensor, graph: Graph, action: torch.Tensor) -> torch.Tensor:
    """One critic, one action at a time, dense matrices."""
    adjacency = graph.adjacency(1).to_dense()
    values = torch.zeros(2, len(action))
    for q in range(2):
        for b, a in enumerate(action):
            h = torch.relu(x @ net.node_weight[q] + a @ net.action_weight[q] + net.entry_bias[q])
            for weight, bias in zip(net.layer_weight, net.layer_bias, strict=True):
                h = h + torch.relu(adjacency @ h @ weight[q] + bias[q])
            hidden = torch.relu(h.mean(0) @ net.hidden_weight[q] + net.hidden_bias[q])
            values[q, b] = (hidden @ net.value_weight[q] + net.value_bias[q]).squeeze()
    return values


@pytest.mark.parametrize("nodes", [1, 2, 13])
def test_the_batched_twins_equal_the_obvious_computation_in_value_and_gradient(nodes):
    net, graph, x = critic(), chain(nodes, nodes // 2), torch.from_numpy(states(nodes))
    action = actions(3, nodes).requires_grad_()
    fast = net(x, graph, action)
    gradient = torch.autograd.grad(fast.square().sum(), [action, *net.parameters()])
    slow = obvious(net, x, graph, action)
    expected = torch.autograd.grad(slow.square().sum(), [action, *net.parameters()])
    assert torch.allclose(fast, slow, atol=1e-5)
    for got, wanted in zip(gradient, expected, strict=True):
        assert torch.allclose(got, wanted, atol=1e-4)


def test_the_twins_disagree_because_they_share_no_weights():
    values = critic()(torch.from_numpy(states(9)), chain(9), actions(4, 9)).detach()
    assert values.shape == (2, 4)
    assert float((values[0] - values[1]).abs().min()) > 1e-4


def test_a_neighbours_action_matters_to_a_node():
    net, graph, x = critic(), chain(6), torch.from_numpy(states(6))
    apart = torch.zeros(2, 6, HEADS * CHOICES)
    apart[0, [0, 1], 0] = 1
    apart[1, [0, 5], 0] = 1
    same_features = x.mean(0).expand(6, -1)
    first, second = net(same_features, graph, apart).detach().unbind(dim=1)
    assert float((first - second).abs().max()) > 1e-5


def test_an_action_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"action: expected shape \[B, 4, 6\]"):
        critic()(torch.from_numpy(states(4)), chain(4), actions(2, 5))
