"""Which placed nodes a sweep (`hwsim/mcm/solver/sweep.py`) blames where a node finds no chip. Kernels.

Of all nodes to blame only the two latest are kept, `culprit` > `other` (-1: none). The sweep goes back to the culprit;
the other is remembered there, in case the culprit finds no chip either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel


@kernel
def blame(culprit: int, other: int, suspect: int, node: int) -> tuple[int, int]:
    """The two latest of three nodes; a suspect that is not before `node`, or known already, changes nothing."""
    if suspect >= node or suspect in (culprit, other):
        return culprit, other
    return (suspect, culprit) if suspect > culprit else (culprit, max(suspect, other))


@kernel
def blame_sources(
    into_start: NDArray[np.int64],
    into: NDArray[np.int64],
    limited_by: NDArray[np.int64],
    stuck: int,
    node: int,
    culprit: int,
    other: int,
) -> tuple[int, int]:
    """Blame all that a stuck node reads and the node that left it a single chip, as far as they are before `node`."""
    for k in range(into_start[stuck], into_start[stuck + 1]):
        culprit, other = blame(culprit, other, into[k], node)
    return blame(culprit, other, limited_by[stuck], node)


@kernel
def blame_holder(
    chip: NDArray[np.int64], weight: NDArray[np.int64], chips: int, node: int, culprit: int, other: int
) -> tuple[int, int]:
    """Blame the latest node before `node` that holds weights on one of these chips."""
    holder = node - 1
    while holder >= 0 and not (weight[holder] > 0 and chips >> chip[holder] & 1):
        holder -= 1
    return blame(culprit, other, holder, node)
