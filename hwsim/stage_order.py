"""Stages of a pipeline kept in order, and edges within their span: what a node that moves takes along."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.stages import Pipeline

ANY = 1 << 14
"""A span that no two stages are apart."""


def in_order(
    stage: NDArray[np.int16],
    pipeline: Pipeline,
    later: NDArray[np.bool_],
    known: NDArray[np.int16] | None = None,
) -> NDArray[np.int16]:
    """Stages int16 [B, N] that keep the order and the span of edges, with each node moved no further than that takes.

    Where `later` [B] is True, nodes that are too early move to later stages: behind what they read, and within the span
    of what reads them. In the other rows, nodes that are too late move to earlier stages. An edge that is longer than
    the span in `known` [B, N] may stay as long. A node at -1 stays there, and constrains no other node.
    """
    out = np.ascontiguousarray(stage, np.int16).copy()
    _in_order(
        out, *pipeline.sorted_edges, later, _span(pipeline), np.zeros_like(out) if known is None else known
    )
    return out


def _span(pipeline: Pipeline) -> int:
    return ANY if pipeline.span is None else pipeline.span


@kernel
def _in_order(
    stage: NDArray[np.int16],
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    backwards: NDArray[np.int64],
    later: NDArray[np.bool_],
    span: int,
    known: NDArray[np.int16],
) -> None:
    """Move nodes in `stage` until nothing has to move.

    `source` and `target` hold the edges by source, `backwards` their numbers by target, the last one first.
    """
    for row in range(len(stage)):
        place, was, moved = stage[row], known[row], True
        # Both rules move nodes the same way, so this ends. One pass settles a rule, as edges come in the order in
        # which moves spread, but a move for the one rule may break the other.
        while moved:
            moved = False
            if later[row]:
                # Order, front to back: no node before what it reads. Then span, back to front: none too far before
                # what reads it.
                for e in range(len(source)):
                    u, v = source[e], target[e]
                    if place[v] >= 0 and place[u] > place[v]:
                        place[v], moved = place[u], True
                for e in backwards:
                    u, v = source[e], target[e]
                    nearest = place[v] - max(span, was[v] - was[u])
                    if place[u] >= 0 and place[u] < nearest:
                        place[u], moved = nearest, True
            else:
                # The same the other way: order, back to front; then span, front to back.
                for e in backwards:
                    u, v = source[e], target[e]
                    if place[u] >= 0 and 0 <= place[v] < place[u]:
                        place[u], moved = place[v], True
                for e in range(len(source)):
                    u, v = source[e], target[e]
                    furthest = place[u] + max(span, was[v] - was[u])
                    if place[u] >= 0 and place[v] > furthest:
                        place[v], moved = furthest, True


def step_by_step(
    before: NDArray[np.int16],
    wanted: NDArray[np.int16],
    pipeline: Pipeline,
    turn: NDArray[np.int64],
    most: NDArray[np.int64],
) -> NDArray[np.int16]:
    """Stages int16 [B, N] after nodes have gone to the stages `wanted` one after another, in the order `turn` [B, N].

    A node that goes to a later (an earlier) stage takes along the nodes that must go that way with it to keep the order
    and the span of edges; an edge that is longer than the span may stay as long. If these, with the node itself, are
    more than `most` [B] nodes, or a stage has no memory for one of them, none goes. A node at -1 stays there. Edges
    that broke the order before may still break it.
    """
    out = np.ascontiguousarray(before, np.int16).copy()
    held = np.zeros(out.shape[1]) if pipeline.held is None else pipeline.held
    stages = int(max(out.max(initial=0), wanted.max(initial=0))) + 1
    wanted = np.ascontiguousarray(wanted, np.int16)
    _step_by_step(out, wanted, turn, most, *pipeline.neighbours, held, _span(pipeline), stages)
    return out


@kernel
def _step_by_step(
    stage: NDArray[np.int16],
    wanted: NDArray[np.int16],
    turn: NDArray[np.int64],
    most: NDArray[np.int64],
    others: NDArray[np.int64],
    begin: NDArray[np.int64],
    held: NDArray[np.float64],
    span: int,
    stages: int,
) -> None:
    """Make the moves of each row in `stage`, as `step_by_step` has it."""
    nodes = stage.shape[1]
    # What goes along with a node, and where that was. `new` is True again for all nodes after each move.
    gone, was, new = np.empty(nodes, np.int64), np.empty(nodes, np.int16), np.ones(nodes, np.bool_)
    for row in range(len(stage)):
        place, known, room = stage[row], stage[row].copy(), np.ones(stages)
        for v in range(nodes):
            if place[v] >= 0:
                room[place[v]] -= held[v]
        for first in turn[row]:
            if place[first] < 0 or wanted[row, first] < 0 or place[first] == wanted[row, first]:
                continue
            count = _take_along(
                place, known, first, wanted[row, first], most[row], others, begin, span, gone, was, new
            )
            fits = count <= most[row]
            # All leave and arrive before room is checked: one may leave room for another.
            for k in range(count):
                room[was[k]] += held[gone[k]]
                room[place[gone[k]]] -= held[gone[k]]
            for k in range(count):
                fits = fits and (held[gone[k]] == 0 or room[place[gone[k]]] >= 0)
            # A move that does not fit is taken back as a whole.
            for k in range(count):
                new[gone[k]] = True
                if not fits:
                    room[was[k]] -= held[gone[k]]
                    room[place[gone[k]]] += held[gone[k]]
                    place[gone[k]] = was[k]


@kernel
def _take_along(
    place: NDArray[np.int16],
    known: NDArray[np.int16],
    first: int,
    to: int,
    most: int,
    others: NDArray[np.int64],
    begin: NDArray[np.int64],
    span: int,
    gone: NDArray[np.int64],
    was: NDArray[np.int16],
    new: NDArray[np.bool_],
) -> int:
    """Move a node and what has to go with it; returns how many moved. It stops when they are more than `most`.

    An edge that is longer than the span between the stages `known` may stay as long. Writes the nodes that moved to
    `gone`, where they were to `was`, and False to `new` for each.
    """
    # Nodes only ever go one way in a move, so this ends. Passes go over all that go along until none moves further.
    up = to > place[first]
    gone[0], was[0], new[first], count = first, place[first], False, 1
    place[first] = to
    again = True
    while again:
        again, k = False, 0
        while k < count:
            u = gone[k]
            k += 1
            for at in range(begin[u], begin[u + 1]):
                v = others[at]
                # The stages that this edge allows: from its source's on, and within the span or what there was.
                reach = max(span, abs(known[v] - known[u]))
                low = place[u] if v > u else place[u] - reach
                high = place[u] + reach if v > u else place[u]
                if place[v] < 0 or (place[v] >= low if up else place[v] <= high):
                    continue
                if new[v]:
                    gone[count], was[count], new[v] = v, place[v], False
                    count += 1
                place[v] = low if up else high
                again = True
                if count > most:
                    return count
    return count
