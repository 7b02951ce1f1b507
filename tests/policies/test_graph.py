"""The prepared graph, its second power and its pooled parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.graph import PATHS_PER_NODE, Graph, edges_between, prepare, square, union


@st.composite
def graphs(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    nodes = draw(st.integers(1, 12))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=30))
    return np.array(edges, dtype=np.int64).reshape(-1, 2).T, nodes


def dense(edges: torch.Tensor, nodes: int) -> np.ndarray:
    matrix = np.zeros((nodes, nodes), dtype=bool)
    matrix[edges[0].numpy(), edges[1].numpy()] = True
    return matrix


@given(graphs())
def test_edges_are_the_undirected_ones_and_a_self_loop_at_every_node_each_once(given_graph):
    edge_index, nodes = given_graph
    graph = Graph.build(edge_index, nodes)
    expected = np.eye(nodes, dtype=bool)
    for a, b in edge_index.T:
        expected[a, b] = expected[b, a] = True
    assert np.array_equal(dense(graph.edges, nodes), expected)
    assert graph.edges.shape[1] == expected.sum()
    key = graph.edges[1] * nodes + graph.edges[0]
    assert bool((key[1:] > key[:-1]).all())


@given(graphs())
def test_two_hop_edges_are_the_pattern_of_the_squared_adjacency_where_the_cap_does_not_bite(given_graph):
    edge_index, nodes = given_graph
    graph = Graph.build(edge_index, nodes)
    one = dense(graph.edges, nodes).astype(int)
    if (one.sum(axis=0) ** 2).sum() <= PATHS_PER_NODE * nodes:
        assert np.array_equal(dense(graph.two_hop, nodes), one @ one > 0)
    assert (dense(graph.two_hop, nodes) >= one.astype(bool)).all()


@given(graphs(), st.integers(1, 4))
def test_squaring_a_union_squares_every_copy_by_itself(given_graph, copies):
    edge_index, nodes = given_graph
    graph = Graph.build(edge_index, nodes)
    together = square(union(graph.edges, copies, nodes), copies, nodes)
    assert torch.equal(together, union(graph.two_hop, copies, nodes))


def test_a_star_of_ten_thousand_nodes_keeps_its_own_edges_and_leaves_the_hub_out_as_intermediate():
    nodes = 10_000
    star = np.stack([np.zeros(nodes - 1, dtype=np.int64), np.arange(1, nodes)])
    graph = Graph.build(star, nodes)
    assert torch.equal(graph.two_hop, graph.edges)


def test_the_cap_spares_the_small_hubs_and_takes_the_greatest():
    spokes = [(0, i) for i in range(1, 101)] + [(101, 102), (101, 103)]
    graph = Graph.build(np.array(spokes).T, 104)
    near = dense(graph.two_hop, 104)
    assert near[102, 103]
    assert not near[1, 2]


def test_sorting_keys_and_marking_a_bitmap_give_the_same_edges(monkeypatch):
    rng = np.random.default_rng(3)
    edge_index = rng.integers(0, 200, (2, 300))
    marked = Graph.build(edge_index, 200).two_hop
    monkeypatch.setattr("policies.graph._BITMAP_CELLS", 0)
    assert torch.equal(Graph.build(edge_index, 200).two_hop, marked)


@given(graphs(), st.randoms(use_true_random=False))
def test_the_induced_graph_has_exactly_the_edges_between_the_chosen(given_graph, random):
    edge_index, nodes = given_graph
    graph = Graph.build(edge_index, nodes)
    chosen = sorted(random.sample(range(nodes), random.randint(1, nodes)))
    inner = edges_between(graph.edges, torch.tensor(chosen), nodes)
    assert np.array_equal(dense(inner, len(chosen)), dense(graph.edges, nodes)[np.ix_(chosen, chosen)])


@given(graphs())
def test_the_adjacency_is_symmetric_and_its_largest_eigenvalue_is_one(given_graph):
    edge_index, nodes = given_graph
    matrix = Graph.build(edge_index, nodes).adjacency(2).to_dense().double().numpy()
    assert np.allclose(matrix, matrix.T)
    assert np.isclose(np.linalg.eigvalsh(matrix).max(), 1.0, atol=1e-6)
    assert not matrix[:nodes, nodes:].any()


@settings(max_examples=5)
@given(graphs())
def test_an_equal_graph_is_prepared_once(given_graph):
    edge_index, nodes = given_graph
    assert prepare(edge_index, nodes) is prepare(edge_index.copy(), nodes)


@pytest.mark.parametrize(
    ("edge_index", "nodes", "names"),
    [
        (np.zeros((2, 0), dtype=np.int64), 0, "nodes: expected at least 1, received 0"),
        (np.zeros((3, 2), dtype=np.int64), 4, r"edge_index: expected shape \[2, E\]"),
        (np.array([[0], [4]]), 4, r"edge_index: expected node numbers 0\.\.3, received 0\.\.4"),
    ],
)
def test_a_graph_that_cannot_be_is_refused(edge_index, nodes, names):
    with pytest.raises(ValueError, match=names):
        Graph.build(edge_index, nodes)


@pytest.mark.parametrize("nodes", [1, 7, 60])
def test_sparse_and_dense_neighbours_agree_to_rounding(nodes):
    rng = np.random.default_rng(nodes)
    graph = Graph.build(rng.integers(0, nodes, (2, 2 * nodes)), nodes)
    rows = torch.from_numpy(rng.standard_normal((2 * nodes, 5)).astype(np.float32))
    sparse = torch.sparse.mm(graph.adjacency(2), rows).view(2, nodes, -1)
    degree = torch.bincount(graph.edges[1], minlength=nodes).float()
    dense = torch.zeros(nodes, nodes)
    for source, target in graph.edges.T.tolist():
        dense[target, source] = 1 / (degree[source] * degree[target]).sqrt()
    torch.testing.assert_close(sparse, dense @ rows.view(2, nodes, -1))
