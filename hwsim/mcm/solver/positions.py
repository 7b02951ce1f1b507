"""The arrays of a graph as the quick attempts of the solver read them: nodes by position in the graph's order.

The same graph as `hwsim/mcm/solver/relations.py`, renumbered so that every edge points to a later number, and with
edges as node numbers: `assignment.py` and `sweep.py` walk it front to back, and few arrays are passed to a call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.solver.relations import Relations


class Positions(NamedTuple):
    """Arrays of N positions. Row i of a list is list[start[i] : start[i + 1]].

    Attributes:
        node: int64 [N], the node at a position; order, its inverse.
        out_start, out: positions that read a position.
        into_start, into: positions that a position reads.
        earliest, latest: int64 [N], bounds of the chip in every partition.
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


def positions_of(relations: Relations) -> Positions:
    """The arrays of `relations`, renumbered by position."""
    count = len(relations.weight)
    position = np.empty(count, np.int64)
    position[relations.order] = np.arange(count)
    tail, head = position[relations.edges[:, 0]], position[relations.edges[:, 1]]
    inner = np.diff(relations.inner_start)
    doubled = np.flatnonzero(inner)
    out_start, out = _rows(tail, head, count)
    into_start, into = _rows(head, tail, count)
    doubled_of = np.repeat(np.arange(len(doubled)), inner[doubled])
    inner_weight = np.zeros(len(doubled), np.int64)
    np.add.at(inner_weight, doubled_of, relations.weight[relations.inner_node])
    inner_start, inner_edge = _rows(position[relations.inner_node], doubled_of, count)
    return Positions(
        relations.order,
        position,
        out_start,
        out,
        into_start,
        into,
        np.ascontiguousarray(relations.earliest[relations.order]),
        np.ascontiguousarray(relations.latest[relations.order]),
        np.ascontiguousarray(relations.weight[relations.order]),
        inner_start,
        inner_edge,
        tail[doubled],
        head[doubled],
        inner_weight,
        relations.capacity if relations.capacity >= 0 else int(relations.weight.sum()) + 1,
        relations.chips,
        relations.no_skip,
        relations.triangle,
    )


def _rows(
    key: NDArray[np.int64], value: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Values by key from 0 to count - 1, ascending, as rows: starts int64 [count + 1] and values."""
    start = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=count))]).astype(np.int64)
    return start, np.ascontiguousarray(value[np.lexsort((value, key))], np.int64)
