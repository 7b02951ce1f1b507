"""Networks of torch-geometric as policies: one by one or as a population, in training, on disk, and what is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from policies_toys import CHOICES, FEATURES, HEADS, chain, logits, states

from policies.network import GRAPH_UNET, NETWORKS, RANKING_ONLY, NetworkConfig
from policies.pyg import PygActor, check_network, make_actor
from policies.stacked import StackedActor
from policies.store import actor_of, actor_policy, config_of, load_policy, save_policy
from policies.weight_vector import assign, flatten
from workloads.errors import InputError

OTHERS = (
    *(name for name in NETWORKS if name not in (*RANKING_ONLY, GRAPH_UNET)),
    "torch_geometric.nn:GraphSAGE",
)
NODES = 12


def small(name: str) -> NetworkConfig:
    return NetworkConfig(name, depth=2, width=8, attention_heads=2)


@pytest.mark.parametrize("name", OTHERS)
def test_a_population_gives_every_member_what_it_gives_alone(name):
    stacked = StackedActor(small(name), FEATURES, HEADS, CHOICES)
    weights = np.stack([stacked.draw(np.random.default_rng(seed)) for seed in range(3)])
    graph, x = chain(NODES, 4), states(NODES)
    together = stacked.logits(weights, x, graph)
    assert together.shape == (3, NODES, HEADS, CHOICES)
    assert not torch.allclose(together[0], together[1])
    alone = make_actor(small(name), FEATURES, HEADS, CHOICES)
    for own, vector in zip(together, weights, strict=True):
        assign(alone, vector)
        assert torch.equal(own, logits(alone, x, graph))


@pytest.mark.parametrize("name", OTHERS)
def test_equal_generators_draw_equal_weights_and_leave_torch_as_it_was(name):
    before = torch.random.get_rng_state()
    first, same, other = (
        flatten(make_actor(small(name), FEATURES, HEADS, CHOICES, np.random.default_rng(seed)))
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("name", OTHERS)
def test_several_states_are_apart_and_every_weight_takes_a_gradient(name):
    net = make_actor(small(name), FEATURES, HEADS, CHOICES, np.random.default_rng(0))
    graph = chain(NODES, 4)
    x = torch.from_numpy(np.stack([states(NODES, seed) for seed in range(2)]))
    out = net(x, graph)
    assert all(torch.allclose(out[b], net(x[b], graph)) for b in range(2))
    torch.autograd.backward(out.square().sum())
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())


def test_a_module_gets_both_directions_of_each_edge_and_no_self_loops():
    net = make_actor(small("gcn"), FEATURES, HEADS, CHOICES, np.random.default_rng(0))
    seen = []
    net.module.register_forward_pre_hook(lambda module, given: seen.append(given[1]))
    logits(net, states(3), chain(3))
    assert seen[0].tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]


def test_a_named_network_equals_torch_geometrics_own_class():
    from torch_geometric.nn import GAT

    net = make_actor(small("gat"), FEATURES, HEADS, CHOICES, np.random.default_rng(3))
    norm = {"norm": "LayerNorm", "norm_kwargs": {"mode": "node"}}
    own = GAT(FEATURES, 8, 2, HEADS * CHOICES, v2=True, heads=2, **norm).eval()
    assign(own, flatten(net))
    graph, x = chain(NODES, 4), states(NODES)
    with torch.no_grad():
        expected = own(torch.from_numpy(x), graph.links).view(NODES, HEADS, CHOICES)
    assert torch.equal(logits(net, x, graph), expected)


def test_a_policy_on_disk_keeps_the_name_of_its_network(tmp_path):
    config = small("gin")
    net = make_actor(config, FEATURES, HEADS, CHOICES, np.random.default_rng(0))
    policy = actor_policy(
        flatten(net), config, features=FEATURES, heads=["a", "b"], choices=CHOICES, feature_schema=1
    )
    save_policy(tmp_path / "p.safetensors", policy.weights, policy.metadata)
    read = load_policy(tmp_path / "p.safetensors")
    assert config_of(read) == config
    again, graph, x = actor_of(read), chain(NODES), states(NODES)
    assert isinstance(again, PygActor)
    assert torch.equal(logits(again, x, graph), logits(net, x, graph))


def test_the_packages_own_network_is_stored_as_ever(tmp_path):
    config = NetworkConfig(depth=1, width=8, attention_heads=2)
    weights = flatten(make_actor(config, FEATURES, 2, CHOICES, np.random.default_rng(0)))
    policy = actor_policy(
        weights, config, features=FEATURES, heads=["a", "b"], choices=CHOICES, feature_schema=1
    )
    assert "name" not in policy.metadata["config"]
    assert config_of(policy) == config


MODULES = """
import torch
class Linear(torch.nn.Linear):
    def __init__(self, in_channels, out_channels, hidden_channels=0):
        super().__init__(in_channels, out_channels)
        self.hidden = hidden_channels
    def forward(self, x, edge_index):
        return super().forward(x)
class Pooled(Linear):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index).mean(0)
class Double(Linear):
    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, out_channels)
        self.double()
class Halves(Linear):
    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, out_channels)
        self.spare = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
class Failing(Linear):
    def __init__(self, in_channels, out_channels):
        raise RuntimeError("no\\nsuch shape")
class Greedy(torch.nn.Module):
    def __init__(self, in_channels, out_channels, more): ...
def build(in_channels, out_channels): ...
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mynets.py").write_text(MODULES, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("mynets", None)


def test_a_module_of_the_users_own_is_built_from_what_its_signature_names(mine):
    check_network("mynets:Linear", "--set x")
    net = make_actor(small("mynets:Linear"), FEATURES, HEADS, CHOICES, np.random.default_rng(0))
    assert net.module.hidden == 8
    assert logits(net, states(NODES), chain(NODES)).shape == (NODES, HEADS, CHOICES)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mynets:build", "--set x: expected a torch.nn.Module with .* found function mynets:build"),
        ("mynets:Greedy", "found mynets:Greedy: missing a required argument: 'more'"),
        ("mynets:Linea", "did you mean Linear"),
        ("nonesuch_nets:A", "expected a module nonesuch_nets"),
        ("torch_geometric.nn:GATT", "expected GATT in"),
    ],
)
def test_a_name_of_no_network_is_refused_in_one_line(mine, name, words):
    with pytest.raises(InputError, match=words) as refusal:
        check_network(name, "--set x")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Double", "RuntimeError: mat1 and mat2 must have the same dtype"),
        ("Failing", "RuntimeError: no such"),
        ("Halves", "expected float32 parameters, found spare"),
        ("Pooled", r"expected logits \[8, 6\], found \[6\]"),
    ],
)
def test_a_module_that_no_policy_can_be_is_refused_in_one_line(mine, name, words):
    with pytest.raises(InputError, match=words) as refusal:
        make_actor(small(f"mynets:{name}"), FEATURES, HEADS, CHOICES)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["", "gta", "a:b:c", "os.system"])
def test_a_name_that_is_neither_known_nor_a_reference_is_refused(name):
    with pytest.raises(ValueError, match="name: expected one of linear, context, mlp, graph_unet, gcn"):
        NetworkConfig(name)
