"""Packing by one pass: a buffer after the other goes where it fits best among those that are placed.

Sources: largest first into the best gap is the `greedy_by_size` planner of TensorFlow Lite (Pisarchyk and Lee,
"Efficient Memory Management for Deep Neural Net Inference", 2020, section 5); by lifetime is the order of Sekiyama
et al., "Profile-guided memory optimization for deep neural networks" (2018, section 3.2).

Deviations: several orders are tried, each with the lowest and with the best gap, and the lowest packing wins.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def orders(first: Ints, end: Ints, size: Ints) -> Iterator[Ints]:
    """Permutations int64 [M] in which to place M buffers (int64 [M] each), ties by position."""
    life = end - first
    area = life.astype(np.float64) * size
    position = np.arange(len(size))
    for keys in (
        (-life, -size),
        (-size, -life),
        (-area, -size),
        (first, -size),
        (-end, -size),
    ):
        yield np.lexsort((position, *reversed(keys)))


def place_in_order(first: Ints, end: Ints, size: Ints, order: Ints, best_gap: bool) -> Ints:
    """Offsets int64 [M], each buffer at the bottom of the lowest gap that holds it, or of the smallest one."""
    offset = np.zeros(len(size), np.int64)
    # In the order in which they begin, those that live with a buffer are between two places: from the first that ends
    # after it begins, to the last that begins before it ends.
    by_first = np.argsort(first, kind="stable")
    ends, placed = end[by_first], np.zeros(len(size), np.bool_)
    rank = np.argsort(by_first)
    begin_at = np.searchsorted(np.maximum.accumulate(ends), first, side="right")
    end_at = np.searchsorted(first[by_first], end, side="left")
    for i in order:
        window = slice(begin_at[i], end_at[i])
        near = by_first[window][placed[window] & (ends[window] > first[i])]
        placed[rank[i]] = True
        bottoms = offset[near]
        by_bottom = np.argsort(bottoms, kind="stable")
        bottoms = bottoms[by_bottom]
        tops = np.maximum.accumulate(np.concatenate([[0], bottoms + size[near][by_bottom]]))
        gaps = bottoms - tops[:-1]
        holds = np.flatnonzero(gaps >= size[i])
        if not len(holds):
            offset[i] = tops[-1]
        elif best_gap:
            offset[i] = tops[holds[np.argmin(gaps[holds])]]
        else:
            offset[i] = tops[holds[0]]
    return offset


def greedy(first: Ints, end: Ints, size: Ints, target: int, until: float = math.inf) -> Ints:
    """The lowest packing of all passes, offsets int64 [M]; the first one not above `target` ends it.

    Args:
        first, end: int64 [M], lifetimes half-open.
        size: int64 [M], in the unit of the offsets and of the target.
        target: a height that is good enough.
        until: a monotonic time, after which no further pass begins.
    """
    best: Ints | None = None
    lowest = 0
    for order in orders(first, end, size):
        for best_gap in (True, False):
            found = place_in_order(first, end, size, order, best_gap)
            height = int((found + size).max(initial=0))
            if best is None or height < lowest:
                best, lowest = found, height
            if lowest <= target or time.monotonic() >= until:
                return best
    assert best is not None
    return best
