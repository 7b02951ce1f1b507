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
    record,
    restrict,
)
from hwsim.mcm.solver.relations import Relations


@kernel
def _lead(r: Relations, s: State, a: int, b: int) -> bool:
    """Note that chip a leads to chip b, which is new; False if that cannot be or gives an arrow a detour."""
    if b < a:
        return False
    # Invariant: `reach` and `reached` are transitively closed. What leads to a now leads to all that b leads to.
    sources, ends = s.reached[a] | (1 << a), s.reach[b] | (1 << b)
    for c in range(r.chips):
        if sources >> c & 1 and s.reach[c] | ends != s.reach[c]:
            record(s, REACH, c, s.reach[c])
            s.reach[c] |= ends
        if ends >> c & 1 and s.reached[c] | sources != s.reached[c]:
            record(s, REACHED, c, s.reached[c])
            s.reached[c] |= sources
    # New paths begin in `sources`, so only arrows from there can have got a detour; one of length 1 has no room for it.
    for c in range(r.chips):
        arrows = s.direct[c]
        if arrows and sources >> c & 1:
            for d in range(c + 2, r.chips):
                if arrows >> d & 1 and s.reach[c] & s.reached[d]:
                    return False
    return True


@kernel
def _draw_arrow(r: Relations, s: State, a: int, b: int) -> bool:
    """Note that chip b reads from chip a; False if that arrow has a detour."""
    if a == b or s.direct[a] >> b & 1:
        return True
    record(s, DIRECT, a, s.direct[a])
    s.direct[a] |= 1 << b
    return not s.reach[a] & s.reached[b] and (s.reach[a] >> b & 1 == 1 or _lead(r, s, a, b))


@kernel
def _narrow_beside(r: Relations, s: State, v: int) -> bool:
    """Put node v, which reads a chip that leads to the chip of another ancestor, on that: else an arrow has a detour.

    False if there are two such chips.
    """
    for k in range(r.in_start[v], r.in_start[v + 1]):
        u = r.edges[r.in_edge[k], 0]
        if s.fixed[u]:
            between = s.above[v] & s.reach[s.lo[u]]
            if between & (between - 1) or (between and not restrict(r, s, v, between)):
                return False
    return True


@kernel
def _fix(r: Relations, s: State, v: int) -> bool:
    """Apply the triangle rule to a node that has one chip left; False if it is broken.

    Only fixed nodes draw arrows, so each arrow and each path is noted when the second of two nodes is fixed.
    """
    record(s, FIXED, v, 0)
    s.fixed[v] = 1
    if not r.triangle:
        return True
    chip = s.lo[v]
    # Arrows from and to fixed neighbours.
    for k in range(r.out_start[v], r.out_start[v + 1]):
        w = r.edges[r.out_edge[k], 1]
        if s.fixed[w] and not _draw_arrow(r, s, chip, s.lo[w]):
            return False
    for k in range(r.in_start[v], r.in_start[v + 1]):
        u = r.edges[r.in_edge[k], 0]
        if s.fixed[u] and not _draw_arrow(r, s, s.lo[u], chip):
            return False
    # Paths from fixed ancestors and to fixed descendants: nodes between them, wherever they go, make a path of arrows.
    for c in range(r.chips):
        if s.above[v] >> c & 1 and c != chip and not (s.reach[c] >> chip & 1 or _lead(r, s, c, chip)):
            return False
        if s.below[v] >> c & 1 and c != chip and not (s.reach[chip] >> c & 1 or _lead(r, s, chip, c)):
            return False
    return _tell_descendants(r, s, v, chip) and _tell_ancestors(r, s, v, chip)


@kernel
def _tell_descendants(r: Relations, s: State, v: int, chip: int) -> bool:
    """Add the chip of a fixed node to those above its descendants; False if a rule is broken by that."""
    bit = 1 << chip
    s.stack[0], size = v, 1
    while size:
        size -= 1
        u = s.stack[size]
        for k in range(r.out_start[u], r.out_start[u + 1]):
            w = r.edges[r.out_edge[k], 1]
            # Edges that are not doubled suffice to reach every descendant. Below one that knows the chip all know it.
            if r.single[r.out_edge[k]] and not s.above[w] & bit:
                record(s, ABOVE, w, s.above[w])
                s.above[w] |= bit
                known = not s.fixed[w] or s.lo[w] == chip or s.reach[chip] >> s.lo[w] & 1
                if not known and not _lead(r, s, chip, s.lo[w]):
                    return False
                if not s.fixed[w] and not _narrow_beside(r, s, w):
                    return False
                s.stack[size] = w
                size += 1
    # A reader whose ancestors' chips were known before now also reads a chip.
    for k in range(r.out_start[v], r.out_start[v + 1]):
        w = r.edges[r.out_edge[k], 1]
        if not s.fixed[w] and not _narrow_beside(r, s, w):
            return False
    return True


@kernel
def _tell_ancestors(r: Relations, s: State, v: int, chip: int) -> bool:
    """Add the chip of a fixed node to those below its ancestors; False if a rule is broken by that."""
    bit = 1 << chip
    s.stack[0], size = v, 1
    while size:
        size -= 1
        w = s.stack[size]
        for k in range(r.in_start[w], r.in_start[w + 1]):
            u = r.edges[r.in_edge[k], 0]
            # As in `_tell_descendants`.
            if r.single[r.in_edge[k]] and not s.below[u] & bit:
                record(s, BELOW, u, s.below[u])
                s.below[u] |= bit
                known = not s.fixed[u] or s.lo[u] == chip or s.reach[s.lo[u]] >> chip & 1
                if not known and not _lead(r, s, s.lo[u], chip):
                    return False
                s.stack[size] = u
                size += 1
    return True


@kernel
def _narrow_inner(r: Relations, s: State, e: int, x: int) -> bool:
    """Keep an inner node x of a doubled edge on the chip of one of the edge's ends; False if that cannot be."""
    u, w = r.edges[e]
    if not restrict(r, s, x, s.domain[u] | s.domain[w]):
        return False
    # Where it cannot be with the one end it is with the other, and both have the chips that they share.
    if not s.domain[x] & s.domain[u]:
        both = s.domain[x] & s.domain[w]
        return restrict(r, s, x, both) and restrict(r, s, w, both)
    if not s.domain[x] & s.domain[w]:
        both = s.domain[x] & s.domain[u]
        return restrict(r, s, x, both) and restrict(r, s, u, both)
    return True


@kernel
def _narrow_neighbours(r: Relations, s: State, v: int) -> bool:
    """Restrict the neighbours of node v by its domain; False if one is left without a chip."""
    lo, hi = s.lo[v], s.hi[v]
    # An edge leads to the same chip or a later one, no further than its slack.
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
    # Doubled edges: where v is an end, all inner nodes; where it is an inner node, only itself.
    for k in range(r.watch_start[v], r.watch_start[v + 1]):
        e = r.watch_edge[k]
        if v == r.edges[e, 0] or v == r.edges[e, 1]:
            for i in range(r.inner_start[e], r.inner_start[e + 1]):
                x = r.inner_node[i]
                here, first, last = s.domain[x], s.domain[r.edges[e, 0]], s.domain[r.edges[e, 1]]
                # With a chip of each end, and no other, nothing more follows for it.
                settled = not here & ~(first | last) and here & first and here & last
                if not settled and not _narrow_inner(r, s, e, x):
                    return False
        elif not _narrow_inner(r, s, e, v):
            return False
    return True


@kernel
def _can_fill_holes(r: Relations, s: State) -> bool:
    """Whether every empty chip that must be used can have a node of its own, by the first and last chips of nodes."""
    latest = s.registers[LATEST]
    holes, least = 0, len(r.weight) + 1
    for c in range(latest + 1):
        if not s.nodes[c, c]:
            holes += 1
            least = min(least, s.cover[c])
    # Where each hole has as many candidates as there are holes, one after the other can be filled.
    if least >= holes:
        return True
    # Else match chips with intervals from the first chip on. A hole takes, of the nodes whose interval has begun, the
    # one that ends first: the others are of use longer. `free` counts the nodes to take by the end of their interval.
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
    # below[last] is the weight of the nodes whose interval ends at `last` and begins at `first` or later.
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
def _empty_queue(r: Relations, s: State) -> bool:
    """Apply the rules to all nodes whose domain has changed until nothing more follows; False if none fits."""
    while s.registers[LENGTH]:
        v = s.queue[s.registers[HEAD]]
        s.registers[HEAD] = (s.registers[HEAD] + 1) % len(s.queue)
        s.registers[LENGTH] -= 1
        # Before the consequences, which may queue it again.
        s.queued[v] = 0
        if not _narrow_neighbours(r, s, v):
            return False
        if s.lo[v] == s.hi[v] and not s.fixed[v] and not _fix(r, s, v):
            return False
    return True


@kernel
def propagate(r: Relations, s: State) -> bool:
    """Remove all chips that the rules exclude, until nothing more follows; False if no partition is left."""
    while True:
        if not _empty_queue(r, s):
            return False
        if not r.no_skip:
            break
        # No skipping: from the first chip that no domain holds on, all chips are out of use.
        top = s.registers[TOP]
        for c in range(top):
            if not s.cover[c]:
                top = c
                break
        if top <= s.registers[LATEST]:
            return False
        # The dearer check of the rule comes last, when nothing else follows.
        if top == s.registers[TOP]:
            if not _can_fill_holes(r, s):
                return False
            break
        s.registers[TOP] = top
        for v in range(len(r.weight)):
            if s.hi[v] >= top and not restrict(r, s, v, (1 << top) - 1):
                return False
    return r.capacity < 0 or _fits(r, s)
