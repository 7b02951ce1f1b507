"""The nodes of a partition at which a rule of the package is broken. Kernels.

Source: MCM paper, section 3, equations 2 to 4, and the memory of constraint 4 that is known beforehand. The exact
meaning of the rules is in docs/explanations/mcm.md; `hwsim/mcm/judge.py` decides them by other code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.cost import Tables


@kernel
def mark(tables: Tables, place: NDArray[np.int16], wrong: NDArray[np.bool_]) -> None:
    """Mark the nodes [N] of one partition by the definition of `misplaced_nodes`."""
    forward = True
    for e in range(len(tables.edges)):
        if place[tables.edges[e, 0]] > place[tables.edges[e, 1]]:
            forward = False
            if tables.acyclic:
                wrong[tables.edges[e, 1]] = True
    if tables.no_skip:
        _mark_behind_gap(tables.chips, place, wrong)
    # Longest paths need arrows without cycles. With backward edges the partition is wrong already.
    if tables.triangle and forward:
        _mark_triangles(tables.edges, tables.chips, place, wrong)
    if tables.capacity >= 0:
        held = np.zeros(tables.chips, np.int64)
        # In the order of the nodes: the first ones keep their place.
        for n in range(len(place)):
            held[place[n]] += tables.weight_bytes[n]
            if held[place[n]] > tables.capacity:
                wrong[n] = True


@kernel
def _mark_behind_gap(chips: int, place: NDArray[np.int16], wrong: NDArray[np.bool_]) -> None:
    """Mark the nodes behind the first empty chip."""
    # The last entry stays False: where all chips are in use the gap is behind them.
    used = np.zeros(chips + 1, np.bool_)
    for n in range(len(place)):
        used[place[n]] = True
    gap = 0
    while used[gap]:
        gap += 1
    for n in range(len(place)):
        if place[n] > gap:
            wrong[n] = True


@kernel
def _mark_triangles(
    edges: NDArray[np.int64], chips: int, place: NDArray[np.int16], wrong: NDArray[np.bool_]
) -> None:
    """Mark the readers over an arrow from chip to chip beside which there is a longer path of arrows."""
    arrow = np.zeros((chips, chips), np.bool_)
    for e in range(len(edges)):
        a, b = place[edges[e, 0]], place[edges[e, 1]]
        if a != b:
            arrow[a, b] = True
    # reach[a, b]: a path leads from a to b. Arrows lead to later chips, so from the last chip to the first everything
    # behind a chip is known. Whatever is reached by way of another chip has a path of two arrows or more.
    reach = arrow.copy()
    detour = np.zeros((chips, chips), np.bool_)
    for a in range(chips - 1, -1, -1):
        for middle in range(a + 1, chips):
            if arrow[a, middle]:
                for b in range(middle + 1, chips):
                    if reach[middle, b]:
                        reach[a, b] = True
                        detour[a, b] = True
    for e in range(len(edges)):
        a, b = place[edges[e, 0]], place[edges[e, 1]]
        if a != b and detour[a, b]:
            wrong[edges[e, 1]] = True


@kernel
def _mark_rows(tables: Tables, places: NDArray[np.int16]) -> NDArray[np.bool_]:
    out = np.zeros(places.shape, np.bool_)
    for b in range(len(places)):
        mark(tables, places[b], out[b])
    return out


def misplaced_nodes(tables: Tables, places: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Bool [B, N]: the nodes of partitions int16 [B, N] at which a rule is broken; none: the partition is valid.

    Acyclic: the reader of an edge that leads back. No skipping: nodes behind the first empty chip. Triangle: readers
    over a chip-to-chip arrow beside a longer path. Memory: in the order of the nodes, those that no longer fit.
    """
    found: NDArray[np.bool_] = _mark_rows(tables, np.ascontiguousarray(places))
    return found
