"""Copies of nodes that many read, so that the triangle rule does not tie the readers to two chips.

Under the rule a node that feeds every layer of a chain (an attention mask) must lie on the first chip that reads it and
be sent to one other at most: two chips hold the whole model. A compiler computes such a node again where it is read, or
sends it along. This pass is the first of these; the paper says nothing of such nodes.

A node is copied, a copy a reader, if it has at least `readers` readers, reads nothing itself (what it reads would be
tied in its place) and holds no more than `max_weight_bytes` of weights, which every copy holds and every copy computes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.graph import Graph, merged_edges


def cloned(graph: Graph, readers: int = 3, max_weight_bytes: int = 0) -> tuple[Graph, NDArray[np.int64]]:
    """The graph with a copy of each widely read source for each of its readers.

    Returns:
        The graph of M >= N nodes, copies at the end and the original serving the first reader; and int64 [M], the node
        that each is or copies.
    """
    reads = np.bincount(graph.edges[:, 1], minlength=len(graph))
    fans = np.bincount(graph.edges[:, 0], minlength=len(graph))
    copied = (fans >= readers) & (reads == 0) & (graph.weight_bytes <= max_weight_bytes)
    edges, origin, nodes = graph.edges.copy(), list(range(len(graph))), list(graph.nodes)
    seen: set[int] = set()
    for at, source in enumerate(graph.edges[:, 0].tolist()):
        if not copied[source]:
            continue
        if source in seen:
            edges[at, 0] = len(nodes)
            nodes.append(f"{graph.nodes[source]} for {graph.nodes[edges[at, 1]]}")
            origin.append(source)
        seen.add(source)
    of = np.array(origin, np.int64)
    larger = Graph(
        graph.name,
        tuple(nodes),
        edges,
        graph.weight_bytes[of],
        graph.compute_s[of],
        graph.transfer_bytes,
        graph.transfer_s,
    )
    return merged_edges(larger), of
