"""GraphSAGE: its layer against torch-geometric's, batches against single states, and what it does not depend on."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from policies.graph import prepare
from policies.graphsage import (
    REACH,
    SMALL_GRAPH_NODES,
    GraphSage,
    GraphSageConfig,
    SageLayer,
    Stages,
    neighbours,
)
from policies.store import graphsage_policy, graphsage_weights, load_policy, save_policy
from policies.weight_vector import flatten
from workloads.errors import InputError

SMALL = GraphSageConfig(layers=1, width=8, waves=3)


def random_graph(rng, nodes, edges):
    return prepare(rng.integers(0, nodes, (2, edges)), nodes)


def network(config=SMALL, features=5, heads=2, seed=0):
    return GraphSage(config, features, heads, np.random.default_rng(seed))


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 30))
def test_a_layer_and_its_gradient_equal_those_of_torch_geometric(seed, nodes, edges):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch_geometric.nn import SAGEConv
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, nodes, edges)
    own = SageLayer(4)
    twin = SAGEConv(4, 4)
    twin.load_state_dict(own.state_dict())
    between = graph.edges[:, graph.edges[0] != graph.edges[1]]
    h = torch.from_numpy(rng.standard_normal((nodes, 3, 4), dtype=np.float32)).requires_grad_()
    out = own(h, graph)
    expected = torch.stack([twin(h[:, b], between) for b in range(3)], dim=1)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    weight = torch.from_numpy(rng.standard_normal((nodes, 3, 4), dtype=np.float32))
    grad = torch.autograd.grad((out * weight).sum(), h)[0]
    twin_grad = torch.autograd.grad((expected * weight).sum(), h)[0]
    torch.testing.assert_close(grad, twin_grad, rtol=1e-4, atol=1e-5)


def test_the_mean_leaves_a_node_itself_out_and_gives_zero_without_neighbours():
    near, back = neighbours(prepare(np.array([[0, 1], [1, 2]]), 4), "cpu")
    expected = torch.tensor([[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    torch.testing.assert_close(near.to_dense(), expected)
    torch.testing.assert_close(back.to_dense(), expected.T)


@given(st.integers(0, 2**32), st.integers(1, 10), st.booleans())
def test_states_in_a_batch_are_read_as_each_alone(seed, nodes, crowds):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, nodes, 2 * nodes)
    net = network(GraphSageConfig(layers=2, width=8, waves=3, crowds=crowds), seed=seed)
    x = torch.from_numpy(rng.standard_normal((nodes, 5), dtype=np.float32))
    counts = torch.from_numpy(rng.integers(1, 6, (nodes, 2)))
    earlier = torch.from_numpy(np.minimum(rng.integers(-1, 6, (3, nodes, 2)), counts.numpy() - 1))
    logits, value = net(x, earlier, graph, counts)
    assert logits.shape == (3, nodes, 2, int(counts.max()))
    for b in range(3):
        alone, own_value = net(x, earlier[b : b + 1], graph, counts)
        torch.testing.assert_close(logits[b], alone[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(value[b], own_value[0], rtol=1e-4, atol=1e-5)


def test_what_the_pass_before_decided_changes_the_logits_of_other_nodes():
    graph = prepare(np.array([[0, 1], [1, 2]]), 3)
    net, x, counts = network(heads=1), torch.ones(3, 5), torch.full((3, 1), 4)
    before = torch.tensor([[[0], [0], [0]], [[0], [0], [3]]])
    logits, _ = net(x, before, graph, counts)
    assert not torch.allclose(logits[0, 0], logits[1, 0])


def test_before_learning_a_choice_loses_stay_for_every_step_away():
    config = GraphSageConfig(layers=1, width=8, crowds=False, stay=2.5, output_gain=1e-9)
    net, counts = network(config, heads=1), torch.full((1, 1), 9)
    logits, _ = net(torch.ones(1, 5), torch.tensor([[[2]]]), prepare(np.zeros((2, 0), np.int64), 1), counts)
    steps = np.minimum(np.abs(np.arange(9) - 2), REACH)
    np.testing.assert_allclose(logits[0, 0, 0].detach(), -2.5 * steps, atol=1e-4)
    nothing, _ = net(torch.ones(1, 5), torch.tensor([[[-1]]]), prepare(np.zeros((2, 0), np.int64), 1), counts)
    np.testing.assert_allclose(nothing[0, 0, 0].detach(), np.zeros(9), atol=1e-4)


def test_other_choices_lose_the_logarithm_of_the_number_of_nodes_so_that_as_many_move_everywhere():
    config = GraphSageConfig(layers=1, width=8, crowds=False, stay=2.5, output_gain=1e-9)
    net = network(config, heads=1)
    for nodes in (150, 3000):
        graph, before = prepare(np.zeros((2, 0), np.int64), nodes), torch.full((1, nodes, 1), 2)
        logits, _ = net(torch.ones(nodes, 5), before, graph, torch.full((nodes, 1), 5))
        moved = 1 - logits.detach().softmax(dim=-1)[0, :, 0, 2]
        expected = nodes * (1 - 1 / (1 + 2 * SMALL_GRAPH_NODES / nodes * (math.exp(-2.5) + math.exp(-5.0))))
        assert float(moved.sum()) == pytest.approx(expected, rel=1e-3)
        assert 2.5 < expected < 2.7


def test_before_learning_a_choice_loses_leave_for_its_heat():
    config = GraphSageConfig(layers=1, width=8, crowds=False, stay=0.0, leave=3.0, output_gain=1e-9)
    net, counts = network(config, heads=1), torch.full((1, 1), 3)
    graph, before = prepare(np.zeros((2, 0), np.int64), 1), torch.tensor([[[1]], [[1]]])
    heat = torch.tensor([[[0.0, 1.0, 0.5]], [[1.0, 0.0, 0.0]]])
    stages = Stages(heat, torch.zeros(1), torch.zeros(2, 1, 1, 5))
    logits, _ = net(torch.ones(1, 5), before, graph, counts, stages)
    np.testing.assert_allclose(logits[:, 0, 0].detach(), -3.0 * heat[:, 0], atol=1e-4)
    cold, _ = net(torch.ones(1, 5), before, graph, counts)
    np.testing.assert_allclose(cold.detach(), 0.0, atol=1e-4)


def test_before_learning_a_node_without_a_stage_belongs_where_the_pipeline_would_lie_evenly():
    config = GraphSageConfig(layers=1, width=8, slope=2.0)
    net, counts, edges = network(config, heads=1), torch.full((2, 1), 5), np.zeros((2, 0), np.int64)
    even = torch.tensor([0.0, 0.6])
    stages = Stages(torch.zeros(1, 1, 5), even, torch.zeros(1, 2, 1, 5))
    logits, _ = net(torch.ones(2, 5), torch.full((1, 2, 1), -1), prepare(edges, 2), counts, stages)
    expected = -2.0 * np.abs(np.arange(5) + 0.5 - 5 * even.numpy()[:, None])
    np.testing.assert_allclose(logits[0, :, 0].detach(), expected, atol=1e-4)


def test_the_same_weights_read_any_number_of_choices_and_place_them_by_rank():
    net = network(heads=1)
    graph, x = prepare(np.array([[0], [1]]), 2), torch.ones(2, 5)
    nothing = torch.full((1, 2, 1), -1)
    few, _ = net(x, nothing, graph, torch.full((2, 1), 3))
    many, _ = net(x, nothing, graph, torch.full((2, 1), 5))
    torch.testing.assert_close(few[0, :, 0], many[0, :, 0, ::2])
    ragged, _ = net(x, nothing, graph, torch.tensor([[3], [5]]))
    torch.testing.assert_close(ragged[0, 1], many[0, 1])
    torch.testing.assert_close(ragged[0, 0, :, :3], few[0, 0])


def test_what_does_not_fit_is_refused():
    net, graph, counts = network(), prepare(np.array([[0], [1]]), 2), torch.full((2, 2), 3)
    with pytest.raises(ValueError, match=r"x: expected shape \[2, 5\], received \[2, 4\]"):
        net(torch.ones(2, 4), torch.zeros(1, 2, 2, dtype=torch.int64), graph, counts)
    with pytest.raises(ValueError, match=r"earlier: expected shape \[B, 2, 2\]"):
        net(torch.ones(2, 5), torch.zeros(1, 2, 1, dtype=torch.int64), graph, counts)


def test_a_saved_policy_comes_back_and_another_shape_is_named(tmp_path):
    net = network()
    policy = graphsage_policy(
        flatten(net), SMALL, features=5, heads=["w", "a"], choices=3, feature_schema=1, passes=2
    )
    save_policy(tmp_path / "p.safetensors", policy.weights, policy.metadata)
    read = load_policy(tmp_path / "p.safetensors")
    np.testing.assert_array_equal(graphsage_weights(read, SMALL, "--init"), flatten(net))
    with pytest.raises(InputError, match=r"^--init: network.layers: expected 2 as it is set here, found 1"):
        graphsage_weights(read, GraphSageConfig(), "--init")
    with pytest.raises(
        InputError,
        match=r"^--init: expected a policy of kind 'graphsage', found one of another method, of kind 'gnn'",
    ):
        graphsage_weights(type(read)(read.weights, {**read.metadata, "kind": "gnn"}), SMALL, "--init")
    cut = {name: a for name, a in read.weights.items() if name != "value.bias"}
    with pytest.raises(InputError, match=r"^--init: value.bias: expected shape"):
        graphsage_weights(type(read)(cut, read.metadata), SMALL, "--init")
