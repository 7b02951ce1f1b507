"""The observation of a sharding instance: its nodes as a graph.

Costs, usages and times are log1p times a constant, so that policies can read other instances; forbidden costs are left
out of them. Edges lead both ways, since a pair of strategies has no direction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl_shard.sharding import FORBIDDEN_FROM, Sharding

SCHEMA_VERSION = 301
"""Changes whenever a feature, its meaning or its scale changes; other problems' schemas have other numbers."""
SCALE = 1 / 24
"""log1p of costs and usages: 2 * 10^10 -> 1.0."""
STEPS_SCALE = 1 / 8
"""log1p of times, edges and strategies: 1024 -> 0.87."""


def features(sharding: Sharding) -> NDArray[np.float32]:
    """float32 [N, 8]: least, mean and greatest cost; least and greatest usage over the limit; how long a node lives;
    how many edges and strategies it has."""
    s = sharding
    begins, counts = s.first[:-1], s.strategies
    allowed = np.where(s.cost >= FORBIDDEN_FROM, 0, s.cost)
    share = s.usage / max(s.limit, 1)
    degree = np.bincount(s.edge_nodes.ravel(), minlength=len(s))
    columns = [
        np.log1p(np.minimum.reduceat(s.cost, begins)) * SCALE,
        np.log1p(np.add.reduceat(allowed.astype(np.float64), begins) / counts) * SCALE,
        np.log1p(np.maximum.reduceat(allowed, begins)) * SCALE,
        np.minimum.reduceat(share, begins),
        np.maximum.reduceat(share, begins),
        np.log1p(s.end - s.start) * STEPS_SCALE,
        np.log1p(degree) * STEPS_SCALE,
        np.log1p(counts) * STEPS_SCALE,
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def edge_index(sharding: Sharding) -> NDArray[np.int64]:
    """int64 [2, up to 2 E]: every two nodes that an edge joins, both ways, each once."""
    ends = sharding.edge_nodes.astype(np.int64)
    both = np.unique(np.concatenate([ends, ends[:, ::-1]]), axis=0)
    return np.ascontiguousarray(both.T.reshape(2, -1))
