"""Moves of local searches along the execution order, in which networks repeat themselves. Kernels.

    flip    one tensor to another memory
    swap    two tensors exchange their memories, mostly two that are close to each other in execution order
    fill    the tensors of one head of up to `BLOCK` consecutive ops all go to one memory
    copy    a run of ops takes over the memories of another run of ops of the same length
    pair    one tensor to the faster memory of another tensor, which goes one memory down

Shapes: N ops, H heads, K tensors that exist.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.problem import Mapping16

NEAR, BLOCK = 24, 16
"""A near tensor is less than so many tensors away; a run is at most so many ops long."""
FLIP, SWAP, FILL, COPY, PAIR = 0.33, 0.61, 0.71, 0.81, 0.88
"""A step flips if its first random number is below FLIP, swaps if below SWAP, and so on."""


@kernel
def move_in_order(
    before: Mapping16,
    mapping: Mapping16,
    tensors: NDArray[np.int64],
    levels: int,
    kind: float,
    draws: tuple[float, float, float],
) -> bool:
    """Change a mapping int16 [N, H], equal to `before`, in place, by one of the moves; False: nothing changed.

    Args:
        before: int16 [N, H], the mapping as it was: the runs of a copy may overlap.
        tensors: int64 [K, 2], op and head of each.
        levels: number of memories, slowest first.
        kind: random number below `PAIR`, which picks the move.
        draws: three random numbers in [0, 1); the first picks the tensor.
    """
    u, v, w = draws
    count = len(tensors)
    k = int(u * count)
    i, head = tensors[k, 0], tensors[k, 1]
    if kind < FLIP:
        mapping[i, head] = (mapping[i, head] + 1 + int(v * (levels - 1))) % levels
    elif kind < SWAP:
        # Now and then with any tensor, so that far ones can meet.
        other = int(v * count) if w < 0.3 else min(max(k + int((2.0 * v - 1.0) * NEAR), 0), count - 1)
        return exchange(mapping, tensors[k], tensors[other])
    elif kind < FILL:
        for op in range(i, min(i + 2 + int(v * (BLOCK - 1)), len(mapping))):
            if mapping[op, head] >= 0:
                mapping[op, head] = int(w * levels)
    elif kind < COPY:
        source = int(w * len(mapping))
        for d in range(min(1 + int(v * BLOCK), len(mapping) - max(i, source))):
            for h in range(mapping.shape[1]):
                # Only if both ops have such a tensor: a decision without one stays -1.
                if mapping[i + d, h] >= 0 and before[source + d, h] >= 0:
                    mapping[i + d, h] = before[source + d, h]
    else:
        other = int(v * count)
        j, other_head = tensors[other, 0], tensors[other, 1]
        if mapping[i, head] >= mapping[j, other_head]:
            return False
        mapping[i, head] = mapping[j, other_head]
        mapping[j, other_head] -= 1
    return True


@kernel
def exchange(mapping: Mapping16, one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Two tensors, int64 [2] each, exchange their memories in place; False if they lie in the same one."""
    first, second = mapping[one[0], one[1]], mapping[other[0], other[1]]
    mapping[one[0], one[1]], mapping[other[0], other[1]] = second, first
    return bool(first != second)
