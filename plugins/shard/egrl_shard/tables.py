"""A sharding instance as kernels read it: who has which edges, and the times at which the limit can bind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_shard.sharding import Sharding


class Tables(NamedTuple):
    """N nodes with S strategies in all, E edges, and T points of time.

    Attributes:
        limit: of the usage at each point.
        first: int64 [N + 1], where a node's strategies begin.
        cost, usage: int64 [S], as the instance has them.
        edge_nodes: int32 [E, 2].
        edge_first: int64 [E + 1], where an edge's costs begin in `edge_cost`, row by row.
        edge_cost: int64.
        near_first: int64 [N + 1], where a node's edges begin in `near`.
        near: int32 [2 E], edges by node, ascending.
        lower, upper: int32 [N], the points of time in which a node's usage counts, half-open.
        points: T.
    """

    limit: int
    first: NDArray[np.int64]
    cost: NDArray[np.int64]
    usage: NDArray[np.int64]
    edge_nodes: NDArray[np.int32]
    edge_first: NDArray[np.int64]
    edge_cost: NDArray[np.int64]
    near_first: NDArray[np.int64]
    near: NDArray[np.int32]
    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    points: int


def build_tables(sharding: Sharding) -> Tables:
    """The tables of an instance."""
    s = sharding
    ends = s.edge_nodes.ravel()
    order = np.argsort(ends, kind="stable")
    degree = np.bincount(ends, minlength=len(s))
    lower, upper, points = binding_points(s)
    return Tables(
        s.limit,
        s.first,
        s.cost,
        s.usage,
        np.ascontiguousarray(s.edge_nodes),
        s.edge_first,
        s.edge_cost,
        np.concatenate([[0], np.cumsum(degree)]),
        (order // 2).astype(np.int32),
        lower,
        upper,
        len(points),
    )


def binding_points(sharding: Sharding) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """The points of time that decide whether the limit holds: first and last of each node, half-open, and the times.

    The nodes in use at a time are a subset of those at the last start before the next end, so that these times suffice;
    of them those are left at which the greatest usages together are above the limit. A choice is within the limit at
    all times if it is at these.
    """
    s = sharding
    most = np.maximum.reduceat(s.usage, s.first[:-1])
    counts = s.busy & (most > 0)
    start, end = s.start[counts], s.end[counts]
    times = np.unique(np.concatenate([start, end]))
    begins, stops = np.isin(times, start), np.isin(times, end)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, np.searchsorted(times, start), most[counts])
    np.subtract.at(change, np.searchsorted(times, end), most[counts])
    # At a time at which nodes end and others begin, those that end are gone: the time before it is a peak of its own.
    peak = begins & np.append(stops[1:], False)
    kept = times[peak & (np.cumsum(change) > s.limit)]
    lower = np.searchsorted(kept, s.start).astype(np.int32)
    upper = np.where(counts, np.searchsorted(kept, s.end), lower).astype(np.int32)
    return lower, upper, kept
