"""The network to partition: nodes of a workload or of a profiled instance, for solver, costs and policies.

Deviations from the MCM paper, whose graphs are not published: a node is an op; nodes that feed many others are copied
and stand before their reader; nodes that must share a chip are one. A tensor is what all readers of a node read: the
widest read, no more than the node makes.

Nodes that many read are copied so that the triangle rule does not tie the readers to two chips. Under the rule a node
that feeds every layer of a chain (an attention mask) must lie on the first chip that reads it and be sent to one
other at most: two chips hold the whole model. A compiler computes such a node again where it is read, or sends it
along. This pass is the first of these; the paper says nothing of such nodes.

A node is copied for each of its readers if it has at least `readers` of them. All nodes that it is computed from are
copied with it: else they would be tied in its place. They must be few, and each must hold no more than
`max_weight_bytes` of weights, since every copy holds the weights and computes anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.cost import Tables
from hwsim.mcm.graph import Graph, contract, merge_edges, of_placement, of_workload, topological
from hwsim.mcm.package import Package
from workloads.errors import InputError
from workloads.features import FEATURES, SIZE_SCALE, static_features
from workloads.importers.placement_json import PlacementGraph, to_json
from workloads.serialize import to_json as workload_json
from workloads.workload import Op, Workload

SCHEMA_VERSION = 201
"""Version of the columns of `Network.features`; changes whenever one changes."""
OWN_FEATURES = ("fair_share", "work_before", "depth", "tensor_size")
"""Behind the columns of `workloads.features`: log1p of a node's time in shares of a chip; the share of all time that
the nodes before it take, in the order of the nodes; its longest path from an input as a share of the longest; log1p
of its tensor in bytes, scaled like the other sizes."""


@dataclass(frozen=True)
class Network:
    """N nodes in an order in which every edge points forward.

    Attributes:
        graph: for the solver.
        tables: for costs and rules.
        made_bytes: int64 [N], the activation that a node makes, whether read or not.
        moved_bytes: int64 [N], weights, inputs and output that a node moves; 0 if its time was measured with them.
        kinds: of op, N of them.
        run_s: float64 [N], seconds of a node on the device (`hwsim/mcm/device.py`) with its launch.
        copy: bool [N], whether it is a copy of a widely read node.
        features: float32 [N, F].
        text: the input as JSON, from which it can be made again.
    """

    graph: Graph
    tables: Tables
    made_bytes: NDArray[np.int64]
    moved_bytes: NDArray[np.int64]
    kinds: tuple[str, ...]
    run_s: NDArray[np.float64]
    copy: NDArray[np.bool_]
    features: NDArray[np.float32]
    text: str


class _Parts(NamedTuple):
    """The columns of `Tables` and `Network` that differ between workloads and instances."""

    tensors: dict[str, NDArray]
    made: NDArray[np.int64]
    moved: NDArray[np.int64]
    kinds: tuple[str, ...]
    copy: NDArray[np.bool_]
    static: NDArray[np.float32]


def network(given: Workload | PlacementGraph, package: Package, copies: bool = True) -> Network:
    """A network to split over the chips of a package.

    Args:
        given: a workload or a profiled instance.
        package: its chips, links and rules.
        copies: whether widely read nodes without weights are copied for each reader (workloads only).

    Raises:
        InputError: no nodes, a cycle, or no time at all.
    """
    if isinstance(given, PlacementGraph):
        return _of_instance(given, package)
    return _of_workload(given, package, copies)


def _of_workload(workload: Workload, package: Package, copies: bool) -> Network:
    large, origin = of_workload(workload, package), np.arange(len(workload))
    if copies:
        large, origin = clone_shared(large)
    copy = np.arange(len(large)) >= len(workload)
    reader = np.arange(len(large))
    for u, v in large.edges.tolist():
        reader[u] = v if copy[u] else reader[u]
    while copy[reader].any():
        reader = reader[reader]
    order = np.lexsort((~copy, reader))
    graph, origin = _reorder(large, order), origin[order]
    made = np.array([op.output_bytes for op in workload], np.int64)[origin]
    read = np.array([op.weight_moved_bytes for op in workload], np.int64)[origin]
    measured = np.array([op.latency_s is not None for op in workload])[origin]
    peeked = np.zeros(len(graph), np.int64)
    np.add.at(peeked, graph.edges[:, 1], graph.transfer_bytes)
    moved = np.where(measured, 0, made + read + peeked)
    kinds = tuple(workload.ops[n].kind for n in origin.tolist())
    tensors = _tensors(graph, np.arange(len(graph)), made, package)
    static = static_features(workload)[origin]
    made_of = _Parts(tensors, made, moved, kinds, copy[order], static)
    return _network(graph, made_of, workload_json(workload), package)


def _of_instance(instance: PlacementGraph, package: Package) -> Network:
    raw = of_placement(instance)
    _refuse_cycle(raw)
    graph, member = contract(raw, instance.group)
    most = np.zeros(len(raw), np.int64)
    np.maximum.at(most, raw.edges[:, 0], raw.transfer_bytes)
    made = np.zeros(len(graph), np.int64)
    np.add.at(made, member, most)
    blank = [
        Op(name, "other", (), (0, 0, 0), (0, 0, 0), int(size), weight_bytes=int(held))
        for name, size, held in zip(graph.nodes, made, graph.weight_bytes, strict=True)
    ]
    static = static_features(Workload(instance.name, tuple(blank)))
    no_copy = np.zeros(len(graph), np.bool_)
    kinds = tuple(op.kind for op in blank)
    parts = _Parts(_tensors(raw, member, most, package), made, np.zeros_like(made), kinds, no_copy, static)
    return _network(graph, parts, to_json(instance), package)


def _refuse_cycle(graph: Graph) -> None:
    try:
        topological(len(graph), graph.edges)
    except InputError:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        ones = np.ones(len(graph.edges), np.int8)
        matrix = coo_array((ones, graph.edges.T), shape=(len(graph), len(graph)))
        part = connected_components(matrix, directed=True, connection="strong")[1]
        cycle = np.flatnonzero(part == np.argmax(np.bincount(part)))
        raise InputError(
            f"{graph.name}: edges: expected no cycle, found one among {len(cycle)} nodes,"
            f" {graph.nodes[cycle[0]]!r} and {graph.nodes[cycle[1]]!r} among them; nodes of one colorClass may form one"
        ) from None


def _reorder(graph: Graph, order: NDArray[np.int64]) -> Graph:
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    ends = position[graph.edges]
    sort = np.lexsort((ends[:, 1], ends[:, 0]))
    return replace(
        graph,
        nodes=tuple(graph.nodes[n] for n in order.tolist()),
        edges=np.ascontiguousarray(ends[sort]),
        weight_bytes=graph.weight_bytes[order],
        compute_s=graph.compute_s[order],
        transfer_bytes=graph.transfer_bytes[sort],
        transfer_s=None if graph.transfer_s is None else graph.transfer_s[sort],
    )


def _tensors(
    graph: Graph, member: NDArray[np.int64], made: NDArray[np.int64], package: Package
) -> dict[str, NDArray]:
    """The columns of `Tables` about tensors: one tensor per node of `graph`, as the members that other members read."""
    readers: list[set[int]] = [set() for _ in range(len(graph))]
    widest, longest = np.zeros(len(graph), np.int64), np.zeros(len(graph))
    times = (
        graph.transfer_bytes / package.link.bandwidth_Bps if graph.transfer_s is None else graph.transfer_s
    )
    for (u, v), size, seconds in zip(graph.edges.tolist(), graph.transfer_bytes, times, strict=True):
        if member[u] != member[v]:
            readers[u].add(int(member[v]))
            widest[u], longest[u] = max(widest[u], size), max(longest[u], seconds)
    if graph.transfer_s is None:
        widest = np.minimum(widest, made)
        longest = widest / package.link.bandwidth_Bps
    read = [u for u in range(len(graph)) if readers[u]]
    counts = [len(readers[u]) for u in read]
    return {
        "source": member[np.array(read, np.int64)],
        "read_start": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "reader": np.array([v for u in read for v in sorted(readers[u])], np.int64),
        "tensor_s": longest[np.array(read, np.int64)],
        "tensor_bytes": widest[np.array(read, np.int64)],
    }


def _network(graph: Graph, parts: _Parts, text: str, package: Package) -> Network:
    total = float(graph.compute_s.sum())
    if not total > 0:
        raise InputError(f"{graph.name}: expected nodes that take time, found {total:g} seconds in all")
    rules = package.constraints
    tables = Tables(
        compute_s=graph.compute_s,
        size_bytes=np.maximum(graph.weight_bytes + parts.made, 1),
        weight_bytes=graph.weight_bytes,
        edges=graph.edges,
        **parts.tensors,
        chips=package.chips,
        transfers=int(package.load == "compute+transfers"),
        acyclic=int(rules.acyclic),
        no_skip=int(rules.no_skip),
        triangle=int(rules.triangle),
        capacity=package.chip.sram_bytes if rules.memory else -1,
    )
    depth = np.zeros(len(graph), np.int64)
    for u, v in graph.edges.tolist():
        depth[v] = max(depth[v], depth[u] + 1)
    size = np.zeros(len(graph))
    np.maximum.at(size, tables.source, tables.tensor_bytes)
    own = np.stack(
        [
            np.log1p(graph.compute_s * package.chips / total),
            (np.cumsum(graph.compute_s) - graph.compute_s) / total,
            depth / max(1, depth.max()),
            np.log1p(size) * SIZE_SCALE,
        ],
        axis=1,
    )
    features = np.concatenate([parts.static, own], axis=1).astype(np.float32)
    assert features.shape[1] == len(FEATURES) + len(OWN_FEATURES)
    moving_s = parts.moved / package.device.sram_Bps
    run_s = np.maximum(graph.compute_s, moving_s) + package.device.launch_s
    return Network(graph, tables, parts.made, parts.moved, parts.kinds, run_s, parts.copy, features, text)


def distinct_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, with their position behind those that come again."""
    seen: set[str] = set()
    out = []
    for number, name in enumerate(names):
        own = name if name not in seen else f"{name} #{number}"
        while own in seen:
            own += "'"
        seen.add(own)
        out.append(own)
    return tuple(out)


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
