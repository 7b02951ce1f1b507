"""Is a packing one that a memory can hold? Slow and obvious, and shares no code with the allocator.

What must hold: every buffer has an offset, which is a multiple of the alignment and not negative; its last byte lies
within the capacity; two buffers that live at a common step share no byte.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    for one in range(len(buffers)):
        name, size, first, end = buffers[one]
        for other in range(one):
            other_name, other_size, other_first, other_end = buffers[other]
            steps = min(end, other_end) - max(first, other_first)
            shared = min(offsets[one] + size, offsets[other] + other_size) - max(offsets[one], offsets[other])
            if steps > 0 and shared > 0:
                where = f"{other_name} and {name}"
                violations.append(Violation("buffers overlap", where, shared, 0, "bytes"))
    return violations
