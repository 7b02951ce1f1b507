"""A workload's graph as a policy uses it: prepared once, reused by every forward pass.

Edges are undirected with self loops, as int64 [2, E] (source, target), sorted by (target, source). Several
equal-sized graphs are handled as one *union*: copy m of node i is node m * nodes + i.

Source: Gao and Ji, "Graph U-Nets" (ICML 2019), section 3.3: pooled graphs are connected by the second power
of the adjacency.

Deviations:
- Only the pattern of the second power matters, because graph attention reads no edge weight.
- The number of two-edge paths is capped at `PATHS_PER_NODE` a node. While it is greater, the nodes with the
  greatest in-degree x out-degree (the last, if several are equal) are left out as intermediates. Their own edges
  stay. A chain and the usual networks never reach the cap; a star of 10,000 nodes would make 10^8 paths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PATHS_PER_NODE = 32
"""Cap on the two-edge paths of a graph, a node."""
_BITMAP_CELLS = 1 << 24
"""Greatest adjacency bitmap (bytes) that is preferred to sorting edge keys; both give the same edges."""


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph and everything about it that no weight changes.

    Attributes:
        nodes: N.
        edges: int64 [2, E], both directions and self loops, sorted by (target, source).
        two_hop: int64 [2, E2], pairs at most two edges apart (up to the cap), self loops too, same order.
        normalisation: float32 [E], 1 / sqrt(degree(source) degree(target)), self loops counted.
    """

    nodes: int
    edges: Tensor
    two_hop: Tensor
    normalisation: Tensor
    _adjacency: dict[int, Tensor] = field(default_factory=dict, repr=False)
    _elsewhere: dict[str, Graph] = field(default_factory=dict, repr=False)

    @staticmethod
    def build(edge_index: NDArray[np.int64], nodes: int) -> Graph:
        """The graph of directed edges int64 [2, E]; duplicates, self loops and isolated nodes are fine.

        Raises ValueError where `nodes` < 1 or an edge has an end outside 0 .. nodes-1 or the shape is wrong.
        """
        ends = np.asarray(edge_index, dtype=np.int64)
        if nodes < 1:
            raise ValueError(f"nodes: expected at least 1, received {nodes}")
        if ends.ndim != 2 or ends.shape[0] != 2:
            raise ValueError(f"edge_index: expected shape [2, E], received {list(ends.shape)}")
        if ends.size and (ends.min() < 0 or ends.max() >= nodes):
            raise ValueError(
                f"edge_index: expected node numbers 0..{nodes - 1}, received {ends.min()}..{ends.max()}"
            )
        own = np.arange(nodes, dtype=np.int64)
        source = np.concatenate([ends[0], ends[1], own])
        target = np.concatenate([ends[1], ends[0], own])
        key = np.unique(target * nodes + source)
        edges = torch.from_numpy(np.stack([key % nodes, key // nodes]))
        degree = torch.bincount(edges[1], minlength=nodes).float()
        normalisation = (degree[edges[0]] * degree[edges[1]]).rsqrt()
        return Graph(nodes, edges, square(edges, 1, nodes), normalisation)

    def on(self, device: torch.device) -> Graph:
        """The graph with its tensors on a device; remembered."""
        if self.edges.device == device:
            return self
        if str(device) not in self._elsewhere:
            with torch.inference_mode(False):
                self._elsewhere[str(device)] = Graph(
                    self.nodes, self.edges.to(device), self.two_hop.to(device), self.normalisation.to(device)
                )
        return self._elsewhere[str(device)]

    @cached_property
    def links(self) -> Tensor:
        """int64 [2, E'], the edges without self loops: what the layers of torch-geometric expect."""
        with torch.inference_mode(False):  # it outlives the caller, and others will train on it
            return self.edges[:, self.edges[0] != self.edges[1]]

    def adjacency(self, copies: int) -> Tensor:
        """Symmetric normalised sparse adjacency [copies * N, copies * N] of disjoint copies; remembered."""
        if copies not in self._adjacency:
            size = copies * self.nodes
            with torch.inference_mode(False):  # it outlives the caller, and others will train on it
                self._adjacency[copies] = torch.sparse_coo_tensor(
                    union(self.edges, copies, self.nodes).flip(0),
                    self.normalisation.repeat(copies),
                    (size, size),
                    is_coalesced=True,
                    check_invariants=False,
                )
        return self._adjacency[copies]


@lru_cache(maxsize=16)
def _build_cached(edge_bytes: bytes, nodes: int) -> Graph:
    with torch.inference_mode(False):
        return Graph.build(np.frombuffer(edge_bytes, dtype=np.int64).reshape(2, -1), nodes)


def prepare(edge_index: NDArray[Any], nodes: int) -> Graph:
    """`Graph.build`, remembered for the last few graphs. Raises ValueError as `Graph.build` does."""
    ends = np.ascontiguousarray(edge_index, dtype=np.int64)
    if ends.ndim != 2 or ends.shape[0] != 2:
        raise ValueError(f"edge_index: expected shape [2, E], received {list(ends.shape)}")
    return _build_cached(ends.tobytes(), nodes)


def union(edges: Tensor, copies: int, nodes: int) -> Tensor:
    """Edges [2, copies * E] of `copies` disjoint copies of a graph of `nodes` nodes with edges [2, E]."""
    if copies == 1:
        return edges
    shift = torch.arange(copies, device=edges.device).mul_(nodes)
    return (edges[:, None, :] + shift[None, :, None]).reshape(2, -1)


def square(edges: Tensor, copies: int, nodes: int) -> Tensor:
    """Pairs at most two edges apart in each of `copies` disjoint graphs of `nodes` nodes, capped a graph.

    `edges` int64 [2, E] must be symmetric with self loops and sorted by (target, source); so is the result.
    """
    # A node of degree d is the middle of d x d paths. Nodes are middles from the smallest degree on, as long as the
    # paths so far stay within the cap: `through` says which.
    total = copies * nodes
    source, target = edges
    degree = torch.bincount(target, minlength=total)
    paths = (degree * degree).view(copies, nodes)
    ascending, order = paths.sort(dim=1, stable=True)
    fits = ascending.cumsum(dim=1) <= PATHS_PER_NODE * nodes
    through = torch.empty_like(fits).scatter_(1, order, fits).view(-1)

    # For each edge start -> centre all edges into the centre, which by symmetry lead out of it, too. They lie side by
    # side from first[centre] on: `step` counts through them, edge after edge.
    first = torch.cumsum(degree, 0) - degree
    middle = through[target]
    start, centre = source[middle], target[middle]
    fan = degree[centre]
    begin = torch.cumsum(fan, 0) - fan
    step = torch.arange(int(fan.sum()), device=edges.device) + (first[centre] - begin).repeat_interleave(fan)
    ends = source[step]
    starts = start.repeat_interleave(fan)
    return _unique_edges(torch.cat([starts, source]), torch.cat([ends, target]), copies, nodes)


def _unique_edges(source: Tensor, target: Tensor, copies: int, nodes: int) -> Tensor:
    """Distinct edges within the copies, sorted by (target, source)."""
    # (member, target, source) as one number: sorted keys are sorted edges, and both ways remove duplicates.
    key = target * nodes + source % nodes
    if copies * nodes * nodes <= _BITMAP_CELLS:
        bitmap = torch.zeros(copies * nodes * nodes, dtype=torch.bool, device=key.device)
        bitmap[key] = True
        key = bitmap.nonzero().view(-1)
    else:
        key = torch.unique(key)
    target = key // nodes
    return torch.stack([key % nodes + target // nodes * nodes, target])


def edges_between(edges: Tensor, chosen: Tensor, total: int) -> Tensor:
    """Edges between the `chosen` nodes (ascending int64 [K]) of `total`, renumbered 0 .. K-1, order kept."""
    # -1 marks nodes that are left out. Numbers rise with the nodes, so that the edges stay sorted.
    number = torch.full((total,), -1, device=edges.device)
    number[chosen] = torch.arange(len(chosen), device=edges.device)
    renumbered = number[edges]
    return renumbered[:, (renumbered >= 0).all(dim=0)]
