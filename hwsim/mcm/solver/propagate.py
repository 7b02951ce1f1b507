"""Domains of chips, and what one decision implies for the others. Kernels; `hwsim/mcm/solver/search.py` decides.

A domain is a set of chips, the bits of an int64. Every rule here only removes chips that no valid partition can have
in the present branch; a state in which nothing more can be removed and every domain is one chip is a valid partition.

Source: the role of set_domain in the MCM paper, section 4.2, which leaves propagation to CP-SAT.
Deviations: the propagators are this file's own (CP-SAT has no interface by which domains could be asked for and set).
"""

from __future__ import annotations

import numpy as np

from hwsim.jit import kernel
from hwsim.mcm.solver.domains import HEAD, LATEST, LENGTH, TOP, State, restrict
from hwsim.mcm.solver.relations import Relations
from hwsim.mcm.solver.triangle import apply_triangle


@kernel
def _narrow_inner(relations: Relations, state: State, e: int, x: int) -> bool:
    """Keep an inner node x of a doubled edge on the chip of one of the edge's ends; False if that cannot be."""
    u, w = relations.edges[e]
    if not restrict(relations, state, x, state.domain[u] | state.domain[w]):
        return False
    # Where it cannot be with the one end it is with the other, and both have the chips that they share.
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
    # Doubled edges: where v is an end, all inner nodes; where it is an inner node, only itself.
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
