"""From chips that keep precedence to a partition under all rules, front to back. Kernels.

Nodes are placed in the graph's order. Each goes to its assigned chip if no check rejects that: a valid partition stays
as it is. Otherwise it goes to a chip drawn from its probabilities, among the chips up to its readers' assigned chips;
if all of those are rejected, to the first later one that is not. The checks of a chip, in this order:

- memory: it has no room for the node, or the two chips of a doubled edge have no room for its remaining inner nodes;
- doubled edges, of which the node is an inner node: it belongs on the chip of the edge's source or on one other, which
  the first inner node to leave the source's chip decides, for the edge's reader too;
- arrows: one that the chip would need, or one that is there, had a detour then;
- waiting nodes: one would be left without a chip, by what `may_find_chip` sees.

If no chip is left the sweep goes back to the latest node to blame and tries its other chips. Up to the place of the
failure assigned chips are then ignored, and chips that need no new arrow come first.

Source: this file's own (the going back is conflict-directed backjumping: Prosser, "Hybrid algorithms for the constraint
satisfaction problem", Computational Intelligence 1993). The MCM paper leaves repair to CP-SAT (section 4.2).
Deviations: of the nodes to blame only the two latest are kept, so a failed sweep proves nothing; and where chips remain
empty below used ones, the used ones move up in their order, which breaks no other rule (no step checks no-skip).

Each step records its changes on the trail, even if it then fails: the caller rewinds. The arrays are those of
`Positions` and `SweepState`, passed one by one: passing the tuples makes a call many times slower. For the same reason
each function has one exit: numba counts references to an array that is last used in a branch.

Arrows between chips under the triangle rule are sets of chips in the bits of int64. `arrows` is int64 [?, 4, C], of
which one block [4, C] is read. Its rows hold for each chip the chips that read it, the chips that it reads, and the
chips that it leads to and that lead to it along any number of arrows. Invariant: no arrow has a detour, so the arrows
are their own transitive reduction (MCM paper, equation 4). Where a chip leads to another without an arrow, the other
is therefore two or more arrows away.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim import keys
from hwsim.jit import kernel
from hwsim.mcm.solver.assignment import pick
from hwsim.mcm.solver.relations import Positions
from hwsim.mcm.solver.sweep_state import (
    ALLOWED,
    LIMITED_BY,
    READ_CHIPS,
    SECOND_CHIP,
    UNPLACED_BYTES,
    SweepState,
    blame,
    blame_holder,
    blame_sources,
    clear,
    record,
    rewind,
    update_joins,
)

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

    If it is False nothing is written.
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


@kernel
def join_doubled_edges(
    inner_start: NDArray[np.int64],
    inner: NDArray[np.int64],
    source: NDArray[np.int64],
    reader: NDArray[np.int64],
    weight: NDArray[np.int64],
    chips: NDArray[np.int64],
    allowed: NDArray[np.int64],
    limited_by: NDArray[np.int64],
    second_chip: NDArray[np.int64],
    unplaced_bytes: NDArray[np.int64],
    free_bytes: NDArray[np.int64],
    capacity: int,
    trail: NDArray[np.int64],
    size: int,
    node: int,
    chip: int,
    culprit: int,
    other: int,
) -> tuple[bool, int, int, int]:
    """Put a node on a chip as an inner node of its doubled edges.

    Invariant of an edge: the inner nodes that are placed lie on the chip of its source or on its `second_chip`, where
    its reader must lie too; and the free bytes of these two suffice for the inner nodes that are not placed.

    Returns:
        Whether the invariants can be kept; the size of the trail; the two latest nodes to blame.
    """
    fits, k = True, inner_start[node]
    while fits and k < inner_start[node + 1]:
        edge = inner[k]
        k += 1
        near, far, end = chips[source[edge]], second_chip[edge], reader[edge]
        if chip != near and chip != far:
            # The first inner node to leave the source's chip decides the second one, which must suit the reader.
            fits = far < 0 and allowed[end] >> chip & 1 == 1
            if fits:
                size = record(trail, size, SECOND_CHIP, edge, far)
                size = record(trail, size, ALLOWED, end, allowed[end])
                size = record(trail, size, LIMITED_BY, end, limited_by[end])
                second_chip[edge], allowed[end], limited_by[end], far = chip, 1 << chip, node, chip
        if fits and weight[node]:
            size = record(trail, size, UNPLACED_BYTES, edge, unplaced_bytes[edge])
            unplaced_bytes[edge] -= weight[node]
            # A second chip that is not decided may turn out to be an empty one.
            space = free_bytes[near] + (free_bytes[far] if far >= 0 else capacity) - weight[node]
            if unplaced_bytes[edge] > space:
                fits = False
                full = 1 << near | (1 << far if far >= 0 else 0)
                culprit, other = blame_holder(chips, weight, full, node, culprit, other)
        if not fits:
            culprit, other = blame(culprit, other, source[edge], node)
            culprit, other = blame(culprit, other, limited_by[end], node)
    return fits, size, culprit, other


@kernel
def inform_readers(
    out_start: NDArray[np.int64],
    out: NDArray[np.int64],
    read_chips: NDArray[np.int64],
    joins: NDArray[np.int64],
    join_at: NDArray[np.int64],
    trail: NDArray[np.int64],
    size: int,
    node: int,
    chip: int,
) -> int:
    """Add a node's chip to those that its readers read; returns the size of the trail."""
    for k in range(out_start[node], out_start[node + 1]):
        reader = out[k]
        if not read_chips[reader] >> chip & 1:
            size = record(trail, size, READ_CHIPS, reader, read_chips[reader])
            read_chips[reader] |= 1 << chip
            update_joins(joins, join_at, reader, read_chips[reader])
    return size


@kernel
def sweep(
    graph: Positions,
    state: SweepState,
    weights: NDArray[np.float32],
    assigned: NDArray[np.int64],
    key: np.uint64,
    counter: int,
    limit: int,
) -> tuple[bool, int, int]:
    """A partition in `state.chip` [N] by position, near `assigned` int64 [N], which keeps precedence.

    `weights` float32 [N, C] by node or [1, C]; at most `limit` placements are taken back.

    Returns:
        Whether one was found; the next counter; how many placements were taken back.
    """
    clear(graph, state)
    # The arrays are unpacked once, since a call to which the tuples are passed is many times slower.
    chips, free_bytes, weight, capacity = state.chip, state.free_bytes, graph.weight, graph.capacity
    arrows, drawn_by, joins, join_at = state.arrows, state.drawn_by, state.joins, state.join_at
    read_chips, allowed, limited_by, tried = state.read_chips, state.allowed, state.limited_by, state.tried
    second_chip, unplaced_bytes, other_culprit = state.second_chip, state.unplaced_bytes, state.other_culprit
    trail, trail_before, block_before = state.trail, state.trail_before, state.block_before
    out_start, out, into_start, into = graph.out_start, graph.out, graph.into_start, graph.into
    inner_start, inner, source, reader = graph.inner_start, graph.inner, graph.source, graph.reader
    # Invariant: nodes before `node` are placed and keep all rules, and everything in the state follows from them:
    # the trail up to `size`, the arrows in `block`. Below `careful` the sweep has failed before.
    node, size, block, failures, careful = 0, 0, 0, 0, 0
    while node < len(assigned):
        # Earlier chips than those of what the node reads would turn an edge back.
        reads, first = read_chips[node], max(last(read_chips[node]), 0)
        left = allowed[node] & ~tried[node] & ~((1 << first) - 1)
        # It does not wait any more.
        update_joins(joins, join_at, node, 0)
        culprit, other = other_culprit[node], -1
        chip, fits, old_size, old_block = assigned[node], False, size, block
        keep_assigned = node >= careful and left >> chip & 1
        while left:
            if not keep_assigned:
                row = weights[min(graph.node[node], len(weights) - 1)]
                number = keys.uniform(key, np.uint64(counter))
                chip = _draw_chip(
                    out_start, out, assigned, arrows, row, left, reads, block, node, careful, number
                )
                counter += 1
            keep_assigned = False
            left &= ~(1 << chip)
            # Memory, and doubled edges of which this is an inner node.
            fits = free_bytes[chip] >= weight[node]
            if not fits:
                culprit, other = blame_holder(chips, weight, 1 << chip, node, culprit, other)
            elif inner_start[node] < inner_start[node + 1]:
                fits, size, culprit, other = join_doubled_edges(
                    inner_start,
                    inner,
                    source,
                    reader,
                    weight,
                    chips,
                    allowed,
                    limited_by,
                    second_chip,
                    unplaced_bytes,
                    free_bytes,
                    capacity,
                    trail,
                    size,
                    node,
                    chip,
                    culprit,
                    other,
                )
            # Arrows. Each node that draws some gets a block of its own: to go back only changes the number.
            new_sources = reads & ~(1 << chip) & ~arrows[block, READS, chip] if graph.triangle else 0
            if fits and new_sources:
                fits = copy_with(arrows, block, new_sources, chip)
                if not fits:
                    culprit, other = blame(culprit, other, drawn_by[block], node)
                block += 1
                drawn_by[block] = node
            if fits:
                size = inform_readers(out_start, out, read_chips, joins, join_at, trail, size, node, chip)
            # Waiting nodes for which something changed: by new arrows all joins, else the node's readers; and the
            # readers of doubled edges, which may have a single chip left.
            if fits and graph.triangle:
                stranded = len(assigned)
                direct = joins[-1] if new_sources else out_start[node + 1] - out_start[node]
                for k in range(direct + inner_start[node + 1] - inner_start[node]):
                    if k >= direct:
                        waiting = reader[inner[inner_start[node] + k - direct]]
                    else:
                        waiting = joins[k] if new_sources else out[out_start[node] + k]
                    if (
                        read_chips[waiting]
                        and waiting < stranded
                        and not may_find_chip(arrows, block, read_chips[waiting], allowed[waiting])
                    ):
                        stranded = waiting
                if stranded < len(assigned):
                    fits = False
                    culprit, other = blame(culprit, other, drawn_by[old_block], node)
                    culprit, other = blame_sources(
                        into_start, into, limited_by, stranded, node, culprit, other
                    )
            if fits:
                break
            if size > old_size:
                rewind(
                    trail,
                    read_chips,
                    allowed,
                    limited_by,
                    second_chip,
                    unplaced_bytes,
                    joins,
                    join_at,
                    size,
                    old_size,
                )
            # While the nodes before stay, this chip fails again.
            tried[node] |= 1 << chip
            size, block = old_size, old_block
        if fits:
            chips[node] = chip
            free_bytes[chip] -= weight[node]
            trail_before[node], block_before[node] = old_size, old_block
            node += 1
            tried[node], other_culprit[node] = 0, -1
            continue
        # No chip is left. Beside those whom the checks blamed, who left the node no more chips to try is to blame.
        culprit, other = blame_sources(into_start, into, limited_by, node, node, culprit, other)
        failures += 1
        careful = max(careful, node + 1)
        if failures > limit or culprit < 0:
            return False, counter, failures
        mark = trail_before[culprit]
        rewind(
            trail, read_chips, allowed, limited_by, second_chip, unplaced_bytes, joins, join_at, size, mark
        )
        size, block = mark, block_before[culprit]
        # From the culprit on all nodes wait again.
        for taken_back in range(culprit, node + 1):
            update_joins(joins, join_at, taken_back, read_chips[taken_back])
            if taken_back < node:
                free_bytes[chips[taken_back]] += weight[taken_back]
        # The culprit tries another chip. If it has none, the other node is still to blame for this failure.
        node = culprit
        tried[node] |= 1 << chips[node]
        other_culprit[node] = max(other_culprit[node], other)
    if graph.no_skip:
        _close_gaps(chips, graph.chips)
    return True, counter, failures


@kernel
def _draw_chip(
    out_start: NDArray[np.int64],
    out: NDArray[np.int64],
    assigned: NDArray[np.int64],
    arrows: NDArray[np.int64],
    weights: NDArray[np.float32],
    left: int,
    reads: int,
    block: int,
    node: int,
    careful: int,
    number: float,
) -> int:
    """One of the chips `left` for a node, drawn in proportion to weights [C] by a number uniform on [0, 1)."""
    first = max(last(reads), 0)
    # Not behind the assigned chip of a reader if possible: the reader would have to move too.
    until = arrows.shape[2] - 1
    for k in range(out_start[node], out_start[node + 1]):
        until = min(until, assigned[out[k]])
    pool = left & ((1 << (max(first, until) + 1)) - 1)
    # Where the sweep has failed before, chips without new arrows come first: arrows limit what follows.
    quiet = 0
    for chip in range(first, arrows.shape[2] if node < careful else 0):
        if pool >> chip & 1 and not reads & ~(1 << chip) & ~arrows[block, READS, chip]:
            quiet |= 1 << chip
    pool = quiet if quiet else pool
    return pick(pool if pool else left & -left, weights, number, 1.0)


@kernel
def _close_gaps(chips: NDArray[np.int64], count: int) -> None:
    """Number the chips in use without gaps, in their order; `count` is the number of all chips."""
    # `number` is first whether a chip is in use, then how many chips in use come before it: its new number.
    number = np.zeros(count, np.int64)
    for chip in chips:
        number[chip] = 1
    in_use = 0
    for chip in range(count):
        used = number[chip]
        number[chip] = in_use
        in_use += used
    for node in range(len(chips)):
        chips[node] = number[chips[node]]
