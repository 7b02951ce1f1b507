"""Chips for all nodes that keep the acyclic rule: SAMPLE and FIX where only precedence has to be propagated. Kernels.

Source: MCM paper, section 4.2, algorithms 1 (SAMPLE) and 2 (FIX): one node at a time, in a random order, from its
probabilities restricted to its domain. For precedence alone a domain is an interval, its ends follow from those of the
neighbours, and no decision has ever to be taken back. `hwsim/mcm/solver/sweep.py` then sees to the other rules.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim import keys
from hwsim.jit import kernel
from hwsim.mcm.solver.relations import Positions


@kernel
def pick(domain: int, weights: NDArray[np.float32], where: float, fall: float) -> int:
    """A chip of a non-empty domain, in proportion to its weights [C]; equally likely where they have none there.

    `where` is uniform on [0, 1). With `fall` below 1 each chip's weight is that of the one before it in the domain,
    times `fall`, the more.
    """
    total, size, scale = 0.0, 0.0, 1.0
    for chip in range(len(weights)):
        if domain >> chip & 1:
            total += weights[chip] * scale
            size += scale
            scale *= fall
    even = not total > 0.0
    left, scale, chosen, chip = where * (size if even else total), 1.0, -1, 0
    # Subtract shares until nothing is left. Rounding may leave a rest behind the last chip: then it is chosen, since
    # a chip without a share never is.
    while left >= 0.0 and chip < len(weights):
        if domain >> chip & 1:
            share = scale if even else weights[chip] * scale
            scale *= fall
            if share > 0.0:
                chosen = chip
                left -= share
        chip += 1
    return chosen


@kernel
def shuffle(order: NDArray[np.int64], key: np.uint64, counter: int) -> int:
    """A new random order in place; returns the next free counter."""
    for i in range(len(order) - 1, 0, -1):
        j = int(keys.uniform(key, np.uint64(counter)) * (i + 1))
        counter += 1
        order[i], order[j] = order[j], order[i]
    return counter


@kernel
def _raise_readers(
    start: NDArray[np.int64],
    out: NDArray[np.int64],
    first: NDArray[np.int64],
    node: int,
    stack: NDArray[np.int64],
) -> None:
    """Raise the first chip of all that a node leads to, at least to its own first chip."""
    chip = first[node]
    stack[0], size = node, 1
    while size:
        size -= 1
        source = stack[size]
        for k in range(start[source], start[source + 1]):
            reader = out[k]
            # What is late enough already has late enough readers: each node enters the stack once at most.
            if first[reader] < chip:
                first[reader] = chip
                stack[size] = reader
                size += 1


@kernel
def _lower_sources(
    start: NDArray[np.int64],
    into: NDArray[np.int64],
    final: NDArray[np.int64],
    node: int,
    stack: NDArray[np.int64],
) -> None:
    """Lower the final chip of all that leads to a node, at most to its own final chip."""
    # Each node is pushed only when its final chip falls to `chip`, which happens once: the stack never overflows.
    chip = final[node]
    stack[0], size = node, 1
    while size:
        size -= 1
        reader = stack[size]
        for k in range(start[reader], start[reader + 1]):
            source = into[k]
            if final[source] > chip:
                final[source] = chip
                stack[size] = source
                size += 1


@kernel
def _roomy(room: NDArray[np.int64], first: int, final: int, weight: int) -> int:
    """The chips from first to final that have room for a weight; all of them if none has."""
    span = (1 << (final + 1)) - (1 << first)
    roomy = span
    for chip in range(first, final + 1):
        # A node without weights may go to a chip that is overfull already.
        if weight > 0 and room[chip] < weight:
            roomy ^= 1 << chip
    return roomy if roomy else span


@kernel
def draw_assignment(
    graph: Positions,
    weights: NDArray[np.float32],
    proposed: NDArray[np.int16],
    order: NDArray[np.int64],
    key: np.uint64,
    counter: int,
    first: NDArray[np.int64],
    scratch: NDArray[np.int64],
) -> int:
    """Chips int64 [N] by position into `first`, each edge towards the same or a later one; returns the next counter.

    A chip without room for a node is taken only if its whole interval has none.

    Args:
        graph: the graph.
        weights: float32 [N, C] by node, or [1, C] for all.
        proposed: int16 [N] by node for FIX (-1: none); [0] for SAMPLE.
        order: int64 [N], the nodes in the order of decisions.
        key, counter: random numbers.
        first: int64 [N], for the answer.
        scratch: int64 [3, N + 1].
    """
    # Invariant: an undecided node may take any chip from first to final without turning an edge back; for a decided
    # one both are its chip. So no decision is ever taken back.
    stack, final, decided = scratch[0], scratch[1], scratch[2]
    room, last_row = np.full(graph.chips, graph.capacity), len(weights) - 1
    for at in range(len(order)):
        first[at], final[at], decided[at] = graph.earliest[at], graph.latest[at], 0
    # FIX first keeps the proposed chips that it can, and then draws those of the other nodes.
    for keeping in range(1 if len(proposed) else 0, -1, -1):
        for node in order:
            at = graph.order[node]
            if decided[at]:
                continue
            weight = graph.weight[at]
            if keeping:
                chip = int(proposed[node])
                if chip < first[at] or chip > final[at] or room[chip] < weight:
                    continue
            elif first[at] == final[at]:
                chip = first[at]
            else:
                chips = _roomy(room, first[at], final[at], weight)
                where = keys.uniform(key, np.uint64(counter))
                counter += 1
                chip = pick(chips, weights[min(node, last_row)], where, 1.0)
            decided[at] = 1
            room[chip] -= weight
            if first[at] < chip:
                first[at] = chip
                _raise_readers(graph.out_start, graph.out, first, at, stack)
            if final[at] > chip:
                final[at] = chip
                _lower_sources(graph.into_start, graph.into, final, at, stack)
    return counter
