"""The graph to partition, as arrays: nodes with weights and times, edges with transfers.

Deviations from the MCM paper (section 3), whose graphs are not published: nodes are the ops of a workload, a node's
time is its operations at the package's peak rate, and two reads of one op by another are one edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.package import Package
from workloads.errors import InputError
from workloads.importers.placement_json import PlacementGraph
from workloads.workload import Workload


@dataclass(frozen=True)
class Graph:
    """A graph of N nodes and E edges, no edge twice and none from a node to itself.

    Attributes:
        name: what it was made of.
        nodes: names, N of them.
        edges: int64 [E, 2], the node that is read and the node that reads it, ascending.
        weight_bytes: int64 [N], held on the chip of the node.
        compute_s: float64 [N], seconds (of a profiled instance: in the unit of its file).
        transfer_bytes: int64 [E], what crosses if the two ends lie on different chips.
        transfer_s: float64 [E], measured times of these transfers in the unit of `compute_s`, or None.
    """

    name: str
    nodes: tuple[str, ...]
    edges: NDArray[np.int64]
    weight_bytes: NDArray[np.int64]
    compute_s: NDArray[np.float64]
    transfer_bytes: NDArray[np.int64]
    transfer_s: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.nodes)


def of_workload(workload: Workload, package: Package) -> Graph:
    """The graph of a workload: a node an op, at its own latency or else its operations at the package's peak rate."""
    peak = package.chip.peak_ops
    times = [
        op.latency_s
        if op.latency_s is not None
        else ((2 * op.gemm.macs if op.gemm is not None else 0) + op.vector_ops) / peak
        for op in workload
    ]
    edges = np.array([e[:2] for e in workload.edges()], np.int64).reshape(-1, 2)
    sizes = np.array([e[2] for e in workload.edges()], np.int64)
    return merge_edges(
        Graph(
            workload.name,
            tuple(op.name for op in workload),
            edges,
            np.array([op.weight_bytes for op in workload], np.int64),
            np.array(times, np.float64),
            sizes,
        )
    )


def of_placement(instance: PlacementGraph) -> Graph:
    """The graph of a profiled instance, its nodes in the order of the file."""
    return merge_edges(
        Graph(
            instance.name,
            instance.nodes,
            instance.edges,
            instance.size_bytes,
            instance.latency,
            instance.transfer_bytes,
            instance.transfer_time,
        )
    )


def merge_edges(graph: Graph) -> Graph:
    """The same graph with edges ascending, each once (of several the transfers add up), none from a node to itself."""
    keep = graph.edges[:, 0] != graph.edges[:, 1]
    edges, where = np.unique(graph.edges[keep], axis=0, return_inverse=True)
    where = where.reshape(-1)
    sizes = np.zeros(len(edges), np.int64)
    np.add.at(sizes, where, graph.transfer_bytes[keep])
    times = None
    if graph.transfer_s is not None:
        times = np.bincount(where, graph.transfer_s[keep], len(edges)).astype(np.float64)
    return replace(graph, edges=edges.reshape(-1, 2), transfer_bytes=sizes, transfer_s=times)


def contract(graph: Graph, group: Sequence[int] | NDArray[np.int64]) -> tuple[Graph, NDArray[np.int64]]:
    """Nodes that must lie on one chip as one node: those of a group, and those on a cycle of groups.

    Under the acyclic rule the nodes of a cycle can only share a chip. An assignment [B, M] of the small graph is
    `assignment[:, member]` [B, N] of the large one.

    Returns:
        The graph of M nodes, in an order in which every edge points forward, and member int64 [N].

    Raises:
        ValueError: `group` is not one number per node.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if len(group) != len(graph):
        raise ValueError(f"group: expected {len(graph)} numbers, received {len(group)}")
    first = np.unique(np.asarray(group, np.int64), return_inverse=True)[1].reshape(-1)
    ends = first[graph.edges]
    ones = np.ones(len(ends), np.int8)
    count = int(first.max(initial=-1)) + 1
    matrix = coo_array((ones, (ends[:, 0], ends[:, 1])), shape=(count, count))
    parts = connected_components(matrix, directed=True, connection="strong")[1]
    member = parts[first].astype(np.int64)
    order = topological(int(member.max(initial=-1)) + 1, member[graph.edges])
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    member = position[member]
    names: list[list[str]] = [[] for _ in range(len(order))]
    for node, name in enumerate(graph.nodes):
        names[member[node]].append(name)
    held = np.zeros(len(order), np.int64)
    np.add.at(held, member, graph.weight_bytes)
    small = Graph(
        graph.name,
        tuple(part[0] if len(part) == 1 else f"{part[0]} and {len(part) - 1} more" for part in names),
        member[graph.edges],
        held,
        np.bincount(member, graph.compute_s, len(order)).astype(np.float64),
        graph.transfer_bytes,
        graph.transfer_s,
    )
    return merge_edges(small), member


def topological(count: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Nodes int64 [count] in an order in which edges int64 [E, 2] point forward, smallest number first.

    Raises:
        InputError: the edges have a cycle.
    """
    import heapq

    readers: list[list[int]] = [[] for _ in range(count)]
    waiting = np.zeros(count, np.int64)
    for u, v in edges.tolist():
        if u != v:
            readers[u].append(v)
            waiting[v] += 1
    ready = [v for v in range(count) if waiting[v] == 0]
    order = []
    while ready:
        u = heapq.heappop(ready)
        order.append(u)
        for v in readers[u]:
            waiting[v] -= 1
            if waiting[v] == 0:
                heapq.heappush(ready, v)
    if len(order) < count:
        stuck = [v for v in range(count) if waiting[v] > 0]
        raise InputError(
            f"edges: expected no cycle, found one among {len(stuck)} nodes, node {stuck[0]} one of them"
        )
    return np.array(order, np.int64)
