"""Domains of chips, and what one decision implies for the others. Kernels; `hwsim/mcm/solver/search.py` decides.

A domain is a set of chips, the bits of an int64. Every rule here only removes chips that no valid partition can have
in the present branch; a state in which nothing more can be removed and every domain is one chip is a valid partition.

Source: the role of set_domain in the MCM paper, section 4.2, which leaves propagation to CP-SAT.
Deviations: the propagators are this file's own (CP-SAT has no interface by which domains could be asked for and set).

The triangle rule says something of the chips of other nodes once a node has one chip left. Chips lead to chips by
arrows (a node on the one is read on the other) and by paths that ancestors and descendants make, wherever the nodes
between them go. No arrow may have a longer path beside it.
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
def _lead(relations: Relations, state: State, a: int, b: int) -> bool:
    """Note that chip a leads to chip b, which is new; False if that cannot be or gives an arrow a detour."""
    if b < a:
        return False
    # Invariant: `reach` and `reached` are transitively closed. What leads to a now leads to all that b leads to.
    sources, ends = state.reached[a] | (1 << a), state.reach[b] | (1 << b)
    for c in range(relations.chips):
        if sources >> c & 1 and state.reach[c] | ends != state.reach[c]:
            record(state, REACH, c, state.reach[c])
            state.reach[c] |= ends
        if ends >> c & 1 and state.reached[c] | sources != state.reached[c]:
            record(state, REACHED, c, state.reached[c])
            state.reached[c] |= sources
    # New paths begin in `sources`, so only arrows from there can have got a detour; one of length 1 has no room for it.
    for c in range(relations.chips):
        arrows = state.direct[c]
        if arrows and sources >> c & 1:
            for d in range(c + 2, relations.chips):
                if arrows >> d & 1 and state.reach[c] & state.reached[d]:
                    return False
    return True


@kernel
def _draw_arrow(relations: Relations, state: State, a: int, b: int) -> bool:
    """Note that chip b reads from chip a; False if that arrow has a detour."""
    if a == b or state.direct[a] >> b & 1:
        return True
    record(state, DIRECT, a, state.direct[a])
    state.direct[a] |= 1 << b
    return not state.reach[a] & state.reached[b] and (
        state.reach[a] >> b & 1 == 1 or _lead(relations, state, a, b)
    )


@kernel
def _narrow_beside(relations: Relations, state: State, v: int) -> bool:
    """Put node v, which reads a chip that leads to the chip of another ancestor, on that: else an arrow has a detour.

    False if there are two such chips.
    """
    for k in range(relations.in_start[v], relations.in_start[v + 1]):
        u = relations.edges[relations.in_edge[k], 0]
        # Only chips of ancestors that are decided make arrows; two chips in between cannot both be this node's.
        if state.fixed[u]:
            between = state.above[v] & state.reach[state.lo[u]]
            if between & (between - 1) or (between and not restrict(relations, state, v, between)):
                return False
    return True


@kernel
def apply_triangle(relations: Relations, state: State, v: int) -> bool:
    """Apply the triangle rule to a node that has one chip left; False if it is broken.

    Only fixed nodes draw arrows, so each arrow and each path is noted when the second of two nodes is fixed.
    """
    record(state, FIXED, v, 0)
    state.fixed[v] = 1
    if not relations.triangle:
        return True
    chip = state.lo[v]
    # Arrows from and to fixed neighbours.
    for k in range(relations.out_start[v], relations.out_start[v + 1]):
        w = relations.edges[relations.out_edge[k], 1]
        if state.fixed[w] and not _draw_arrow(relations, state, chip, state.lo[w]):
            return False
    for k in range(relations.in_start[v], relations.in_start[v + 1]):
        u = relations.edges[relations.in_edge[k], 0]
        if state.fixed[u] and not _draw_arrow(relations, state, state.lo[u], chip):
            return False
    # Paths from fixed ancestors and to fixed descendants: nodes between them, wherever they go, make a path of arrows.
    for c in range(relations.chips):
        if (
            state.above[v] >> c & 1
            and c != chip
            and not (state.reach[c] >> chip & 1 or _lead(relations, state, c, chip))
        ):
            return False
        if (
            state.below[v] >> c & 1
            and c != chip
            and not (state.reach[chip] >> c & 1 or _lead(relations, state, chip, c))
        ):
            return False
    return _tell_descendants(relations, state, v, chip) and _tell_ancestors(relations, state, v, chip)


@kernel
def _tell_descendants(relations: Relations, state: State, v: int, chip: int) -> bool:
    """Add the chip of a fixed node to those above its descendants; False if a rule is broken by that."""
    bit = 1 << chip
    state.stack[0], size = v, 1
    while size:
        size -= 1
        u = state.stack[size]
        for k in range(relations.out_start[u], relations.out_start[u + 1]):
            w = relations.edges[relations.out_edge[k], 1]
            # Edges that are not doubled suffice to reach every descendant. Below one that knows the chip all know it.
            if relations.single[relations.out_edge[k]] and not state.above[w] & bit:
                record(state, ABOVE, w, state.above[w])
                state.above[w] |= bit
                known = not state.fixed[w] or state.lo[w] == chip or state.reach[chip] >> state.lo[w] & 1
                if not known and not _lead(relations, state, chip, state.lo[w]):
                    return False
                if not state.fixed[w] and not _narrow_beside(relations, state, w):
                    return False
                state.stack[size] = w
                size += 1
    # A reader whose ancestors' chips were known before now also reads a chip.
    for k in range(relations.out_start[v], relations.out_start[v + 1]):
        w = relations.edges[relations.out_edge[k], 1]
        if not state.fixed[w] and not _narrow_beside(relations, state, w):
            return False
    return True


@kernel
def _tell_ancestors(relations: Relations, state: State, v: int, chip: int) -> bool:
    """Add the chip of a fixed node to those below its ancestors; False if a rule is broken by that."""
    bit = 1 << chip
    state.stack[0], size = v, 1
    while size:
        size -= 1
        w = state.stack[size]
        for k in range(relations.in_start[w], relations.in_start[w + 1]):
            u = relations.edges[relations.in_edge[k], 0]
            # As in `_tell_descendants`.
            if relations.single[relations.in_edge[k]] and not state.below[u] & bit:
                record(state, BELOW, u, state.below[u])
                state.below[u] |= bit
                known = not state.fixed[u] or state.lo[u] == chip or state.reach[state.lo[u]] >> chip & 1
                if not known and not _lead(relations, state, state.lo[u], chip):
                    return False
                state.stack[size] = u
                size += 1
    return True


@kernel
def _narrow_inner(relations: Relations, state: State, e: int, x: int) -> bool:
    """Keep an inner node x of a doubled edge on the chip of one of the edge's ends; False if that cannot be."""
    u, w = relations.edges[e]
    if not restrict(relations, state, x, state.domain[u] | state.domain[w]):
        return False
    # If it cannot be with the one end it is with the other, and both have the chips that they share.
    if not state.domain[x] & state.domain[u]:
        both = state.domain[x] & state.domain[w]
        return restrict(relations, state, x, both) and restrict(relations, state, w, both)
    if not state.domain[x] & state.domain[w]:
        both = state.domain[x] & state.domain[u]
        return restrict(relations, state, x, both) and restrict(relations, state, u, both)
    return True


@kernel
def _narrow_neighbours(relations: Relations, state: State, v: int) -> bool:
    """Restrict the neighbours of node v by its domain; False if one is left without a chip."""
    lo, hi = state.lo[v], state.hi[v]
    # An edge leads to the same chip or a later one, no further than its slack.
    for k in range(relations.out_start[v], relations.out_start[v + 1]):
        e = relations.out_edge[k]
        last = min(hi + relations.slack[e], relations.chips - 1)
        w, keep = relations.edges[e, 1], (1 << (last + 1)) - (1 << lo)
        if state.domain[w] & ~keep and not restrict(relations, state, w, keep):
            return False
    for k in range(relations.in_start[v], relations.in_start[v + 1]):
        e = relations.in_edge[k]
        first = max(lo - relations.slack[e], 0)
        u, keep = relations.edges[e, 0], (1 << (hi + 1)) - (1 << first)
        if state.domain[u] & ~keep and not restrict(relations, state, u, keep):
            return False
    # Doubled edges: if v is an end, all inner nodes; if it is an inner node, only itself.
    for k in range(relations.watch_start[v], relations.watch_start[v + 1]):
        e = relations.watch_edge[k]
        if v == relations.edges[e, 0] or v == relations.edges[e, 1]:
            for i in range(relations.inner_start[e], relations.inner_start[e + 1]):
                x = relations.inner_node[i]
                here, first, last = (
                    state.domain[x],
                    state.domain[relations.edges[e, 0]],
                    state.domain[relations.edges[e, 1]],
                )
                # With a chip of each end, and no other, nothing more follows for it.
                settled = not here & ~(first | last) and here & first and here & last
                if not settled and not _narrow_inner(relations, state, e, x):
                    return False
        elif not _narrow_inner(relations, state, e, v):
            return False
    return True


@kernel
def _can_fill_holes(relations: Relations, state: State) -> bool:
    """Whether every empty chip that must be used can have a node of its own, by the first and last chips of nodes."""
    latest = state.registers[LATEST]
    holes, least = 0, len(relations.weight) + 1
    for c in range(latest + 1):
        if not state.nodes[c, c]:
            holes += 1
            least = min(least, state.cover[c])
    # Where each hole has as many candidates as there are holes, one after the other can be filled.
    if least >= holes:
        return True
    # Else match chips with intervals from the first chip on. A hole takes, of the nodes whose interval has begun, the
    # one that ends first: the others are of use longer. `free` counts the nodes to take by the end of their interval.
    free = np.zeros(relations.chips, np.int64)
    for c in range(latest + 1):
        for hi in range(c + 1, relations.chips):
            free[hi] += state.nodes[c, hi]
        if not state.nodes[c, c]:
            hi = c
            while hi < relations.chips and not free[hi]:
                hi += 1
            if hi == relations.chips:
                return False
            free[hi] -= 1
    return True


@kernel
def _fits(relations: Relations, state: State) -> bool:
    """Whether every run of chips has room for the nodes that can be nowhere else."""
    # below[last] is the weight of the nodes whose interval ends at `last` and begins at `first` or later.
    below = np.zeros(relations.chips, np.int64)
    for first in range(relations.chips - 1, -1, -1):
        total = 0
        for last in range(first, relations.chips):
            below[last] += state.held[first, last]
            total += below[last]
            if total > relations.capacity * (last - first + 1):
                return False
    return True


@kernel
def _empty_queue(relations: Relations, state: State) -> bool:
    """Apply the rules to all nodes whose domain has changed until nothing more follows; False if none fits."""
    while state.registers[LENGTH]:
        v = state.queue[state.registers[HEAD]]
        state.registers[HEAD] = (state.registers[HEAD] + 1) % len(state.queue)
        state.registers[LENGTH] -= 1
        # Before the consequences, which may queue it again.
        state.queued[v] = 0
        if not _narrow_neighbours(relations, state, v):
            return False
        if state.lo[v] == state.hi[v] and not state.fixed[v] and not apply_triangle(relations, state, v):
            return False
    return True


@kernel
def propagate(relations: Relations, state: State) -> bool:
    """Remove all chips that the rules exclude, until nothing more follows; False if no partition is left."""
    while True:
        if not _empty_queue(relations, state):
            return False
        if not relations.no_skip:
            break
        # No skipping: from the first chip that no domain holds on, all chips are out of use.
        top = state.registers[TOP]
        for c in range(top):
            if not state.cover[c]:
                top = c
                break
        if top <= state.registers[LATEST]:
            return False
        # The dearer check of the rule comes last, when nothing else follows.
        if top == state.registers[TOP]:
            if not _can_fill_holes(relations, state):
                return False
            break
        state.registers[TOP] = top
        for v in range(len(relations.weight)):
            if state.hi[v] >= top and not restrict(relations, state, v, (1 << top) - 1):
                return False
    return relations.capacity < 0 or _fits(relations, state)
