"""Buffers to pack, and the result of packing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Verdict = Literal["packed", "impossible", "not found"]


@dataclass(frozen=True)
class Buffer:
    """A tensor that needs one contiguous range of addresses while it lives.

    Attributes:
        name: for people.
        size_bytes: at least 0.
        first, end: steps at which it lives, half-open: first <= step < end. Any integers: a cycle count will do.
        fixed: the offset in bytes that it must have; None where any will do.
    """

    name: str
    size_bytes: int
    first: int
    end: int
    fixed: int | None = None

    def __post_init__(self) -> None:
        """ValueError for a negative size or a lifetime without a step."""
        if self.size_bytes < 0 or self.end <= self.first:
            raise ValueError(
                f"buffer {self.name!r}: expected size_bytes >= 0 and first < end, received {self.size_bytes} bytes"
                f" in [{self.first}, {self.end})"
            )


@dataclass(frozen=True)
class Packing:
    """Offsets of M buffers.

    Attributes:
        offsets: M multiples of the alignment, in bytes, in the order of the buffers.
        height_bytes: the highest end of a buffer; 0 if there are none.
        fullest_bytes: what lives at the fullest step. No packing is lower.
        verdict: "packed" within the capacity; "impossible" by proof; "not found" within the time limit.
    """

    offsets: tuple[int, ...]
    height_bytes: int
    fullest_bytes: int
    verdict: Verdict


def live(first: NDArray[np.int64], end: NDArray[np.int64], size: NDArray[np.int64]) -> int:
    """The largest sum of sizes that live at one step; int64 [M] each, lifetimes half-open; 0 for M = 0."""
    if not len(size):
        return 0
    steps = np.concatenate([end, first])
    change = np.concatenate([-size, size])
    ordered = np.argsort(steps, kind="stable")
    return int(np.cumsum(change[ordered]).max(initial=0))


def fullest_bytes(buffers: Sequence[Buffer]) -> int:
    """The bytes that live at the fullest step."""
    first, end, size = arrays(buffers)
    return live(first, end, size)


def arrays(
    buffers: Sequence[Buffer],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """First step, end and size_bytes of M buffers, int64 [M] each."""
    columns = np.array([(b.first, b.end, b.size_bytes) for b in buffers], np.int64).reshape(-1, 3)
    return columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy()
