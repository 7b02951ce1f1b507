"""One training step at any batch size, from its tables at two: where every size is affine in the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from egrl_training.simulator.tables import Tables

SIZES = ("size_bytes", "scratch_bytes", "fixed_bytes")
RATES = ("seconds", "again_s")
"""What may grow with the batch: whole bytes, and seconds."""
MOST = 1 << 30
"""No batch is larger."""


def are_alike(one: Tables, other: Tables) -> bool:
    """True if two tables differ in bytes and seconds alone."""
    fields = [name for name in Tables._fields if name not in SIZES + RATES]
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in fields)


def are_equal(one: Tables, other: Tables) -> bool:
    """True if two tables have the same ops, values and bytes."""
    return are_alike(one, other) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in SIZES
    )


@dataclass(frozen=True)
class Batches:
    """The tables of a step at two batch sizes, which are alike.

    Attributes:
        batch, other_batch: samples.
        tables, other: the tables there.
    """

    batch: int
    tables: Tables
    other_batch: int
    other: Tables

    def is_affine(self) -> bool:
        """True if both tables are alike and each size grows by whole bytes per sample."""
        if not are_alike(self.tables, self.other):
            return False
        apart = self.other_batch - self.batch
        return all(
            not np.any((np.asarray(getattr(self.other, name)) - getattr(self.tables, name)) % apart)
            for name in SIZES
        )

    def at(self, batch: int) -> Tables:
        """The tables at a batch size."""
        more, apart = batch - self.batch, self.other_batch - self.batch
        changed = {}
        for name in SIZES + RATES:
            here, there = getattr(self.tables, name), getattr(self.other, name)
            per_sample = (there - here) // apart if name in SIZES else (there - here) / apart
            changed[name] = np.maximum(here + more * per_sample, 0)
        return self.tables._replace(**changed | {"fixed_bytes": int(changed["fixed_bytes"])})


def largest(fits: Callable[[int], bool], first: int) -> int:
    """The largest batch of which `fits` says True, found by doubling from `first` and by halving; 0 if none does.

    `fits` says False of all that is larger than one of which it does. No more than `MOST` are asked for.
    """
    low, high = 0, first
    while high <= MOST and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def largest_near(fits: Callable[[int], bool], guess: int) -> int:
    """As `largest`, asking first for batches beside one that is probably near it."""
    low, high, apart = 0, MOST + 1, 1
    at = min(max(guess, 1), MOST)
    while high - low > 1:
        low, high = (at, high) if fits(at) else (low, at)
        if low and high <= MOST:
            at = (low + high) // 2
        else:
            at = min(low + apart, MOST) if low else max(high - apart, 1)
            apart *= 2
    return low
