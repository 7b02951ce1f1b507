"""Arrows between chips under the triangle rule, as sets of chips in the bits of int64. Kernels.

`arrows` is int64 [?, 4, C], of which one block [4, C] is read: the chips that read a chip and those that it reads, and
the chips that it leads to and that lead to it along any number of arrows. No arrow ever has a detour: the arrows are
their own transitive reduction (MCM paper, equation 4), so what a chip leads to without an arrow lies two or more away.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel

ARROWS, BACK, LEADS, LED = range(4)


@kernel
def last(chips: int) -> int:
    """The last of a set of chips; -1 of none."""
    c = -1
    for step in (32, 16, 8, 4, 2, 1):
        if chips >> step:
            chips >>= step
            c += step
    return c + 1 if chips else -1


@kernel
def addable(arrows: NDArray[np.int64], block: int, a: int, b: int) -> bool:
    """Whether an arrow that is not there, from chip a to a later chip b, leaves every arrow without a detour."""
    if arrows[block, LEADS, a] >> b & 1:
        return False
    ends, sources = arrows[block, LEADS, b] | (1 << b), arrows[block, LED, a] | (1 << a)
    while sources:
        low = sources & -sources
        if arrows[block, ARROWS, last(low)] & ends:
            return False
        sources ^= low
    return True


@kernel
def add(arrows: NDArray[np.int64], block: int, a: int, b: int) -> None:
    """Draw the arrow from chip a to chip b."""
    ends, sources = arrows[block, LEADS, b] | (1 << b), arrows[block, LED, a] | (1 << a)
    for c in range(arrows.shape[2]):
        if sources >> c & 1:
            arrows[block, LEADS, c] |= ends
        if ends >> c & 1:
            arrows[block, LED, c] |= sources
    arrows[block, ARROWS, a] |= 1 << b
    arrows[block, BACK, b] |= 1 << a


@kernel
def drawn_into(arrows: NDArray[np.int64], block: int, sources: int, c: int) -> bool:
    """Draw arrows from all of `sources`, none of which is there, to chip c in a copy, block + 1; False: a detour."""
    rest = sources
    while rest:
        low = rest & -rest
        a = last(low)
        if arrows[block, LEADS, a] & sources or not addable(arrows, block, a, c):
            return False
        rest ^= low
    for row in range(4):
        for d in range(arrows.shape[2]):
            arrows[block + 1, row, d] = arrows[block, row, d]
    while sources:
        low = sources & -sources
        add(arrows, block + 1, last(low), c)
        sources ^= low
    return True


@kernel
def alive(arrows: NDArray[np.int64], block: int, asks: int, allowed: int) -> bool:
    """Whether a node that reads the chips `asks` may still find one in `allowed`; False only where it cannot.

    It cannot where it reads chips that are two or more arrows apart. Where it reads both ends of an arrow it must be
    on the second.
    """
    latest = last(asks)
    if not allowed >> latest:
        return False
    seconds, rest = 0, asks
    while rest:
        low = rest & -rest
        a = last(low)
        led = arrows[block, LEADS, a] & asks
        if led & ~arrows[block, ARROWS, a]:
            return False
        seconds |= led
        rest ^= low
    if not seconds:
        return True
    if seconds != 1 << latest or not allowed & seconds:
        return False
    rest = asks & ~seconds & ~arrows[block, BACK, latest]
    while rest:
        low = rest & -rest
        if not addable(arrows, block, last(low), latest):
            return False
        rest ^= low
    return True
