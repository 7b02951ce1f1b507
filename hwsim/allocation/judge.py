"""Is a packing one that a memory can hold? Slow and obvious, and shares no code with the allocator.

What must hold: every buffer has an offset, which is a multiple of the alignment and not negative; its last byte lies
within the capacity; two buffers that live at a common step share no byte.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwsim.problem import Violation


def judge(
    buffers: Sequence[tuple[str, int, int, int]],
    offsets: Sequence[int],
    capacity_bytes: int,
    align_bytes: int,
) -> list[Violation]:
    """Everything that the offsets of M buffers break; empty: all is well.

    Args:
        buffers: name, size in bytes, first step and the step after the last (half-open).
        offsets: bytes, one a buffer.
        capacity_bytes: of the memory.
        align_bytes: every offset must be a multiple of it.

    Raises:
        ValueError: not one offset a buffer.
    """
    if len(offsets) != len(buffers):
        raise ValueError(f"offsets: expected {len(buffers)}, received {len(offsets)}")
    violations: list[Violation] = []
    for (name, size, _, _), offset in zip(buffers, offsets, strict=True):
        if offset < 0:
            violations.append(Violation("offset below the memory", name, 0, offset, "bytes"))
        if offset % align_bytes != 0:
            violations.append(Violation("offset not aligned", name, offset, align_bytes, "bytes"))
        if size > 0 and offset + size > capacity_bytes:
            violations.append(Violation("buffer sticks out", name, offset + size, capacity_bytes, "bytes"))
    numbers = [
        (first, end, at, at + size) for (_, size, first, end), at in zip(buffers, offsets, strict=True)
    ]
    born, dead, low, high = np.array(numbers, np.int64).reshape(-1, 4).T
    for one in range(len(buffers)):
        steps = np.minimum(dead[one], dead[:one]) - np.maximum(born[one], born[:one])
        shared = np.minimum(high[one], high[:one]) - np.maximum(low[one], low[:one])
        for other in np.flatnonzero((steps > 0) & (shared > 0)).tolist():
            where = f"{buffers[other][0]} and {buffers[one][0]}"
            violations.append(Violation("buffers overlap", where, int(shared[other]), 0, "bytes"))
    return violations
