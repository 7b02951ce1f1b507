"""The state of a branch: domains of chips, changed with a trail so that changes can be taken back. Kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.solver.relations import Relations

LATEST, TOP, TRAIL, HEAD, LENGTH = range(5)
"""Registers: latest chip that must be used; chips from here on are out of use; sizes of the trail and the queue."""
DOMAIN, ABOVE, BELOW, FIXED, DIRECT, REACH, REACHED = range(7)


class State(NamedTuple):
    """A branch of the search over N nodes and C chips.

    Attributes:
        domain, lo, hi: int64 [N], a set of chips, its first and its last.
        fixed: int64 [N], 1 where one chip is left and its consequences are drawn.
        above, below: int64 [N], chips that hold fixed ancestors and fixed descendants.
        cover: int64 [C], domains that hold a chip.
        nodes, held: int64 [C, C], nodes and bytes of the nodes by lo and hi.
        direct: int64 [C], chips that read from a chip.
        reach, reached: int64 [C], chips that a chip must lead to, and be led to from.
        trail: int64 [?, 3], (which array, where, what was there).
        queue, queued, stack: int64 [N], nodes whose domain has changed; room.
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
def opened(r: Relations) -> State:
    """The state in which every node may be on every chip."""
    n, chips = len(r.weight), r.chips
    s = State(
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
    s.registers[TOP] = chips
    s.nodes[0, chips - 1] = n
    s.held[0, chips - 1] = r.weight.sum()
    return s


@kernel
def note(s: State, what: int, at: int, old: int) -> None:
    t = s.registers[TRAIL]
    s.trail[t, 0] = what
    s.trail[t, 1] = at
    s.trail[t, 2] = old
    s.registers[TRAIL] = t + 1


@kernel
def restrict(r: Relations, s: State, v: int, keep: int) -> bool:
    """Chips of node v outside `keep` are removed; False where none is left. Consequences wait in the queue."""
    old = s.domain[v]
    new = old & keep
    if new == old:
        return True
    if new == 0:
        return False
    note(s, DOMAIN, v, old)
    lo, hi = s.lo[v], s.hi[v]
    gone = old & ~new
    for c in range(lo, hi + 1):
        if gone >> c & 1:
            s.cover[c] -= 1
    s.nodes[lo, hi] -= 1
    s.held[lo, hi] -= r.weight[v]
    while not new >> lo & 1:
        lo += 1
    while not new >> hi & 1:
        hi -= 1
    s.domain[v], s.lo[v], s.hi[v] = new, lo, hi
    s.nodes[lo, hi] += 1
    s.held[lo, hi] += r.weight[v]
    s.registers[LATEST] = max(s.registers[LATEST], lo)
    if not s.queued[v]:
        s.queued[v] = 1
        at = s.registers[HEAD] + s.registers[LENGTH]
        s.queue[at - len(s.queue) if at >= len(s.queue) else at] = v
        s.registers[LENGTH] += 1
    return True


@kernel
def undo(r: Relations, s: State, mark: int) -> None:
    """Everything since the trail had `mark` entries is taken back (registers LATEST and TOP are the caller's)."""
    for t in range(s.registers[TRAIL] - 1, mark - 1, -1):
        what, at, old = s.trail[t]
        if what == DOMAIN:
            s.nodes[s.lo[at], s.hi[at]] -= 1
            s.held[s.lo[at], s.hi[at]] -= r.weight[at]
            back = old & ~s.domain[at]
            lo, hi = s.lo[at], s.hi[at]
            while old & ((1 << lo) - 1):
                lo -= 1
            while old >> (hi + 1):
                hi += 1
            for c in range(lo, hi + 1):
                if back >> c & 1:
                    s.cover[c] += 1
            s.domain[at], s.lo[at], s.hi[at] = old, lo, hi
            s.nodes[lo, hi] += 1
            s.held[lo, hi] += r.weight[at]
        elif what == ABOVE:
            s.above[at] = old
        elif what == BELOW:
            s.below[at] = old
        elif what == FIXED:
            s.fixed[at] = old
        elif what == DIRECT:
            s.direct[at] = old
        elif what == REACH:
            s.reach[at] = old
        else:
            s.reached[at] = old
    s.registers[TRAIL] = mark
    while s.registers[LENGTH]:
        s.queued[s.queue[s.registers[HEAD]]] = 0
        s.registers[HEAD] = (s.registers[HEAD] + 1) % len(s.queue)
        s.registers[LENGTH] -= 1
