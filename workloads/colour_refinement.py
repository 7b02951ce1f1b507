"""Colour refinement: which parts of a large graph or program cannot be distinguished by what lies near them.

At first things have one colour if their own numbers are equal. After a step two things have one colour if they had one
before and meet each colour equally often. Source: the Weisfeiler-Leman algorithm (1968), with sums of hashes, which do
not depend on the order of what is met; a collision of two 64-bit sums is next to impossible.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Colours = NDArray[np.int64]
"""A colour each, numbered from 0."""
Hashes = NDArray[np.uint64]

LARGE = 4096
"""In a graph of more nodes the moves (`population/moves.py`) and the policies (`policies/roles.py`) treat nodes that
are alike as one."""

DEPTH = 3
"""Edges around a node that distinguish it from others."""
GRADES = 256
"""A feature with more different values is ignored: such a feature counts how much of the network is left, say."""
_ODD = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15))
"""Multipliers of SplitMix64 (Steele et al. 2014)."""


def first_colours(*columns: ArrayLike) -> Colours:
    """Colours int64 [N] of N things by columns of numbers [N] each: equal where all numbers are."""
    mixed = [_mixed(hashes(column)) for column in columns]
    colour: Hashes = np.zeros(len(mixed[0]), np.uint64)
    for column in mixed:
        colour = _mixed(colour * _ODD[1] ^ column)
    return _number(colour)


def refine(own: Colours, met: Colours, starts: NDArray[np.integer], along: Hashes | None = None) -> Colours:
    """A step's colours int64 [N] of things with colours `own` [N].

    Thing n meets the colours `met[starts[n]:starts[n + 1]]`; `along` [E], where it is given, says how (see `hashes`).
    """
    meets = _mixed(met.astype(np.uint64))
    if along is not None:
        meets = _mixed(meets * _ODD[1] ^ along)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(meets, dtype=np.uint64)])[starts]
    return _number(_mixed(own.astype(np.uint64)) * _ODD[2] + (sums[1:] - sums[:-1]))


def alike(x: NDArray[np.floating], edges: NDArray[np.int64], limit: int) -> Colours:
    """Numbers int64 [N] of at most `limit` classes of nodes that are alike, as fine as that allows.

    Of nodes with features [N, F] and edges int64 [2, E], seen in both directions, those of one class cannot be
    distinguished by what lies within `DEPTH` edges, or fewer where that would make more classes. A feature of more than
    `GRADES` different values, such as how much is left of the network, distinguishes none. Where even features alone
    would make too many classes, there is one.
    """
    nodes = len(x)
    keys = np.unique(np.concatenate([edges[1] * nodes + edges[0], edges[0] * nodes + edges[1]]))
    target, source = np.divmod(keys, max(nodes, 1))
    starts = np.searchsorted(target, np.arange(nodes + 1))
    classes = np.zeros(nodes, np.int64)
    finer = first_colours(classes, *(column for column in x.T if len(np.unique(column)) <= GRADES))
    for _ in range(DEPTH + 1):
        if finer.max(initial=0) >= limit:
            break
        classes = finer
        finer = refine(classes, classes[source], starts)
    return classes


def hashes(numbers: ArrayLike) -> Hashes:
    """A hash of each number."""
    return _mixed((np.asarray(numbers, np.float64) + 0.0).view(np.uint64))  # adding makes one zero of both


def _number(keys: Hashes) -> Colours:
    """Equal keys get equal numbers."""
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _mixed(numbers: Hashes) -> Hashes:
    """Numbers spread over 64 bits."""
    z = (numbers + np.uint64(1)) * _ODD[2]
    z = (z ^ (z >> np.uint64(30))) * _ODD[0]
    z = (z ^ (z >> np.uint64(27))) * _ODD[1]
    return np.asarray(z ^ (z >> np.uint64(31)))
