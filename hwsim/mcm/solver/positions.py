"""The arrays of a graph as the quick attempts of the solver read them: nodes by position in the graph's order.

The same graph as `hwsim/mcm/solver/relations.py`, renumbered so that every edge points to a later number, and with
edges as node numbers: `draw.py` and `sweep.py` walk it front to back, and few arrays cross a call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.solver.relations import Relations


class Plan(NamedTuple):
    """Arrays of N positions. Row i of a list is list[start[i] : start[i + 1]].

    Attributes:
        node: int64 [N], the node at a position; order, its inverse.
        out_start, out: positions that read a position.
        into_start, into: positions that a position reads.
        earliest, latest: int64 [N], no partition has another chip there.
        weight: int64 [N], bytes.
        inner_start, inner: doubled edges (numbers 0 to D - 1) of which a position is an inner node.
        source, reader: int64 [D], positions of the ends of doubled edges.
        inner_weight: int64 [D], bytes of all inner nodes of a doubled edge.
        capacity: bytes of a chip; more than all weights where memory is no rule.
        chips, no_skip, triangle: the rest of the rules (0 or 1).
    """

    node: NDArray[np.int64]
    order: NDArray[np.int64]
    out_start: NDArray[np.int64]
    out: NDArray[np.int64]
    into_start: NDArray[np.int64]
    into: NDArray[np.int64]
    earliest: NDArray[np.int64]
    latest: NDArray[np.int64]
    weight: NDArray[np.int64]
    inner_start: NDArray[np.int64]
    inner: NDArray[np.int64]
    source: NDArray[np.int64]
    reader: NDArray[np.int64]
    inner_weight: NDArray[np.int64]
    capacity: int
    chips: int
    no_skip: int
    triangle: int


def plan(r: Relations) -> Plan:
    """What `relations` say, by position."""
    n = len(r.weight)
    position = np.empty(n, np.int64)
    position[r.order] = np.arange(n)
    tail, head = position[r.edges[:, 0]], position[r.edges[:, 1]]
    inner = np.diff(r.inner_start)
    doubled = np.flatnonzero(inner)
    out_start, out = _rows(tail, head, n)
    into_start, into = _rows(head, tail, n)
    at = np.repeat(np.arange(len(doubled)), inner[doubled])
    held = np.zeros(len(doubled), np.int64)
    np.add.at(held, at, r.weight[r.inner_node])
    inner_start, inner_edge = _rows(position[r.inner_node], at, n)
    return Plan(
        r.order,
        position,
        out_start,
        out,
        into_start,
        into,
        np.ascontiguousarray(r.earliest[r.order]),
        np.ascontiguousarray(r.latest[r.order]),
        np.ascontiguousarray(r.weight[r.order]),
        inner_start,
        inner_edge,
        tail[doubled],
        head[doubled],
        held,
        r.capacity if r.capacity >= 0 else int(r.weight.sum()) + 1,
        r.chips,
        r.no_skip,
        r.triangle,
    )


def _rows(
    key: NDArray[np.int64], value: NDArray[np.int64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Values by key from 0 to n - 1, ascending, as rows: starts int64 [n + 1] and values."""
    start = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=n))]).astype(np.int64)
    return start, np.ascontiguousarray(value[np.lexsort((value, key))], np.int64)
