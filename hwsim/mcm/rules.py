"""Which nodes of a partition stand where a rule of the package is broken. Kernels.

Source: MCM paper, section 3, equations 2 to 4, and the memory of constraint 4 that is known beforehand. The exact
meaning of the rules is in docs/mcm.md; `hwsim/mcm/judge/partition.py` decides them by other code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.cost import Tables


@kernel
def _mark(t: Tables, place: NDArray[np.int16], wrong: NDArray[np.bool_]) -> None:
    """Mark the nodes [N] of one partition, as `misplaced` has it."""
    forward = True
    for e in range(len(t.edges)):
        if place[t.edges[e, 0]] > place[t.edges[e, 1]]:
            forward = False
            if t.acyclic:
                wrong[t.edges[e, 1]] = True
    if t.no_skip:
        used = np.zeros(t.chips + 1, np.bool_)
        for n in range(len(place)):
            used[place[n]] = True
        gap = 0
        while used[gap]:
            gap += 1
        for n in range(len(place)):
            if place[n] > gap:
                wrong[n] = True
    if t.triangle and forward:
        _mark_triangles(t, place, wrong)
    if t.capacity >= 0:
        held = np.zeros(t.chips, np.int64)
        for n in range(len(place)):
            held[place[n]] += t.weight_bytes[n]
            if held[place[n]] > t.capacity:
                wrong[n] = True


@kernel
def _mark_triangles(t: Tables, place: NDArray[np.int16], wrong: NDArray[np.bool_]) -> None:
    """Readers over an arrow from chip to chip that a longer path of arrows accompanies."""
    arrow = np.zeros((t.chips, t.chips), np.bool_)
    for e in range(len(t.edges)):
        a, b = place[t.edges[e, 0]], place[t.edges[e, 1]]
        if a != b:
            arrow[a, b] = True
    reach = arrow.copy()
    detour = np.zeros((t.chips, t.chips), np.bool_)
    for a in range(t.chips - 1, -1, -1):
        for middle in range(a + 1, t.chips):
            if arrow[a, middle]:
                for b in range(middle + 1, t.chips):
                    if reach[middle, b]:
                        reach[a, b] = True
                        detour[a, b] = True
    for e in range(len(t.edges)):
        a, b = place[t.edges[e, 0]], place[t.edges[e, 1]]
        if a != b and detour[a, b]:
            wrong[t.edges[e, 1]] = True


@kernel
def _misplaced(t: Tables, places: NDArray[np.int16]) -> NDArray[np.bool_]:
    out = np.zeros(places.shape, np.bool_)
    for b in range(len(places)):
        _mark(t, places[b], out[b])
    return out


def misplaced(t: Tables, places: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Bool [B, N]: the nodes of partitions int16 [B, N] at which a rule is broken; none: the partition is valid.

    Acyclic: the reader of an edge that leads back. No skipping: nodes behind the first empty chip. Triangle: readers
    over a chip-to-chip arrow beside a longer path. Memory: in the order of the nodes, those that no longer fit.
    """
    found: NDArray[np.bool_] = _misplaced(t, np.ascontiguousarray(places))
    return found
