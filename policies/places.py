"""What a ranking network reads and writes: the tensors of a graph, and a score for each in each memory.

A problem's placer says which tensors there are and what is to be seen of putting each in each memory.
Coefficients are given for two *ends*, the slowest and the fastest of the memories above memory 0; those of a memory
between are interpolated by its position. So one network serves any number of memories.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from policies.boltzmann import boltzmann

if TYPE_CHECKING:
    from policies.graph import Graph

ENDS = 2
"""Coefficients and outputs a tensor: for the slow and for the fast end of the memories."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Means:
    """For some nodes the mean over others: of `nodes[k]` that over `over[start[k]]` to the next start, int64."""

    nodes: NDArray[np.int64]
    start: NDArray[np.int64]
    over: NDArray[np.int64]

    @staticmethod
    def of(nodes: NDArray[np.int64], over: NDArray[np.int64]) -> Means:
        """The mean for each of `nodes` over all `over[e]` with the same `nodes[e]`, int64 [E] both."""
        order = np.argsort(nodes, kind="stable")
        distinct, start = np.unique(nodes[order], return_index=True)
        return Means(distinct, start, over[order])

    def __call__(self, values: Floats) -> Floats:
        """Float32 [N, V] of values float32 [N, V]; 0 for nodes without others."""
        found = np.zeros_like(values)
        if len(self.over):
            count = np.diff(np.append(self.start, len(self.over)))
            found[self.nodes] = np.add.reduceat(values[self.over], self.start, axis=0) / count[:, None]
        return found


class Placer(Protocol):
    """What a problem places tensors by rank with, as far as it is read here; see `Places`."""

    node: NDArray[np.int64]
    head: NDArray[np.int64]
    features: Floats
    offset: int


@dataclass(frozen=True, eq=False)
class Places:
    """T tensors of a graph with N nodes and H decisions a node, in L memories.

    Attributes:
        node, head: int64 [T], the decision that places each tensor.
        features: float32 [T, L, F].
        shape: (N, H).
        edge_index: int64 [2, E], directed edges between nodes (producer, consumer); None: nobody asks for them.
        offset: memory l is choice l - offset of a decision.
    """

    node: NDArray[np.int64]
    head: NDArray[np.int64]
    features: Floats
    shape: tuple[int, int]
    edge_index: NDArray[np.int64] | None = None
    offset: int = 0

    @staticmethod
    def of(placer: Placer, shape: tuple[int, int], edge_index: NDArray[np.int64] | None = None) -> Places:
        """What a problem's placer shows of its tensors; `shape` is that of a mapping, (N, H)."""
        return Places(placer.node, placer.head, placer.features, shape, edge_index, placer.offset)

    def with_features(self, more: Floats) -> Places:
        """The same with features float32 [T, L, G] after its own."""
        return replace(self, features=np.concatenate([self.features, more], axis=2))

    def with_blank(self, more: int) -> Places:
        """The same with so many features that are 0."""
        return self.with_features(np.zeros((*self.features.shape[:2], more), np.float32))

    @cached_property
    def ends(self) -> Floats:
        """float32 [L, 2], the shares of the slow and the fast end in each memory; 0 in memory 0."""
        levels = self.features.shape[1]
        fast = (np.arange(1, levels) - 1) / (levels - 2) if levels > 2 else np.ones(max(levels - 1, 0))
        return np.concatenate([np.zeros((1, 2)), np.stack([1 - fast, fast], axis=1)]).astype(np.float32)

    @cached_property
    def of_nodes(self) -> Floats:
        """float32 [N, H F], the mean of a tensor's features over the memories above 0; 0 where there is no tensor."""
        nodes, heads = self.shape
        out = np.zeros((nodes, heads, self.features.shape[2]), np.float32)
        if self.features.shape[1] > 1:
            out[self.node, self.head] = self.features[:, 1:].mean(axis=1)
        return out.reshape(nodes, -1)

    @cached_property
    def rows(self) -> Floats:
        """float32 [T, L - 1, F + 2 + H], of a tensor in each memory above 0: features, ends of the memory, decision."""
        tensors, levels, _ = self.features.shape
        ends = np.broadcast_to(self.ends[1:], (tensors, levels - 1, ENDS))
        heads = np.broadcast_to(
            np.eye(self.shape[1])[self.head][:, None], (tensors, levels - 1, self.shape[1])
        )
        return np.concatenate([self.features[:, 1:], ends, heads], axis=2).astype(np.float32)

    @cached_property
    def graph(self) -> Graph:
        """What networks over the graph read. ValueError if edges are unknown."""
        from policies.graph import Graph  # torch, which other networks do without

        return Graph.build(self._edges, self.shape[0])

    @property
    def _edges(self) -> NDArray[np.int64]:
        if self.edge_index is None:
            raise ValueError("edge_index: expected the edges of the graph, received None")
        return self.edge_index

    @cached_property
    def neighbours(self) -> tuple[Means, Means]:
        """What takes values of nodes to means over producers, and over consumers. ValueError if edges are unknown."""
        source, target = self._edges
        return Means.of(target, source), Means.of(source, target)

    def linear(self, coefficients: Floats) -> Floats:
        """Scores float32 [M, T, L] of coefficients [M, H, 2, F]: features times those of the tensor's decision.

        Sums are in float64: rounded after that, they depend neither on the order of the terms, which a library of
        linear algebra chooses by the sizes and by the machine, nor on how many members there are.
        """
        members, levels = len(coefficients), self.features.shape[1]
        of_memory = np.einsum("le,mhef->mhlf", self.ends, coefficients, dtype=np.float64)
        scores = np.zeros((members, len(self.node), levels), np.float32)
        for head in range(self.shape[1]):
            rows = np.flatnonzero(self.head == head)
            for level in range(1, levels):
                scores[:, rows, level] = of_memory[:, head, level] @ self._wide[rows, level].T
        return scores

    @cached_property
    def _wide(self) -> NDArray[np.float64]:
        return self.features.astype(np.float64)

    def between_ends(self, outputs: Floats) -> Floats:
        """Scores float32 [M, T, L] of a network's outputs [M, N, H, 2], one for each end."""
        scores: Floats = outputs[:, self.node, self.head] @ self.ends.T
        return scores

    def scores_of(self, priors: Floats) -> Floats:
        """Scores float32 [M, T, L] of priors [M, N, H, C] of each decision, less that of memory 0."""
        levels = self.features.shape[1]
        scores = np.zeros((len(priors), len(self.node), levels), np.float32)
        scores[:, :, self.offset :] = priors[:, self.node, self.head, : levels - self.offset]
        return scores - scores[:, :, :1]

    def priors_of(self, scores: Floats, choices: int) -> Floats:
        """The inverse of `scores_of`: float32 [M, N, H, C] of scores [M, T, L]; 0 for what is no tensor's."""
        priors = np.zeros((len(scores), *self.shape, choices), np.float32)
        priors[:, self.node, self.head, : scores.shape[2] - self.offset] = scores[:, :, self.offset :]
        return priors

    def probabilities(self, scores: Floats, num_choices: NDArray[np.int16], choices: int) -> Floats:
        """Probabilities float32 [M, N, H, C]: the softmax of the scores [M, T, L] of each decision by itself."""
        logits = self.priors_of(scores, choices)
        return boltzmann(logits, np.ones(logits.shape[:-1], np.float32), num_choices)
