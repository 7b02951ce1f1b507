"""Usage at each point of a row, as a tree: add an amount to a range of points, get the maximum of a range.

Source: a segment tree whose ranges keep what is added to them as a whole, walked from the leaves up. Both operations
take the logarithm of the points, however long the range.

`Usage` is (greatest, added), int64 [2 M] each, M a power of two above T + 1 for T points. The halves of the range at k
are at 2 k and 2 k + 1. `added` is what was added to the range as a whole. `greatest` is the most at a point of it,
without what was added to the ranges around it. The leaf of point p is at M + 1 + p; the leaves on either side of the
points are free, for `add` and `most` to walk on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel

Usage = tuple[NDArray[np.int64], NDArray[np.int64]]


@kernel
def nothing_used(points: int) -> Usage:
    """The tree of so many points, at which nothing is used."""
    half = 2
    while half < points + 2:
        half *= 2
    return np.zeros(2 * half, np.int64), np.zeros(2 * half, np.int64)


@kernel
def add(tree: Usage, lower: int, upper: int, amount: int) -> None:
    """Add an amount at the points lower <= point < upper."""
    if lower >= upper or amount == 0:
        return
    greatest, added = tree
    half = len(greatest) // 2
    left, right = half + lower, half + upper + 1
    while left ^ right ^ 1:
        if not left & 1:
            greatest[left ^ 1] += amount
            added[left ^ 1] += amount
        if right & 1:
            greatest[right ^ 1] += amount
            added[right ^ 1] += amount
        left >>= 1
        right >>= 1
        greatest[left] = max(greatest[2 * left], greatest[2 * left + 1]) + added[left]
        greatest[right] = max(greatest[2 * right], greatest[2 * right + 1]) + added[right]
    while left > 1:
        left >>= 1
        greatest[left] = max(greatest[2 * left], greatest[2 * left + 1]) + added[left]


@kernel
def most(tree: Usage, lower: int, upper: int) -> int:
    """The most that is used at a point lower <= point < upper; 0 if there is none."""
    if lower >= upper:
        return 0
    greatest, added = tree
    half = len(greatest) // 2
    left, right = half + lower, half + upper + 1
    of_left = of_right = -(2**62)
    while left ^ right ^ 1:
        if not left & 1:
            of_left = max(of_left, greatest[left ^ 1])
        if right & 1:
            of_right = max(of_right, greatest[right ^ 1])
        left >>= 1
        right >>= 1
        of_left += added[left]
        of_right += added[right]
    found = max(of_left, of_right)
    while left > 1:
        left >>= 1
        found += added[left]
    return found
