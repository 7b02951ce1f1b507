"""Large graphs as the roles that their nodes play, so that networks cost no more than on `NODES` nodes.

Networks repeat their layers: a graph of 100,000 nodes has some tens of different nodes. Nodes that cannot be
distinguished by what they are and what surrounds them are of one *class*; a class in the order of its nodes is cut into
runs, and a run is a *role*. A network sees a graph of roles: the mean features of a role's nodes, and an edge between
two roles where any of their nodes are joined. All nodes of a role get its logits.

Source: colour refinement (Weisfeiler and Leman 1968), as in Bollen et al., "Learning graph neural networks using exact
compression" (GRADES-NDA 2023): message passing gives nodes of one class one state, so that it can be done by class.

Deviations: here it is an approximation.
- Features that say how much is left of a network differ at every node, and nothing would ever be equal. They do not
  distinguish classes (`workloads.colour_refinement.alike`); they are averaged over a run, and runs are as short as the
  limit allows.
- Refinement goes few edges deep, or fewer where that would make more classes than there may be roles.
- Pooling and attention see a role once, however many nodes it has, and an edge once, however many it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.graph import Graph, prepare
from workloads.colour_refinement import LARGE, alike

NODES = LARGE
"""A graph of more nodes is seen as at most so many roles; a smaller one as it is (own choice)."""


@dataclass(frozen=True, eq=False)
class Roles:
    """A graph of R roles, float32 features [R, F], and the role int64 [N] of each node."""

    graph: Graph
    x: NDArray[np.float32]
    of: NDArray[np.int64]


def roles(x: NDArray[np.float32], graph: Graph, limit: int = NODES) -> Roles:
    """At most `limit` roles of a graph with features [N, F]. Raises ValueError where `limit` < 1."""
    if limit < 1:
        raise ValueError(f"limit: expected at least 1, received {limit}")
    found = _runs(alike(x, graph.edges.cpu().numpy(), limit), limit)
    count = np.bincount(found)
    sums = [np.bincount(found, weights=column) for column in x.T]
    mean = np.stack(sums, axis=1) / count[:, None] if sums else np.zeros((len(count), 0))
    edges = found[graph.edges.cpu().numpy()]
    joined = np.unique(edges[0] * len(count) + edges[1])
    ends = np.stack([joined // len(count), joined % len(count)])
    return Roles(prepare(ends, len(count)), mean.astype(np.float32), found)


def _runs(colour: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Numbers int64 [N] of at most `limit` runs of classes int64 [N], all of one length but for the last of each."""
    sizes = np.bincount(colour)
    short, long = 0, int(sizes.max())  # too many runs of the one length, few enough of the other
    while long - short > 1:
        length = (short + long) // 2
        enough = int((-(-sizes // length)).sum()) <= limit
        short, long = (short, length) if enough else (length, long)
    order = np.argsort(colour, kind="stable")
    place = np.empty(len(colour), np.int64)
    place[order] = np.arange(len(colour)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    runs = -(-sizes // long)
    return (np.cumsum(runs) - runs)[colour] + place // long
