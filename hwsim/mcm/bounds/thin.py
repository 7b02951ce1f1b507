"""Smaller graphs whose best split is no dearer: some nodes are left out, what depended on what through them is kept.

A split of all nodes, read on those that are left, keeps acyclicity, since a node left out stands between what it reads
and what reads it; no chip has more work or weights there, and no link carries more. So the cheapest split of what is
left is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.cost import Tables

SHARES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares of all work, or of one chip's memory, that nodes left out have together at most; equals go together."""


def smaller_selections(tables: Tables, needed: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """Nodes that are left, int64 [K] ascending: all that are `needed` (bool [N]) first, then fewer and fewer."""
    whole = np.flatnonzero(needed)
    yield whole
    size = tables.compute_s / tables.compute_s.sum()
    if tables.capacity > 0:
        size = np.maximum(size, tables.weight_bytes / tables.capacity)
    sizes = np.sort(size[whole])
    together = np.cumsum(sizes)[np.searchsorted(sizes, size[whole] * (1 + 1e-9), side="right") - 1]
    before = len(whole)
    for share in SHARES:
        kept = whole[together > share]
        if 0 < len(kept) < before:
            before = len(kept)
            yield kept


def thin(tables: Tables, kept: NDArray[np.int64]) -> Tables:
    """The tables of some nodes, int64 [K] ascending, and of the tensors between them; edges point forward in number."""
    position = np.full(len(tables.compute_s), -1, np.int64)
    position[kept] = np.arange(len(kept))
    reads: list[set[int]] = [set() for _ in position]  # of kept nodes, by way of nodes left out
    for u, v in tables.edges[np.argsort(tables.edges[:, 1], kind="stable")].tolist():
        reads[v] |= {u} if position[u] >= 0 else reads[u]
    edges = [(int(position[u]), k) for k, v in enumerate(kept.tolist()) for u in sorted(reads[v])]
    rows = [
        (
            k,
            [
                position[v]
                for v in tables.reader[tables.read_start[k] : tables.read_start[k + 1]]
                if position[v] >= 0
            ],
        )
        for k in range(len(tables.source))
        if position[tables.source[k]] >= 0
    ]
    rows = [(k, readers) for k, readers in rows if readers]
    tensors = np.array([k for k, _ in rows], np.int64)
    return tables._replace(
        compute_s=tables.compute_s[kept],
        size_bytes=tables.size_bytes[kept],
        weight_bytes=tables.weight_bytes[kept],
        edges=np.array(edges, np.int64).reshape(-1, 2),
        source=position[tables.source[tensors]],
        read_start=np.concatenate([[0], np.cumsum([len(r) for _, r in rows])]).astype(np.int64),
        reader=np.array([v for _, r in rows for v in r], np.int64),
        tensor_s=tables.tensor_s[tensors],
        tensor_bytes=tables.tensor_bytes[tensors],
    )


def fill(tables: Tables, kept: NDArray[np.int64], split: NDArray[np.int16]) -> NDArray[np.int16]:
    """A split int16 [K] of some nodes as one of all, int16 [N].

    A node left out goes with the last that it reads, and where it reads nothing that is placed, with its first reader.
    """
    none = np.iinfo(np.int16).max
    place = np.full(len(tables.compute_s), -1, np.int16)
    place[kept] = split
    given = place >= 0
    for u, v in tables.edges[np.argsort(tables.edges[:, 1], kind="stable")].tolist():
        if not given[v]:
            place[v] = max(place[v], place[u])
    first = np.where(place < 0, none, place)
    free = place < 0
    for u, v in tables.edges[np.argsort(-tables.edges[:, 0], kind="stable")].tolist():
        if free[u]:
            first[u] = min(first[u], first[v])
    return np.where(first == none, 0, first).astype(np.int16)
