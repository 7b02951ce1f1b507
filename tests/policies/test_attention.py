"""The attention layer: torch-geometric's, and what it does without edges and with great scores."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from policies.attention import GraphAttention

WIDTH, HEADS = 12, 3


def layers(seed: int) -> tuple[GraphAttention, torch.nn.Module]:
    """Ours with the weights of torch-geometric's, and that."""
    with warnings.catch_warnings():  # it calls a deprecated part of torch while it is imported
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch_geometric.nn import GATv2Conv
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        twin = GATv2Conv(WIDTH, WIDTH // HEADS, heads=HEADS, add_self_loops=False)
        torch.nn.init.normal_(twin.bias)
    own = GraphAttention(WIDTH, HEADS)
    own.load_state_dict(twin.state_dict())
    return own, twin


def random_input(seed: int, nodes: int, edges: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    h = torch.from_numpy(rng.standard_normal((nodes, WIDTH), dtype=np.float32)).requires_grad_()
    return h, torch.from_numpy(rng.integers(0, nodes, (2, edges)))


def test_weights_have_the_names_and_the_order_of_torch_geometric():
    own, twin = layers(0)
    assert [(n, p.shape) for n, p in own.named_parameters()] == [
        (n, p.shape) for n, p in twin.named_parameters()
    ]
    assert list(own.state_dict()) == list(twin.state_dict())


@pytest.mark.slow
@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(0, 40))
def test_the_layer_and_its_gradients_equal_those_of_torch_geometric(seed, nodes, edges):
    own, twin = layers(seed)
    h, ends = random_input(seed, nodes, edges)
    out, expected = own(h, ends), twin(h, ends)
    torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-6)
    weight = torch.from_numpy(
        np.random.default_rng(seed + 1).standard_normal((nodes, WIDTH), dtype=np.float32)
    )
    got = torch.autograd.grad((out * weight).sum(), [h, *own.parameters()])
    wanted = torch.autograd.grad((expected * weight).sum(), [h, *twin.parameters()])
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6 * max(1.0, float(other.abs().max())))


def test_a_node_that_no_edge_leads_to_gets_the_bias():
    own, _ = layers(1)
    h, _ = random_input(1, 3, 0)
    out = own(h, torch.tensor([[0], [1]]))
    assert torch.equal(out[[0, 2]], own.bias.expand(2, -1))
    assert not torch.equal(out[1], own.bias)


@pytest.mark.parametrize("scale", [1e4, 1e12])
def test_great_scores_do_not_overflow(scale):
    own, _ = layers(2)
    h, ends = random_input(2, 5, 20)
    out = own(h * scale, ends)
    assert bool(out.isfinite().all())
