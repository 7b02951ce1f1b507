"""Domains of chips, and what one decision says about the others. Kernels; `hwsim/mcm/solver/search.py` decides.

A domain is a set of chips, the bits of an int64. Every rule here only removes chips that no valid partition can have
in the present branch; a state in which nothing more can be removed and every domain is one chip is a valid partition.

Source: the role of set_domain in the MCM paper, section 4.2, which leaves propagation to CP-SAT.
Deviations: the propagators are this file's own (CP-SAT has no interface by which domains could be asked for and set).
"""

from __future__ import annotations

import numpy as np

from hwsim.jit import kernel
from hwsim.mcm.solver.domains import (
    ABOVE,
    BELOW,
    DIRECT,
    FIXED,
    HEAD,
    LATEST,
    LENGTH,
    REACH,
    REACHED,
    TOP,
    State,
    note,
    restrict,
)
from hwsim.mcm.solver.relations import Relations


@kernel
def _led(r: Relations, s: State, a: int, b: int) -> bool:
    """Chip a must lead to chip b; False where an arrow then has a detour."""
    if s.reach[a] >> b & 1:
        return True
    if b < a:
        return False
    sources, ends = s.reached[a] | (1 << a), s.reach[b] | (1 << b)
    for c in range(r.chips):
        if sources >> c & 1 and s.reach[c] | ends != s.reach[c]:
            note(s, REACH, c, s.reach[c])
            s.reach[c] |= ends
        if ends >> c & 1 and s.reached[c] | sources != s.reached[c]:
            note(s, REACHED, c, s.reached[c])
            s.reached[c] |= sources
    for c in range(r.chips):
        arrows = s.direct[c]
        if arrows and sources >> c & 1:
            for d in range(c + 2, r.chips):
                if arrows >> d & 1 and s.reach[c] & s.reached[d]:
                    return False
    return True


@kernel
def _arrow(r: Relations, s: State, a: int, b: int) -> bool:
    """Chip b reads from chip a; False where that has a detour."""
    if a == b or s.direct[a] >> b & 1:
        return True
    note(s, DIRECT, a, s.direct[a])
    s.direct[a] |= 1 << b
    return not s.reach[a] & s.reached[b] and _led(r, s, a, b)


@kernel
def _beside(r: Relations, s: State, v: int) -> bool:
    """Node v reads chip a, which leads to a chip b of another ancestor: then v is on b, or there is a detour."""
    for k in range(r.in_start[v], r.in_start[v + 1]):
        u = r.edges[r.in_edge[k], 0]
        if s.fixed[u]:
            between = s.above[v] & s.reach[s.lo[u]]
            if between & (between - 1) or (between and not restrict(r, s, v, between)):
                return False
    return True


@kernel
def _fix(r: Relations, s: State, v: int) -> bool:
    """Node v has one chip left: what the triangle rule makes of that. False where it is broken."""
    note(s, FIXED, v, 0)
    s.fixed[v] = 1
    if not r.triangle:
        return True
    chip = s.lo[v]
    bit = 1 << chip
    for k in range(r.out_start[v], r.out_start[v + 1]):
        w = r.edges[r.out_edge[k], 1]
        if s.fixed[w] and not _arrow(r, s, chip, s.lo[w]):
            return False
    for k in range(r.in_start[v], r.in_start[v + 1]):
        u = r.edges[r.in_edge[k], 0]
        if s.fixed[u] and not _arrow(r, s, s.lo[u], chip):
            return False
    for c in range(r.chips):
        if s.above[v] >> c & 1 and c != chip and not _led(r, s, c, chip):
            return False
        if s.below[v] >> c & 1 and c != chip and not _led(r, s, chip, c):
            return False
    s.stack[0], size = v, 1
    while size:
        size -= 1
        u = s.stack[size]
        for k in range(r.out_start[u], r.out_start[u + 1]):
            w = r.edges[r.out_edge[k], 1]
            if r.single[r.out_edge[k]] and not s.above[w] & bit:
                note(s, ABOVE, w, s.above[w])
                s.above[w] |= bit
                if s.fixed[w] and s.lo[w] != chip and not _led(r, s, chip, s.lo[w]):
                    return False
                if not s.fixed[w] and not _beside(r, s, w):
                    return False
                s.stack[size] = w
                size += 1
    for k in range(r.out_start[v], r.out_start[v + 1]):
        w = r.edges[r.out_edge[k], 1]
        if not s.fixed[w] and not _beside(r, s, w):
            return False
    s.stack[0], size = v, 1
    while size:
        size -= 1
        w = s.stack[size]
        for k in range(r.in_start[w], r.in_start[w + 1]):
            u = r.edges[r.in_edge[k], 0]
            if r.single[r.in_edge[k]] and not s.below[u] & bit:
                note(s, BELOW, u, s.below[u])
                s.below[u] |= bit
                if s.fixed[u] and s.lo[u] != chip and not _led(r, s, s.lo[u], chip):
                    return False
                s.stack[size] = u
                size += 1
    return True


@kernel
def _doubled(r: Relations, s: State, e: int, x: int) -> bool:
    """An inner node of a doubled edge is on the chip of one of the edge's ends."""
    u, w = r.edges[e]
    if not restrict(r, s, x, s.domain[u] | s.domain[w]):
        return False
    if not s.domain[x] & s.domain[u]:
        both = s.domain[x] & s.domain[w]
        return restrict(r, s, x, both) and restrict(r, s, w, both)
    if not s.domain[x] & s.domain[w]:
        both = s.domain[x] & s.domain[u]
        return restrict(r, s, x, both) and restrict(r, s, u, both)
    return True


@kernel
def _neighbours(r: Relations, s: State, v: int) -> bool:
    """What the domain of node v says about its neighbours; False where one is left without a chip."""
    lo, hi = s.lo[v], s.hi[v]
    for k in range(r.out_start[v], r.out_start[v + 1]):
        e = r.out_edge[k]
        last = min(hi + r.slack[e], r.chips - 1)
        w, keep = r.edges[e, 1], (1 << (last + 1)) - (1 << lo)
        if s.domain[w] & ~keep and not restrict(r, s, w, keep):
            return False
    for k in range(r.in_start[v], r.in_start[v + 1]):
        e = r.in_edge[k]
        first = max(lo - r.slack[e], 0)
        u, keep = r.edges[e, 0], (1 << (hi + 1)) - (1 << first)
        if s.domain[u] & ~keep and not restrict(r, s, u, keep):
            return False
    for k in range(r.watch_start[v], r.watch_start[v + 1]):
        e = r.watch_edge[k]
        if v == r.edges[e, 0] or v == r.edges[e, 1]:
            for i in range(r.inner_start[e], r.inner_start[e + 1]):
                x = r.inner_node[i]
                here, first, last = s.domain[x], s.domain[r.edges[e, 0]], s.domain[r.edges[e, 1]]
                settled = not here & ~(first | last) and here & first and here & last
                if not settled and not _doubled(r, s, e, x):
                    return False
        elif not _doubled(r, s, e, v):
            return False
    return True


@kernel
def _matched(r: Relations, s: State) -> bool:
    """Whether every empty chip that must be used can have a node of its own, by the first and last chips of nodes."""
    latest = s.registers[LATEST]
    holes, least = 0, len(r.weight) + 1
    for c in range(latest + 1):
        if not s.nodes[c, c]:
            holes += 1
            least = min(least, s.cover[c])
    if least >= holes:
        return True
    free = np.zeros(r.chips, np.int64)
    for c in range(latest + 1):
        for hi in range(c + 1, r.chips):
            free[hi] += s.nodes[c, hi]
        if not s.nodes[c, c]:
            hi = c
            while hi < r.chips and not free[hi]:
                hi += 1
            if hi == r.chips:
                return False
            free[hi] -= 1
    return True


@kernel
def _fits(r: Relations, s: State) -> bool:
    """Whether every run of chips has room for the nodes that can be nowhere else."""
    below = np.zeros(r.chips, np.int64)
    for first in range(r.chips - 1, -1, -1):
        total = 0
        for last in range(first, r.chips):
            below[last] += s.held[first, last]
            total += below[last]
            if total > r.capacity * (last - first + 1):
                return False
    return True


@kernel
def propagate(r: Relations, s: State) -> bool:
    """Consequences of all changed domains until nothing more follows; False where no partition is left."""
    while True:
        while s.registers[LENGTH]:
            v = s.queue[s.registers[HEAD]]
            s.registers[HEAD] = (s.registers[HEAD] + 1) % len(s.queue)
            s.registers[LENGTH] -= 1
            s.queued[v] = 0
            if not _neighbours(r, s, v):
                return False
            if s.lo[v] == s.hi[v] and not s.fixed[v] and not _fix(r, s, v):
                return False
        if not r.no_skip:
            break
        top = s.registers[TOP]
        for c in range(top):
            if not s.cover[c]:
                top = c
                break
        if top <= s.registers[LATEST]:
            return False
        if top == s.registers[TOP]:
            if not _matched(r, s):
                return False
            break
        s.registers[TOP] = top
        for v in range(len(r.weight)):
            if s.hi[v] >= top and not restrict(r, s, v, (1 << top) - 1):
                return False
    return r.capacity < 0 or _fits(r, s)
