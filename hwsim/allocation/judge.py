"""Is a packing one that a memory can hold? Slow and obvious; it shares no code with the allocator.

What must hold: every buffer has an offset, which is a multiple of the alignment and not negative; its last byte lies
within the capacity; two buffers that live at a common step share no byte.
"""

from __future__ import annotations

from bisect import bisect_left
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
        offsets: bytes, one per buffer.
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
    pairs = _overlaps(
        [(first, end) for _, _, first, end in buffers], [size for _, size, _, _ in buffers], offsets
    )
    for one, other, shared in pairs:
        violations.append(
            Violation("buffers overlap", f"{buffers[other][0]} and {buffers[one][0]}", shared, 0, "bytes")
        )
    return violations


def _overlaps(
    lives: Sequence[tuple[int, int]], sizes: Sequence[int], offsets: Sequence[int]
) -> list[tuple[int, int, int]]:
    """(one, an earlier other, bytes that they share at a common step), in that order.

    Step by step, with the buffers that live then in the order of their offsets. As long as no two of them share a
    byte, one that begins to live can only meet its neighbours.
    """
    begun = sorted((first, one) for one, (first, end) in enumerate(lives) if first < end and sizes[one] > 0)
    ending = sorted((lives[one][1], one) for _, one in begun)
    live: list[tuple[int, int]] = []  # (offset, buffer)
    found: list[tuple[int, int, int]] = []
    gone = 0
    for first, one in begun:
        while ending[gone][0] <= first:
            dead = ending[gone][1]
            del live[bisect_left(live, (offsets[dead], dead))]
            gone += 1
        low, high = offsets[one], offsets[one] + sizes[one]
        at = bisect_left(live, (low, one))
        above = at
        while above < len(live) and live[above][0] < high:
            above += 1
        below = 0 if found else max(at - 1, 0)
        for offset, other in live[below:above]:
            shared = min(high, offset + sizes[other]) - max(low, offset)
            if shared > 0:
                found.append((max(one, other), min(one, other), shared))
        live.insert(at, (low, one))
    return sorted(found)
