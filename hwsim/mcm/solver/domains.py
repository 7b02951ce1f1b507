"""The state of a branch: domains of chips, changed with a trail so that changes can be taken back. Kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.solver.relations import Relations

LATEST, TOP, TRAIL, HEAD, LENGTH = range(5)
"""Registers: the latest chip that must be used; the first chip that is out of use; the size of the trail; where the
queue begins and how long it is."""
DOMAIN, ABOVE, BELOW, FIXED, DIRECT, REACH, REACHED = range(7)
"""What an entry of the trail is about: the array of `State` of that name."""


class State(NamedTuple):
    """A branch of the search over N nodes and C chips.

    Attributes:
        domain, lo, hi: int64 [N], a set of chips, its first and its last.
        fixed: int64 [N], 1 if one chip is left and `apply_triangle` has propagated that.
        above, below: int64 [N], chips that hold fixed ancestors and fixed descendants.
        cover: int64 [C], how many domains hold a chip.
        nodes, held: int64 [C, C], nodes and bytes of the nodes by lo and hi.
        direct: int64 [C], chips that read from a chip.
        reach, reached: int64 [C], chips that a chip must lead to, and be led to from.
        trail: int64 [?, 3], changes as (which array, index, old value).
        queue, queued: int64 [N + 1] and [N], the nodes whose domain has changed, as a ring, and who is among them.
        stack: int64 [N + 1], scratch.
        registers: int64 [5].
    """

    domain: NDArray[np.int64]
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    fixed: NDArray[np.int64]
    above: NDArray[np.int64]
    below: NDArray[np.int64]
    cover: NDArray[np.int64]
    nodes: NDArray[np.int64]
    held: NDArray[np.int64]
    direct: NDArray[np.int64]
    reach: NDArray[np.int64]
    reached: NDArray[np.int64]
    trail: NDArray[np.int64]
    queue: NDArray[np.int64]
    queued: NDArray[np.int64]
    stack: NDArray[np.int64]
    registers: NDArray[np.int64]


@kernel
def new_state(relations: Relations) -> State:
    """The state in which every node may be on every chip."""
    n, chips = len(relations.weight), relations.chips
    state = State(
        np.full(n, (1 << chips) - 1, np.int64),
        np.zeros(n, np.int64),
        np.full(n, chips - 1, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.full(chips, n, np.int64),
        np.zeros((chips, chips), np.int64),
        np.zeros((chips, chips), np.int64),
        np.zeros(chips, np.int64),
        np.zeros(chips, np.int64),
        np.zeros(chips, np.int64),
        np.empty((n * (3 * chips + 2) + 3 * chips * chips + 64, 3), np.int64),
        np.zeros(n + 1, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n + 1, np.int64),
        np.zeros(5, np.int64),
    )
    state.registers[TOP] = chips
    state.nodes[0, chips - 1] = n
    state.held[0, chips - 1] = relations.weight.sum()
    return state


@kernel
def record(state: State, array: int, index: int, old: int) -> None:
    """Append a change to the trail."""
    t = state.registers[TRAIL]
    state.trail[t, 0] = array
    state.trail[t, 1] = index
    state.trail[t, 2] = old
    state.registers[TRAIL] = t + 1


@kernel
def restrict(relations: Relations, state: State, v: int, keep: int) -> bool:
    """Remove the chips of node v outside `keep`; False if none is left. Consequences wait in the queue.

    An empty domain is never stored: `lo` and `hi` are always chips of the domain.
    """
    old, weight = state.domain[v], relations.weight[v]
    new = old & keep
    # One exit, at which the state is read: with others numba counts references to all of its arrays.
    if new != old and new != 0:
        record(state, DOMAIN, v, old)
        lo, hi = state.lo[v], state.hi[v]
        gone = old & ~new
        for c in range(lo, hi + 1):
            if gone >> c & 1:
                state.cover[c] -= 1
        # The node moves from its old interval to its new one in the tables of intervals.
        state.nodes[lo, hi] -= 1
        state.held[lo, hi] -= weight
        while not new >> lo & 1:
            lo += 1
        while not new >> hi & 1:
            hi -= 1
        state.domain[v], state.lo[v], state.hi[v] = new, lo, hi
        state.nodes[lo, hi] += 1
        state.held[lo, hi] += weight
        state.registers[LATEST] = max(state.registers[LATEST], lo)
        # Each node is queued once, so the ring never overflows.
        if not state.queued[v]:
            state.queued[v] = 1
            at = state.registers[HEAD] + state.registers[LENGTH]
            state.queue[at - len(state.queue) if at >= len(state.queue) else at] = v
            state.registers[LENGTH] += 1
    return state.domain[v] & ~keep == 0


@kernel
def mark_of(state: State) -> tuple[int, int, int]:
    """What `undo` needs to come back to this state: the registers TRAIL, LATEST and TOP."""
    return state.registers[TRAIL], state.registers[LATEST], state.registers[TOP]


@kernel
def undo(relations: Relations, state: State, trail: int, latest: int, top: int) -> None:
    """Come back to the state in which `mark_of` gave these three."""
    # Backwards, since an entry may be there several times: the oldest value is the one that stays.
    for t in range(state.registers[TRAIL] - 1, trail - 1, -1):
        array, index, old = state.trail[t]
        if array == DOMAIN:
            _widen(
                state.domain,
                state.lo,
                state.hi,
                state.cover,
                state.nodes,
                state.held,
                relations.weight[index],
                index,
                old,
            )
        elif array == ABOVE:
            state.above[index] = old
        elif array == BELOW:
            state.below[index] = old
        elif array == FIXED:
            state.fixed[index] = old
        elif array == DIRECT:
            state.direct[index] = old
        elif array == REACH:
            state.reach[index] = old
        else:
            state.reached[index] = old
    state.registers[TRAIL], state.registers[LATEST], state.registers[TOP] = trail, latest, top
    # The queue holds consequences of what was undone.
    while state.registers[LENGTH]:
        state.queued[state.queue[state.registers[HEAD]]] = 0
        state.registers[HEAD] = (state.registers[HEAD] + 1) % len(state.queue)
        state.registers[LENGTH] -= 1


@kernel
def _widen(
    domain: NDArray[np.int64],
    first: NDArray[np.int64],
    final: NDArray[np.int64],
    cover: NDArray[np.int64],
    nodes: NDArray[np.int64],
    held: NDArray[np.int64],
    weight: int,
    v: int,
    old: int,
) -> None:
    """Give node v a larger domain back: the reverse of `restrict`. The arrays are those of `State`."""
    # `nodes` and `held` count nodes and bytes by the ends of their domains: take v out under its old ends, and put it
    # back under the new ones.
    back = old & ~domain[v]
    lo, hi = first[v], final[v]
    nodes[lo, hi] -= 1
    held[lo, hi] -= weight
    while old & ((1 << lo) - 1):
        lo -= 1
    while old >> (hi + 1):
        hi += 1
    for c in range(lo, hi + 1):
        if back >> c & 1:
            cover[c] += 1
    domain[v], first[v], final[v] = old, lo, hi
    nodes[lo, hi] += 1
    held[lo, hi] += weight
