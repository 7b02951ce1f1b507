"""The Graph U-Net actor."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from policies_toys import CHOICES, FEATURES, HEADS, SMALL, actor, chain, logits, states

from policies.graph import Graph
from policies.graph_unet import GraphUNet, draw_weights
from policies.masking import masked_log_probs, mean_entropy
from policies.network import NetworkConfig
from policies.pooling import choose, pooled_size, unpool
from policies.weight_vector import assign, flatten


@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 17, 57])
def test_every_size_of_graph_gives_finite_logits_of_its_own_shape(nodes):
    out = logits(actor(), states(nodes), chain(nodes, extra=nodes))
    assert out.shape == (nodes, HEADS, CHOICES)
    assert bool(out.isfinite().all())


def test_a_star_of_ten_thousand_nodes_runs():
    nodes = 10_000
    star = Graph.build(np.stack([np.zeros(nodes - 1, dtype=np.int64), np.arange(1, nodes)]), nodes)
    assert bool(logits(actor(), states(nodes), star).isfinite().all())


def test_repeated_calls_agree_bit_for_bit():
    graph, x, net = chain(60, extra=20), states(60), actor()
    assert torch.equal(logits(net, x, graph), logits(net, x, graph))


def test_a_batch_of_states_gives_what_each_state_gives_alone():
    graph, net = chain(23, extra=9), actor()
    batch = np.stack([states(23, seed) for seed in range(4)])
    alone = torch.stack([logits(net, x, graph) for x in batch])
    assert torch.allclose(logits(net, batch, graph), alone, atol=1e-5)


def test_a_change_at_one_end_reaches_nodes_that_only_the_pooled_levels_connect():
    config = NetworkConfig(depth=3, width=16, attention_heads=2, pool_ratio=0.9)
    graph, net, x = chain(40), actor(config=config), states(40)
    moved = x.copy()
    moved[0] += 1
    difference = (logits(net, x, graph) - logits(net, moved, graph)).abs().amax(dim=(1, 2))
    hops_without_pooling = 2 * config.depth + 1
    assert float(difference[hops_without_pooling + 1 :].max()) > 0


def test_without_pooling_a_node_sees_no_further_than_its_layers():
    net = actor(config=NetworkConfig(depth=0, width=16, attention_heads=2))
    x, graph = states(10), chain(10)
    moved = x.copy()
    moved[0] += 1
    difference = (logits(net, x, graph) - logits(net, moved, graph)).abs().amax(dim=(1, 2))
    assert float(difference[1]) > 0
    assert float(difference[2:].max()) == 0


def test_renumbering_the_nodes_renumbers_the_logits():
    nodes = 19
    rng = np.random.default_rng(5)
    edges = np.concatenate([np.stack([np.arange(18), np.arange(1, 19)]), rng.integers(0, 19, (2, 6))], axis=1)
    order = rng.permutation(nodes)
    x, net = states(nodes), actor()
    shuffled = np.empty_like(x)
    shuffled[order] = x
    straight = logits(net, x, Graph.build(edges, nodes))
    other = logits(net, shuffled, Graph.build(order[edges], nodes))
    assert torch.allclose(other[order], straight, atol=1e-5)


def test_every_weight_gets_a_gradient():
    graph, net = chain(30, extra=12), actor()
    net(torch.from_numpy(states(30)), graph).square().sum().backward()
    without = [n for n, p in net.named_parameters() if p.grad is None or not bool(p.grad.any())]
    assert without == []


def test_initial_policies_differ_from_one_another_and_are_not_saturated():
    config = NetworkConfig()
    graph, x = chain(57, extra=16), torch.from_numpy(states(57, features=21))
    nets = [GraphUNet(config, 21, 2, 3, np.random.default_rng(seed)) for seed in range(6)]
    with torch.no_grad():
        probabilities = torch.stack([net(x, graph).softmax(-1) for net in nets])
    entropy = -(probabilities * probabilities.log()).sum(-1).mean(dim=(1, 2))
    assert bool((entropy > 0.4 * np.log(3)).all())
    apart = (probabilities[:, None] - probabilities[None]).abs().sum(-1).mean(dim=(2, 3)) / 2
    assert float(apart[~torch.eye(6, dtype=torch.bool)].min()) > 0.1


def test_building_an_actor_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    actor()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_weight_vector_goes_out_and_in_and_its_table_names_every_tensor():
    net, other = actor(1), actor(2)
    vector = flatten(net)
    assign(other, vector)
    assert np.array_equal(flatten(other), vector)
    for segment, (name, parameter) in zip(net.weight_format.segments, net.named_parameters(), strict=True):
        assert segment.name == name
        piece = vector[segment.offset : segment.end].reshape(segment.shape)
        assert np.array_equal(piece, parameter.detach().numpy())
    assert net.weight_format.size == len(vector)


def test_nothing_but_parameters_carries_state():
    assert list(actor().buffers()) == []


def test_the_same_generator_draws_the_same_weights():
    weight_format = actor().weight_format
    first, second = (draw_weights(weight_format, SMALL, np.random.default_rng(9)) for _ in range(2))
    assert np.array_equal(first, second)


def test_equal_scores_keep_the_lower_node_numbers():
    score = torch.arange(3000).remainder(3).float().unsqueeze(0)
    greatest, next_ones = torch.arange(2, 3000, 3), torch.arange(1, 3000, 3)
    expected = torch.cat([greatest, next_ones[:500]]).sort().values
    assert torch.equal(choose(score, 1500)[0], expected)


def test_scores_that_differ_by_a_rounding_error_count_as_equal():
    score = torch.tensor([[0.5, 0.7, 0.5, 0.7 + 1e-5, 0.5, 0.1]])
    assert float(score[0, 3]) > float(score[0, 1])
    assert choose(score, 1).tolist() == [[1]]


def test_pool_sizes_never_reach_zero():
    assert [pooled_size(n, 0.5) for n in (1, 2, 3, 376)] == [1, 1, 2, 188]
    assert pooled_size(5, 1e-9) == 1


def test_unpooling_adds_to_the_nodes_that_were_kept():
    skip = torch.ones(1, 4, 1)
    out = unpool(torch.tensor([[[5.0], [7.0]]]), torch.tensor([[1, 3]]), skip)
    assert out.flatten().tolist() == [1, 6, 1, 8]


def test_masked_log_probs_put_nothing_on_illegal_choices():
    out = masked_log_probs(torch.randn(4, 2, 2, 3), torch.tensor([[1, 2], [3, 0]], dtype=torch.int16)).exp()
    assert torch.allclose(out.sum(-1), torch.ones(4, 2, 2))
    assert float(out[:, 0, 0, 1:].max()) == float(out[:, 0, 1, 2].max()) == float(out[:, 1, 1, 1:].max()) == 0
    assert float(out[:, 1, 0].min()) > 0


def test_mean_entropy_counts_live_decisions_alone_and_its_gradient_survives_masked_choices():
    raw = torch.zeros(2, 2, 3, requires_grad=True)
    log_probs = masked_log_probs(raw, torch.tensor([[3, 2], [3, 3]]))
    live = torch.tensor([[True, True], [False, False]])
    entropy = mean_entropy(log_probs, live)
    assert float(entropy.detach()) == pytest.approx((np.log(3) + np.log(2)) / 2)
    entropy.backward()
    assert raw.grad is not None
    assert bool(raw.grad.isfinite().all())
    assert float(mean_entropy(log_probs.detach(), torch.zeros(2, 2, dtype=torch.bool))) == 0


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"depth": -1}, "depth"),
        ({"width": 10, "attention_heads": 4}, "width"),
        ({"pool_ratio": 0.0}, "pool_ratio"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(settings, names):
    with pytest.raises(ValueError, match=names):
        NetworkConfig(**settings)


def test_features_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=rf"x: expected shape \[\.\.\., 4, {FEATURES}\]"):
        logits(actor(), states(5), chain(4))
