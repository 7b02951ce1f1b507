"""Tensors into memories by score: the placer of `nnpi`, which the compiler's rules use, too.

Source: list scheduling by priority, here in space: what is placed never moves again. See `hwsim.placing`.

A weight outside the slowest memory is held at every step, an activation from its op to its last consumer (closed).
What weights hold of a memory is one number, which meets the fullest step of the activations; activations are a tree
over the steps (`hwsim.usage_tree`), so that a map takes T log N operations, however long tensors live.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.nnpi.place_features import FEATURE_NAMES, place_features
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import WEIGHT, Ints, Tables, Tensors, tensors
from hwsim.placing import Placer, Scores, ranked
from hwsim.problem import Mapping16
from hwsim.usage_tree import add, most, nothing_used


class NnpiPlacer(Placer):
    """The placer of a workload on a chip. Memory 0 takes every tensor: the tables are only built where it can."""

    feature_names = FEATURE_NAMES

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.tensors: Tensors = tensors(tables)
        self.node, self.head = self.tensors.op, self.tensors.head

    @cached_property
    def features(self) -> NDArray[np.float32]:  # type: ignore[override]
        """See `hwsim.nnpi.place_features`."""
        return place_features(self._tables, self.tensors)

    def place(self, scores: Scores, free_share: NDArray[np.float64]) -> Mapping16:
        """See `hwsim.placing.Placer.place`."""
        self.check(scores, free_share)
        return place(self._tables, self.tensors, scores, free_share)

    def repaired(self, mapping: Mapping16) -> Mapping16:
        """The rectified maps."""
        found: Mapping16 = rectify(self._tables, np.ascontiguousarray(mapping))[0]
        return found


def place(tables: Tables, found: Tensors, scores: Scores, free_share: NDArray[np.float64]) -> Mapping16:
    """The maps int16 [B, N, 2] of scores float32 [B, T, L]; `free_share` float64 [B] of the prefetch memory is kept."""
    ops = len(tables.weight_bytes)
    budget = np.array([room(tables, share) for share in free_share.tolist()], np.int64).reshape(
        len(scores), -1
    )
    levels = _fill(ops, scores, ranked(scores), found.head, found.size_bytes, found.first, found.last, budget)
    mapping = np.full((len(scores), ops, 2), -1, np.int16)
    mapping[:, found.op, found.head] = levels
    return mapping


def room(tables: Tables, free_share: float) -> list[int]:
    """Whole bytes of each memory that may be used if a share of the prefetch memory stays empty."""
    # An integer exceeds a number if and only if it exceeds its floor; a float of an int64's maximum would overflow.
    limits = [int(capacity) for capacity in tables.capacity_bytes]
    limits[tables.into] = min(math.floor(float(limits[tables.into]) * (1.0 - free_share)), 2**63 - 1)
    return limits


@kernel
def _next_best(scores: NDArray[np.float32], score: float, level: int) -> int:
    """The memory with the best of the scores [L] after that of some score and number; 0 if none is above memory 0.

    The faster of two with equal scores comes first.
    """
    best = 0
    for m in range(len(scores) - 1, 0, -1):
        later = scores[m] < score or (scores[m] == score and m < level)
        if later and scores[m] > scores[best]:
            best = m
    return best


@kernel
def _fill(
    ops: int,
    scores: Scores,
    order: Ints,
    head: Ints,
    size_bytes: Ints,
    first: Ints,
    last: Ints,
    budget: Ints,
) -> NDArray[np.int16]:
    """Memories int16 [B, T] of tensors that are placed in the orders int64 [B, T], in `budget` bytes int64 [B, L]."""
    batch, count, levels = scores.shape
    chosen = np.zeros((batch, count), np.int16)
    for b in range(batch):
        live = [nothing_used(ops) for _ in range(levels)]
        pinned = np.zeros(levels, np.int64)
        for k in order[b]:
            size = size_bytes[k]
            from_step, to_step = (0, ops) if head[k] == WEIGHT else (first[k], last[k] + 1)
            level = _next_best(scores[b, k], np.inf, levels)
            while (
                level > 0 and pinned[level] + most(live[level], from_step, to_step) + size > budget[b, level]
            ):
                level = _next_best(scores[b, k], scores[b, k, level], level)
            # Nothing asks what the slowest memory holds.
            if level > 0 and head[k] == WEIGHT:
                pinned[level] += size
            elif level > 0:
                add(live[level], from_step, to_step, size)
            chosen[b, k] = level
    return chosen
