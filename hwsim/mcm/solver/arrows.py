"""Arrows between chips under the triangle rule, as sets of chips in the bits of int64. Kernels.

`arrows` is int64 [?, 4, C], of which one block [4, C] is read. Its rows hold for each chip the chips that read it, the
chips that it reads, and the chips that it leads to and that lead to it along any number of arrows. Invariant: no arrow
has a detour, so the arrows are their own transitive reduction (MCM paper, equation 4). Where a chip leads to another
without an arrow, the other is therefore two or more arrows away.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel

READ_BY, READS, LEADS_TO, LED_FROM = range(4)
"""The rows of a block."""


@kernel
def last(chips: int) -> int:
    """The last of a set of chips; -1 of none."""
    chip = -1
    # Binary search for the highest bit: whenever something is left above the lower half, skip that half.
    for step in (32, 16, 8, 4, 2, 1):
        if chips >> step:
            chips >>= step
            chip += step
    return chip + 1 if chips else -1


@kernel
def can_add(arrows: NDArray[np.int64], block: int, a: int, b: int) -> bool:
    """Whether a new arrow from chip a to a later chip b leaves every arrow without a detour."""
    # A path from a to b exists: it would be the detour of the new arrow.
    if arrows[block, LEADS_TO, a] >> b & 1:
        return False
    # The new arrow joins each chip before a to each chip behind b. Where such a pair has an arrow, that gets a detour.
    ends, sources = arrows[block, LEADS_TO, b] | (1 << b), arrows[block, LED_FROM, a] | (1 << a)
    while sources:
        low = sources & -sources
        if arrows[block, READ_BY, last(low)] & ends:
            return False
        sources ^= low
    return True


@kernel
def add(arrows: NDArray[np.int64], block: int, a: int, b: int) -> None:
    """Draw the arrow from chip a to chip b."""
    # Both rows of paths stay transitively closed: everything up to a now leads to everything from b on.
    ends, sources = arrows[block, LEADS_TO, b] | (1 << b), arrows[block, LED_FROM, a] | (1 << a)
    for chip in range(arrows.shape[2]):
        if sources >> chip & 1:
            arrows[block, LEADS_TO, chip] |= ends
        if ends >> chip & 1:
            arrows[block, LED_FROM, chip] |= sources
    arrows[block, READ_BY, a] |= 1 << b
    arrows[block, READS, b] |= 1 << a


@kernel
def copy_with(arrows: NDArray[np.int64], block: int, sources: int, chip: int) -> bool:
    """Write to block + 1 a copy of the block with new arrows from all of `sources` to a chip; False: one has a detour.

    Where it is False nothing is written.
    """
    # Each arrow is checked against the old block alone. That suffices if no two sources have a path between them: all
    # new arrows end at the same chip, so only such a path could make one the detour of another.
    rest = sources
    while rest:
        low = rest & -rest
        source = last(low)
        if arrows[block, LEADS_TO, source] & sources or not can_add(arrows, block, source, chip):
            return False
        rest ^= low
    for row in range(4):
        for column in range(arrows.shape[2]):
            arrows[block + 1, row, column] = arrows[block, row, column]
    while sources:
        low = sources & -sources
        add(arrows, block + 1, last(low), chip)
        sources ^= low
    return True


@kernel
def may_find_chip(arrows: NDArray[np.int64], block: int, read_chips: int, allowed: int) -> bool:
    """Whether a node that reads these chips may still find one in `allowed`; False only where it cannot.

    It cannot where it reads chips that are two or more arrows apart. Where it reads both ends of an arrow it must be
    on the second.
    """
    # Edges lead to the same or a later chip.
    latest = last(read_chips)
    if not allowed >> latest:
        return False
    # Two chips that it reads and that lie on a path: the node would give the path's first chip an arrow beside it,
    # unless the path is one arrow and the node lies on its end.
    seconds, rest = 0, read_chips
    while rest:
        low = rest & -rest
        chip = last(low)
        led_to = arrows[block, LEADS_TO, chip] & read_chips
        if led_to & ~arrows[block, READ_BY, chip]:
            return False
        seconds |= led_to
        rest ^= low
    if not seconds:
        return True
    # It must lie on the end of every such arrow, so there is one end; being the last chip that is read, it is `latest`.
    if seconds != 1 << latest or not allowed & seconds:
        return False
    # On that chip it needs an arrow from each other chip that it reads.
    rest = read_chips & ~seconds & ~arrows[block, READS, latest]
    while rest:
        low = rest & -rest
        if not can_add(arrows, block, last(low), latest):
            return False
        rest ^= low
    return True
