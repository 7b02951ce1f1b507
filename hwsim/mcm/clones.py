"""Copies of nodes that many read, so that the triangle rule does not tie the readers to two chips.

Under the rule a node that feeds every layer of a chain (an attention mask) must lie on the first chip that reads it and
be sent to one other at most: two chips hold the whole model. A compiler computes such a node again where it is read, or
sends it along. This pass is the first of these; the paper says nothing of such nodes.

A node is copied for each of its readers if it has at least `readers` of them. All nodes that it is computed from are
copied with it: else they would be tied in its place. They must be few, and each must hold no more than
`max_weight_bytes` of weights, since every copy holds the weights and computes anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.graph import Graph, merge_edges, topological


def clone_shared(
    graph: Graph, readers: int = 3, max_weight_bytes: int = 0, max_nodes: int = 8
) -> tuple[Graph, NDArray[np.int64]]:
    """The graph with a copy of each widely read node, and of the up to `max_nodes` it comes from, for each reader.

    Returns:
        The graph of M >= N nodes, copies at the end and the original serving the first reader; and int64 [M], the node
        that each is or copies.
    """
    count = len(graph)
    edges: list[tuple[int, int, int]] = [
        (u, w, at) for at, (u, w) in enumerate(graph.edges.tolist())
    ]  # at: the edge that this is or copies
    into: list[list[int]] = [[] for _ in range(count)]
    out: list[list[int]] = [[] for _ in range(count)]
    for at, (u, w, _) in enumerate(edges):
        into[w].append(at)
        out[u].append(at)
    origin, nodes = list(range(count)), list(graph.nodes)
    order = topological(count, graph.edges).tolist()
    cones = _cones(order, [[edges[at][0] for at in row] for row in into], max_nodes)
    for source in reversed(order):
        cone = cones[source]
        if len(out[source]) < readers or not cone or (graph.weight_bytes[cone] > max_weight_bytes).any():
            continue
        for at in out[source][1:]:
            reader = edges[at][1]
            copy = dict(zip(cone, range(len(nodes), len(nodes) + len(cone)), strict=True))
            nodes += [f"{graph.nodes[v]} for {nodes[reader]}" for v in cone]
            origin += cone
            edges[at] = (copy[source], reader, edges[at][2])
            edges += [(copy[edges[k][0]], copy[v], edges[k][2]) for v in cone for k in into[v]]
    of = np.array(origin, np.int64)
    ends = np.array(edges, np.int64).reshape(-1, 3)
    larger = Graph(
        graph.name,
        tuple(nodes),
        np.ascontiguousarray(ends[:, :2]),
        graph.weight_bytes[of],
        graph.compute_s[of],
        graph.transfer_bytes[ends[:, 2]],
        None if graph.transfer_s is None else graph.transfer_s[ends[:, 2]],
    )
    return merge_edges(larger), of


def _cones(order: list[int], reads: list[list[int]], most: int) -> list[list[int]]:
    """Each node with all that it is computed from, ascending; empty if these are more than `most`."""
    cones: list[list[int]] = [[] for _ in order]
    for v in order:
        cone = {v}.union(*(cones[u] for u in reads[v]))
        if len(cone) <= most and all(cones[u] for u in reads[v]):
            cones[v] = sorted(cone)
    return cones
