"""What the triangle rule says of the chips of other nodes once a node has one chip left. Kernels.

Chips lead to chips by arrows (a node on the one is read on the other) and by paths that ancestors and descendants make,
wherever the nodes between them go. No arrow may have a longer path beside it.
"""

from __future__ import annotations

from hwsim.jit import kernel
from hwsim.mcm.solver.domains import ABOVE, BELOW, DIRECT, FIXED, REACH, REACHED, State, record, restrict
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
