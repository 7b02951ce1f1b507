"""Large graphs as roles: what is alike shares a role, the limit holds, small graphs are left alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from policies import stacked
from policies.graph import prepare
from policies.graph_unet import draw_weights
from policies.network import NetworkConfig
from policies.roles import roles
from policies.stacked import StackedActor
from workloads.errors import Notice

LAYER = 4


def layers(count: int, position: bool = True) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features [N, 2] and edges of `count` equal layers: a chain of kinds, whose first and last are joined, too."""
    nodes = np.arange(count * LAYER)
    kind = (nodes % LAYER).astype(np.float32)
    x = np.stack([kind, nodes / len(nodes) if position else 0 * kind], axis=1).astype(np.float32)
    chain = np.stack([nodes[:-1], nodes[1:]])
    skip = np.stack([nodes[::LAYER], nodes[LAYER - 1 :: LAYER]])
    return x, np.concatenate([chain, skip], axis=1)


def test_equal_layers_share_roles_but_for_the_ends_of_the_network() -> None:
    x, edges = layers(100, position=False)
    found = roles(x, prepare(edges, len(x)), limit=20)
    middle = found.of.reshape(100, LAYER)[3:-3]
    assert len(np.unique(middle)) <= 12, "runs of four kinds"
    np.testing.assert_array_equal(found.x[found.of], x, "only equal nodes share a role")
    assert not np.isin(found.of[[0, -1]], middle).any(), "the ends have a neighbour less"


def test_what_differs_at_every_node_is_averaged_over_neighbouring_layers() -> None:
    x, edges = layers(300)
    found = roles(x, prepare(edges, len(x)), limit=200)
    for role in np.unique(found.of):
        mine = np.flatnonzero(found.of == role)
        assert len({x[n, 0] for n in mine.tolist()}) == 1
        np.testing.assert_allclose(found.x[role], x[mine].mean(axis=0), rtol=1e-6)
        assert (np.diff(mine) == LAYER).all()


@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_there_are_never_more_roles_than_the_limit_and_edges_are_those_of_the_nodes(
    nodes: int, limit: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, (nodes, 2)).astype(np.float32)
    edges = rng.integers(0, nodes, (2, 2 * nodes))
    graph = prepare(edges, nodes)
    found = roles(x, graph, limit)
    assert found.graph.nodes <= limit
    assert set(found.of.tolist()) == set(range(found.graph.nodes))
    joined = {(found.of[a], found.of[b]) for a, b in graph.edges.numpy().T}
    assert joined == {(a, b) for a, b in found.graph.edges.numpy().T}


def test_fewer_roles_than_one_are_refused() -> None:
    x, edges = layers(2)
    with pytest.raises(ValueError, match="limit: expected at least 1, received 0"):
        roles(x, prepare(edges, len(x)), limit=0)


def test_actors_give_the_nodes_of_a_role_one_policy_and_leave_small_graphs_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, edges = layers(40)
    graph, config = prepare(edges, len(x)), NetworkConfig(depth=2, width=8, attention_heads=2)
    actor = StackedActor(config, 2, 1, 3)
    rng = np.random.default_rng(0)
    weights = np.stack([draw_weights(actor.weight_format, config, rng) for _ in range(3)])
    choices = np.where(np.arange(len(x)) % 7 == 0, 2, 3).astype(np.int16)[:, None]
    whole = actor.probabilities(weights, x, graph, choices)
    monkeypatch.setattr(stacked, "NODES", len(x) - 1)
    monkeypatch.setattr(stacked, "roles", lambda x, graph: roles(x, graph, limit=30))
    with pytest.warns(Notice, match=r"the 160 nodes as \d+ roles"):
        few = actor.probabilities(weights, x, graph, choices)
    np.testing.assert_allclose(few.sum(axis=-1), 1, rtol=1e-5)
    assert (few[:, choices[:, 0] == 2, :, 2] == 0).all()
    found = roles(x, graph, 30)
    for role in range(found.graph.nodes):
        rows = few[:, (found.of == role) & (choices[:, 0] == 3)]
        assert (rows == rows[:, :1]).all()
    assert len(np.unique(whole[0], axis=0)) > len(np.unique(few[0], axis=0))
    monkeypatch.setattr(stacked, "NODES", len(x))
    np.testing.assert_array_equal(actor.probabilities(weights, x, graph, choices), whole)
