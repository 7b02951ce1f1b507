"""Points of time at which memory can bind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.shard.exact.graph import Floats, Int64s


def first_points(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """The points that suffice: of half-open intervals [start, end), each point is the last start before an end.

    Between two ends, what is live at the last start contains what is live at any other time.

    Returns:
        points int64 [T] in order, and for each interval low and high int64 [N]: it holds points low .. high-1.
    """
    some = start < end
    starts, ends = np.unique(start[some]), np.sort(end[some])
    following = np.append(starts[1:], np.iinfo(np.int64).max)
    ends_before = np.searchsorted(ends, following, "right") > np.searchsorted(ends, starts, "right")
    points = starts[ends_before]
    low, high = np.searchsorted(points, start), np.searchsorted(points, end)
    return points, np.where(some, low, 0), np.where(some, np.maximum(low, high), 0)


def spread(low: Int64s, high: Int64s, amount: Floats, points: int) -> Floats:
    """float64 [T], the amounts of the intervals that hold each point."""
    steps = np.zeros(points + 1)
    np.add.at(steps, low, np.where(low < high, amount, 0.0))
    np.add.at(steps, high, np.where(low < high, -amount, 0.0))
    return np.cumsum(steps)[:-1]


def binding(
    low: Int64s, high: Int64s, most: Floats, room: Floats
) -> tuple[Int64s, Int64s, NDArray[np.int64]]:
    """Keep only the points that can bind and that no other point implies.

    Args:
        low, high: int64 [n], the points of each interval.
        most: float64 [n], what a node can use above its least; 0 where it does not vary.
        room: float64 [T], what may be used above the least.

    Returns:
        low and high in the numbers of the points kept, and which points those are.
    """
    kept = np.flatnonzero(spread(low, high, most, len(room)) > room)
    varies = most > 0.0
    while True:
        new_low, new_high = np.searchsorted(kept, low), np.searchsorted(kept, high)
        some = varies & (new_low < new_high)
        begins = np.bincount(new_low[some], minlength=len(kept) + 1)[: len(kept)] > 0
        ends = np.bincount(new_high[some], minlength=len(kept) + 1)[: len(kept)] > 0
        left = room[kept]
        drop = np.zeros(len(kept), np.bool_)
        drop[1:] |= ~begins[1:] & (left[:-1] <= left[1:])  # all that is live here is live one point earlier
        drop[:-1] |= ~ends[1:] & (left[1:] <= left[:-1]) & ~drop[1:]
        if not drop.any():
            return new_low.astype(np.int64), new_high.astype(np.int64), kept
        kept = kept[~drop]
