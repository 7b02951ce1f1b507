"""Greedy passes: buffer after buffer goes where it fits best among those that are placed.

Sources: largest first into the best gap is the `greedy_by_size` planner of TensorFlow Lite (Pisarchyk
and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, section 5); by lifetime is the order of
Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (2018, section 3.2).

Deviations:
- Several orders are tried, each with the lowest and with the best gap, and the lowest packing wins.
- Buffers may have offsets that are given: they are placed before all others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NOISE = 0.3
"""Noise of orders around given offsets: each buffer's key is multiplied by exp(this times a normal number)."""


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


def place_in_order(
    first: Ints, end: Ints, size: Ints, order: Ints, best_gap: bool, fixed: Ints | None = None
) -> Ints:
    """Offsets int64 [M], each buffer at the bottom of the lowest gap that holds it, or of the smallest one.

    `fixed`, int64 [M], are offsets that are given, -1 where none is.
    """
    fixed = np.full(len(size), -1, np.int64) if fixed is None else fixed
    offset = np.maximum(fixed, 0)
    # In the order in which they begin, those that live with a buffer are between two places: from the first that ends
    # after it begins, to the last that begins before it ends.
    by_first = np.argsort(first, kind="stable")
    ends, placed = end[by_first], fixed[by_first] >= 0
    rank = np.argsort(by_first)
    begin_at = np.searchsorted(np.maximum.accumulate(ends), first, side="right")
    end_at = np.searchsorted(first[by_first], end, side="left")
    for i in order[fixed[order] < 0]:
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


def endless_orders(first: Ints, end: Ints, size: Ints, seed: int) -> Iterator[tuple[Ints, bool]]:
    """Orders int64 [M], and whether buffers go into the tightest gap: those of `orders`, then some of their kind."""
    for order in orders(first, end, size):
        yield from ((order, True), (order, False))
    rng = np.random.default_rng(seed)
    life = (end - first).astype(np.float64)
    while True:
        for key in (life, size.astype(np.float64), life * size):
            noise = np.exp(NOISE * rng.standard_normal(len(size)))
            yield np.argsort(-key * noise, kind="stable"), bool(rng.integers(2))
