"""Pairs of buffers that are in each other's way: at one place at one time, or copied at the same time.

In the order in which they begin, a buffer is compared with those that begin before it ends; a layout of many steps has
few of these.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.mmap.layout import Layout
from hwsim.problem import Violation
from workloads.programs.program import NO_ALIAS, Program

COPY = 1


def overlaps(program: Program, layout: Layout, held: NDArray[np.int64]) -> list[Violation]:
    """Pairs that overlap in time and place: each of `held` against all that begin within its interval."""
    held = held[np.argsort(layout.first[held], kind="stable")]
    size = np.array([program.tensors[program.buffers[n].tensor].size_bytes for n in held], np.int64)
    alias = np.array([program.buffers[n].alias_id for n in held], np.int64)
    first, last, offset = layout.first[held], layout.last[held], layout.offset_bytes[held]
    pairs = []
    for k, n in enumerate(held):
        later = slice(k + 1, np.searchsorted(first, last[k], side="right"))
        clash = first[k] <= last[later]
        clash &= (offset[later] < offset[k] + size[k]) & (offset[k] < offset[later] + size[later])
        clash &= (alias[later] != alias[k]) | (alias[k] == NO_ALIAS)
        pairs += [(min(n, m), max(n, m)) for m in held[later][clash]]
    return [
        Violation(
            "two buffers at the same place and time",
            f"{program.buffer_name(n)} and {program.buffer_name(m)}",
            2,
            1,
            "buffers",
        )
        for n, m in sorted(pairs)
    ]


def windows(program: Program, layout: Layout) -> list[Violation]:
    """Equation 6: pairs of windows with more than one step in common, each against all that begin within it."""
    copies = np.array([n for n in range(len(program)) if layout.action[n] == COPY], np.int64)
    copies = copies[np.argsort(layout.copy_first[copies], kind="stable")]
    start, end = layout.copy_first[copies], layout.copy_last[copies]
    pairs = []
    for k, n in enumerate(copies):
        later = slice(k + 1, np.searchsorted(start, end[k], side="left"))
        common = np.minimum(end[k], end[later]) - start[later] + 1
        pairs += [
            (min(n, m), max(n, m), int(steps))
            for m, steps in zip(copies[later], common, strict=True)
            if steps > 1
        ]
    return [
        Violation(
            "copies at the same time",
            f"{program.buffer_name(n)} and {program.buffer_name(m)}",
            steps,
            1,
            "steps",
        )
        for n, m, steps in sorted(pairs)
    ]
