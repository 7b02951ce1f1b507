"""What a sweep (`hwsim/mcm/solver/sweep.py`) changes where it puts a node on a chip. Kernels.

Each step records its changes on the trail, also where it then fails: the caller rewinds. The arrays are those of
`Positions` and `SweepState`, passed one by one: passing the tuples makes a call many times slower. For the same reason
each function has one exit: numba counts references to an array that is last used in a branch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.solver.blame import blame, blame_holder
from hwsim.mcm.solver.sweep_state import (
    ALLOWED,
    LIMITED_BY,
    READ_CHIPS,
    SECOND_CHIP,
    UNPLACED_BYTES,
    record,
    update_joins,
)


@kernel
def join_doubled_edges(
    inner_start: NDArray[np.int64],
    inner: NDArray[np.int64],
    source: NDArray[np.int64],
    reader: NDArray[np.int64],
    weight: NDArray[np.int64],
    chips: NDArray[np.int64],
    allowed: NDArray[np.int64],
    limited_by: NDArray[np.int64],
    second_chip: NDArray[np.int64],
    unplaced_bytes: NDArray[np.int64],
    free_bytes: NDArray[np.int64],
    capacity: int,
    trail: NDArray[np.int64],
    size: int,
    node: int,
    chip: int,
    culprit: int,
    other: int,
) -> tuple[bool, int, int, int]:
    """Put a node on a chip as an inner node of its doubled edges.

    Invariant of an edge: the inner nodes that are placed lie on the chip of its source or on its `second_chip`, where
    its reader must lie too; and the free bytes of these two suffice for the inner nodes that are not placed.

    Returns:
        Whether the invariants can be kept; the size of the trail; the two latest nodes to blame.
    """
    fits, k = True, inner_start[node]
    while fits and k < inner_start[node + 1]:
        edge = inner[k]
        k += 1
        near, far, end = chips[source[edge]], second_chip[edge], reader[edge]
        if chip != near and chip != far:
            # The first inner node to leave the source's chip decides the second one, which must suit the reader.
            fits = far < 0 and allowed[end] >> chip & 1 == 1
            if fits:
                size = record(trail, size, SECOND_CHIP, edge, far)
                size = record(trail, size, ALLOWED, end, allowed[end])
                size = record(trail, size, LIMITED_BY, end, limited_by[end])
                second_chip[edge], allowed[end], limited_by[end], far = chip, 1 << chip, node, chip
        if fits and weight[node]:
            size = record(trail, size, UNPLACED_BYTES, edge, unplaced_bytes[edge])
            unplaced_bytes[edge] -= weight[node]
            # A second chip that is not decided may turn out to be an empty one.
            space = free_bytes[near] + (free_bytes[far] if far >= 0 else capacity) - weight[node]
            if unplaced_bytes[edge] > space:
                fits = False
                full = 1 << near | (1 << far if far >= 0 else 0)
                culprit, other = blame_holder(chips, weight, full, node, culprit, other)
        if not fits:
            culprit, other = blame(culprit, other, source[edge], node)
            culprit, other = blame(culprit, other, limited_by[end], node)
    return fits, size, culprit, other


@kernel
def inform_readers(
    out_start: NDArray[np.int64],
    out: NDArray[np.int64],
    read_chips: NDArray[np.int64],
    joins: NDArray[np.int64],
    join_at: NDArray[np.int64],
    trail: NDArray[np.int64],
    size: int,
    node: int,
    chip: int,
) -> int:
    """Add a node's chip to those that its readers read; returns the size of the trail."""
    for k in range(out_start[node], out_start[node + 1]):
        reader = out[k]
        if not read_chips[reader] >> chip & 1:
            size = record(trail, size, READ_CHIPS, reader, read_chips[reader])
            read_chips[reader] |= 1 << chip
            update_joins(joins, join_at, reader, read_chips[reader])
    return size
