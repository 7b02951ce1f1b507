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
from hwsim.mcm.solver.positions import Positions

NONE = 1 << 40


@kernel
def least_ends(graph: Positions) -> NDArray[np.int64]:
    """Where a run that begins at a position ends at the earliest, exclusive, int64 [N]."""
    n = len(graph.node)
    ends, reach = np.zeros(n, np.int64), 0
    for start in range(n):
        # The last node that reads a node before `start` must lie in this run: a later one would jump over it.
        ends[start] = max(start + 1, reach + 1 if graph.triangle else 0)
        for k in range(graph.out_start[start], graph.out_start[start + 1]):
            reach = max(reach, graph.out[k])
    return ends


@kernel
def runs_needed(graph: Positions, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fewest runs from each position to the end, int64 [N + 1]; `NONE` or more where there are none."""
    n = len(graph.node)
    needed = np.full(n + 1, NONE, np.int64)
    needed[n] = 0
    # From the back: the run that begins at a position may end at each place that memory and `ends` allow.
    for start in range(n - 1, -1, -1):
        held = 0
        for end in range(start + 1, n + 1):
            held += graph.weight[end - 1]
            if held > graph.capacity:
                break
            if end >= ends[start]:
                needed[start] = min(needed[start], needed[end] + 1)
    return needed


@kernel
def cut(
    graph: Positions,
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
    n, start = len(graph.node), 0
    for c in range(graph.chips):
        # Invariant: the chips from c on suffice for the nodes from `start` on. Only ends that keep that are choices.
        held, choices, chosen = 0, 0, start
        for end in range(start + 1, n + 1):
            held += graph.weight[end - 1]
            if held > graph.capacity:
                break
            if end >= ends[start] and needed[end] < graph.chips - c:
                # The i-th choice replaces the one before with probability 1 / i: in the end each is equally likely.
                choices += 1
                if full or keys.uniform(key, np.uint64(counter)) * choices < 1.0:
                    chosen = end
                counter += 1
        for i in range(start, chosen):
            chip[i] = c
        start = chosen
        if start == n:
            break
    return counter
