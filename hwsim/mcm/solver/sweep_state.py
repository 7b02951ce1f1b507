"""The state of a sweep (`hwsim/mcm/solver/sweep.py`): which nodes are placed, and what follows for those that wait.

A trail records how placements are taken back. If a node finds no chip, placed nodes are to *blame*: of these only the
two latest are kept, `culprit` > `other` (-1: none). The sweep goes back to the culprit; the other is remembered
there, in case the culprit finds no chip either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.solver.relations import Positions

READ_CHIPS, ALLOWED, LIMITED_BY, SECOND_CHIP, UNPLACED_BYTES = range(5)
"""What an entry of the trail is about: the array of `SweepState` of that name."""


class SweepState(NamedTuple):
    """Arrays for a sweep over N positions, D doubled edges and C chips. Sets of chips are the bits of an int64.

    Attributes:
        chip: int64 [N], the chip of each placed node.
        read_chips: int64 [N], the chips of those nodes that a node reads and that are placed.
        allowed: int64 [N], the chips that bounds and doubled edges leave to a node.
        limited_by: int64 [N], the node that left a node a single chip (-1: none).
        tried: int64 [N + 1], chips known to fail while all earlier nodes stay where they are.
        trail_before: int64 [N], the size of the trail before a node was placed.
        block_before: int64 [N], the current block of arrows before a node was placed.
        drawn_by: int64 [?], the node that drew a block of arrows (-1: none).
        other_culprit: int64 [N + 1], the second node to blame when the sweep went back to a node (-1: none).
        joins: int64 [N + 1], the waiting nodes that read more than one chip, in any order; their number is the last
            entry.
        join_at: int64 [N], the place of a node in `joins` (-1: it is not there).
        second_chip: int64 [D], the one chip besides the source's on which inner nodes may lie (-1: not decided).
        unplaced_bytes: int64 [D], bytes of the inner nodes that are not placed.
        trail: int64 [?, 3], changes as (which array, index, old value).
        arrows: int64 [?, 4, C], one block for each placement that drew arrows (`hwsim/mcm/solver/sweep.py`).
        free_bytes: int64 [C].
    """

    chip: NDArray[np.int64]
    read_chips: NDArray[np.int64]
    allowed: NDArray[np.int64]
    limited_by: NDArray[np.int64]
    tried: NDArray[np.int64]
    trail_before: NDArray[np.int64]
    block_before: NDArray[np.int64]
    drawn_by: NDArray[np.int64]
    other_culprit: NDArray[np.int64]
    joins: NDArray[np.int64]
    join_at: NDArray[np.int64]
    second_chip: NDArray[np.int64]
    unplaced_bytes: NDArray[np.int64]
    trail: NDArray[np.int64]
    arrows: NDArray[np.int64]
    free_bytes: NDArray[np.int64]


@kernel
def new_sweep_state(graph: Positions) -> SweepState:
    """Arrays for sweeps over a graph; `clear` gives them their first values."""
    nodes, doubled, chips = len(graph.node), len(graph.source), graph.chips
    # Every arrow leads from a chip to a later one and is drawn once: so many blocks at most, and two to begin with.
    blocks = chips * (chips - 1) // 2 + 2
    return SweepState(
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes + 1, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.full(blocks, -1, np.int64),
        np.zeros(nodes + 1, np.int64),
        np.zeros(nodes + 1, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(doubled, np.int64),
        np.zeros(doubled, np.int64),
        np.zeros((len(graph.out) + len(graph.inner) + 3 * doubled + 1, 3), np.int64),
        np.zeros((blocks, 4, chips), np.int64),
        np.zeros(chips, np.int64),
    )


@kernel
def clear(graph: Positions, state: SweepState) -> None:
    """Set the state in which no node is placed."""
    for node in range(len(graph.node)):
        up_to_latest = (1 << (graph.latest[node] + 1)) - 1
        state.allowed[node] = up_to_latest & ~((1 << graph.earliest[node]) - 1)
        state.read_chips[node], state.tried[node] = 0, 0
        state.limited_by[node], state.other_culprit[node], state.join_at[node] = -1, -1, -1
    state.joins[-1] = 0
    for edge in range(len(graph.source)):
        state.second_chip[edge], state.unplaced_bytes[edge] = -1, graph.inner_weight[edge]
    # Block 0 holds no arrows. Later blocks are written before they are read.
    for chip in range(graph.chips):
        state.free_bytes[chip] = graph.capacity
        for row in range(4):
            state.arrows[0, row, chip] = 0


@kernel
def record(trail: NDArray[np.int64], size: int, array: int, index: int, old: int) -> int:
    """Append a change to the trail; returns the new size."""
    trail[size, 0] = array
    trail[size, 1] = index
    trail[size, 2] = old
    return size + 1


@kernel
def update_joins(joins: NDArray[np.int64], join_at: NDArray[np.int64], node: int, read_chips: int) -> None:
    """List a node among the joins if it reads more than one chip, and remove it otherwise.

    Invariant: `joins[join_at[v]] == v` for each listed node, and the list has no gaps.
    """
    at, size = join_at[node], joins[-1]
    is_join = read_chips & (read_chips - 1) != 0
    if is_join and at < 0:
        joins[size] = node
        at = size
        size += 1
    elif not is_join and at >= 0:
        # The last of the list fills the gap. It may be the node itself, whose own index is written below.
        size -= 1
        moved = joins[size]
        joins[at], join_at[moved] = moved, at
        at = -1
    join_at[node], joins[-1] = at, size


@kernel
def rewind(
    trail: NDArray[np.int64],
    read_chips: NDArray[np.int64],
    allowed: NDArray[np.int64],
    limited_by: NDArray[np.int64],
    second_chip: NDArray[np.int64],
    unplaced_bytes: NDArray[np.int64],
    joins: NDArray[np.int64],
    join_at: NDArray[np.int64],
    size: int,
    mark: int,
) -> None:
    """Undo the changes of a trail of this size back to `mark`.

    The arrays are those of `SweepState`, passed one by one: the whole tuple makes the call slower.
    """
    # Backwards, since an entry may be there several times: the oldest value is the one that stays.
    for entry in range(size - 1, mark - 1, -1):
        array, index, old = trail[entry, 0], trail[entry, 1], trail[entry, 2]
        if array == READ_CHIPS:
            read_chips[index] = old
            update_joins(joins, join_at, index, old)
        elif array == ALLOWED:
            allowed[index] = old
        elif array == LIMITED_BY:
            limited_by[index] = old
        elif array == SECOND_CHIP:
            second_chip[index] = old
        else:
            unplaced_bytes[index] = old


@kernel
def blame(culprit: int, other: int, suspect: int, node: int) -> tuple[int, int]:
    """The two latest of three nodes; a suspect that is not before `node`, or known already, changes nothing."""
    if suspect >= node or suspect in (culprit, other):
        return culprit, other
    return (suspect, culprit) if suspect > culprit else (culprit, max(suspect, other))


@kernel
def blame_sources(
    into_start: NDArray[np.int64],
    into: NDArray[np.int64],
    limited_by: NDArray[np.int64],
    stuck: int,
    node: int,
    culprit: int,
    other: int,
) -> tuple[int, int]:
    """Blame all that a stuck node reads and the node that left it a single chip, as far as they are before `node`."""
    for k in range(into_start[stuck], into_start[stuck + 1]):
        culprit, other = blame(culprit, other, into[k], node)
    return blame(culprit, other, limited_by[stuck], node)


@kernel
def blame_holder(
    chip: NDArray[np.int64], weight: NDArray[np.int64], chips: int, node: int, culprit: int, other: int
) -> tuple[int, int]:
    """Blame the latest node before `node` that holds weights on one of these chips."""
    holder = node - 1
    while holder >= 0 and not (weight[holder] > 0 and chips >> chip[holder] & 1):
        holder -= 1
    return blame(culprit, other, holder, node)
