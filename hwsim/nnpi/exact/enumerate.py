"""The fastest of all mappings, where they are few enough to try every one."""

from __future__ import annotations

import math

import numpy as np

from hwsim.nnpi.latency import latencies
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Ints, Tables
from hwsim.problem import Mapping16

MOST = 2**17
"""Mappings that are tried at most: about a second."""
AT_ONCE = 4096


def fastest_of_all(tables: Tables) -> tuple[Mapping16, float, int] | None:
    """The fastest mapping int16 [N, 2] that runs, its noise-free latency (s), and how many were tried; None: too many.

    What the compiler makes of all mappings holds every valid one: it leaves those as they are.
    """
    ops, tensors = np.nonzero(np.stack([tables.weight_bytes, tables.activation_bytes], axis=1))
    levels = len(tables.capacity_bytes)
    if levels ** min(len(ops), MOST.bit_length()) > MOST:
        return None
    count = levels ** len(ops)
    best, best_s = np.empty(0, np.int16), math.inf
    for first in range(0, count, AT_ONCE):
        numbers = np.arange(first, min(first + AT_ONCE, count))
        rows = np.full((len(numbers), len(tables.weight_bytes), 2), -1, np.int16)
        rows[:, ops, tensors] = digits(numbers, levels, len(ops))
        runs, _ = rectify(tables, rows)
        seconds = latencies(tables, runs, np.zeros(len(runs)))
        at = int(np.argmin(seconds))
        if seconds[at] < best_s:
            best, best_s = runs[at].copy(), float(seconds[at])
    return best, best_s, count


def digits(numbers: Ints, base: int, length: int) -> Ints:
    """The last `length` digits of numbers int64 [B] to a base: int64 [B, length]."""
    return numbers[:, None] // base ** np.arange(length, dtype=np.int64) % base
