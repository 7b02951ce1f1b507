"""Partitions that cut the graph's own order into runs, one a chip: the last resort of the solver. Kernels.

A simple family of which it is known in time linear in the lengths of the runs whether it has a member. Under the
triangle rule no edge may jump over a chip: then the only arrows are those from a chip to the next. A chain of layers
with residual connections has such partitions; other graphs may have none, which says nothing about their partitions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim import keys
from hwsim.jit import kernel
from hwsim.mcm.solver.positions import Plan

NONE = 1 << 40


@kernel
def least_ends(p: Plan) -> NDArray[np.int64]:
    """Where a run that begins at a position ends at the earliest, exclusive, int64 [N]."""
    n = len(p.node)
    ends, reach = np.zeros(n, np.int64), 0
    for s in range(n):
        ends[s] = max(s + 1, reach + 1 if p.triangle else 0)
        for k in range(p.out_start[s], p.out_start[s + 1]):
            reach = max(reach, p.out[k])
    return ends


@kernel
def runs_needed(p: Plan, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fewest runs from each position to the end, int64 [N + 1]; `NONE` or more where there are none."""
    n = len(p.node)
    needed = np.full(n + 1, NONE, np.int64)
    needed[n] = 0
    for s in range(n - 1, -1, -1):
        held = 0
        for e in range(s + 1, n + 1):
            held += p.weight[e - 1]
            if held > p.capacity:
                break
            if e >= ends[s]:
                needed[s] = min(needed[s], needed[e] + 1)
    return needed


@kernel
def cut(
    p: Plan,
    ends: NDArray[np.int64],
    needed: NDArray[np.int64],
    key: np.uint64,
    counter: int,
    full: bool,
    chip: NDArray[np.int64],
) -> int:
    """A partition into runs, int64 [N] by position into `chip`, each next end equally likely; returns the next counter.

    With `full` each run is as long as can be. There must be a partition: `needed[0]` is no more than the chips.
    """
    n, s = len(p.node), 0
    for c in range(p.chips):
        held, choices, chosen = 0, 0, s
        for e in range(s + 1, n + 1):
            held += p.weight[e - 1]
            if held > p.capacity:
                break
            if e >= ends[s] and needed[e] < p.chips - c:
                choices += 1
                if full or keys.uniform(key, np.uint64(counter)) * choices < 1.0:
                    chosen = e
                counter += 1
        for i in range(s, chosen):
            chip[i] = c
        s = chosen
        if s == n:
            break
    return counter
