"""The load of the stages of a pipeline, and which of them set its pace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel

HALF = 0.5
"""The share of a stage's memory that an even split gives to the nodes; tensors on their way need the rest."""
TOLERANCE = 0.02
"""A stage that is less full than the fullest by this share of it has a heat of 1 / e (own choice)."""
ROOM = 0.2
"""A stage with that share of its memory left has a heat of 1 / e (own choice)."""

Gauge = Callable[[NDArray[np.int16], int], tuple[NDArray[np.float64], NDArray[np.float64] | None]]
"""From stages int16 [B, N] and the number C of stages: how busy each stage is, float64 [B, C]; and the share of its
memory that each needs, float64 [B, C], or None if memory is not limited."""


@dataclass(frozen=True)
class Pipeline:
    """N nodes that are dealt to stages; the fullest stage sets the pace.

    Attributes:
        load: float64 [N], what each node adds to its stage, 0 or more.
        edges: int64 [2, E], from a node to a later one, which must be in the same stage or a later one.
        held: float64 [N], the share of its stage's memory that each node needs; None if memory is not limited.
        span: the number of stages that an edge may skip ahead safely; None: any number.
        gauge: how busy and how full stages are, if the problem knows better than by sums of `load` and `held`; None:
            these sums.
    """

    load: NDArray[np.float64]
    edges: NDArray[np.int64]
    held: NDArray[np.float64] | None = None
    span: int | None = None
    gauge: Gauge | None = None

    def heat(self, mapping: NDArray[np.int16], stages: int) -> NDArray[np.float64]:
        """How near each stage is to setting the pace: float64 [B, H, C] in 0..1, of mappings int16 [B, N, H].

        C is `stages`. If a stage has to hold more than it can, it is 1.
        """
        gauge = self._sums if self.gauge is None else self.gauge
        found = []
        for head in np.moveaxis(mapping, 2, 0):
            busy, held = gauge(np.ascontiguousarray(head), stages)
            hot = heat(busy)
            found.append(hot if held is None else np.maximum(hot, np.exp(np.minimum(held - 1, 0.0) / ROOM)))
        return np.stack(found, axis=1)

    def _sums(
        self, stage: NDArray[np.int16], stages: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        held = None if self.held is None else fullness(stage, self.held, stages)
        return fullness(stage, self.load, stages), held

    def middle(self, stages: int) -> NDArray[np.float64]:
        """Float64 [N] in 0..1: where the middle of each node lies in a pipeline of equally full stages.

        Nodes come in their order. Each takes its share of all load or, if that is more, its share of the memory that
        `stages` use when they are half full (`HALF`).
        """
        total = self.load.sum()
        share = self.load / (total if total > 0 else 1.0)
        if self.held is not None:
            share = np.maximum(share, self.held / (HALF * stages))
        return np.asarray((np.cumsum(share) - share / 2) / max(share.sum(), 1e-300))

    @cached_property
    def sorted_edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Where edges begin and end, those of earlier nodes first; and their numbers, those to later nodes first."""
        order = np.lexsort((self.edges[1], self.edges[0]))
        source, target = (np.ascontiguousarray(ends[order], np.int64) for ends in self.edges)
        return source, target, np.lexsort((source, -target))

    @cached_property
    def neighbours(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Neighbours of all nodes, [2E], and where those of each begin, [N + 1]."""
        ends, others = np.concatenate([self.edges, self.edges[::-1]], axis=1)
        order = np.argsort(ends, kind="stable")
        begin = np.searchsorted(ends[order], np.arange(len(self.load) + 1))
        return np.ascontiguousarray(others[order], np.int64), begin.astype(np.int64)

    @cached_property
    def _around(self) -> tuple[list[list[int]], list[list[int]]]:
        before: list[list[int]] = [[] for _ in self.load]
        after: list[list[int]] = [[] for _ in self.load]
        for u, v in self.edges.T.tolist():
            before[v].append(u)
            after[u].append(v)
        return before, after

    def along(self, node: int, stage: NDArray[np.integer[Any]], later: bool) -> list[int]:
        """The nodes that must move if a node moves to a later (else an earlier) stage, sorted.

        These are the node itself and all nodes of its stage that follow (precede) it; `stage` is int [N].
        """
        near = self._around[1 if later else 0]
        found, waiting = {node}, [node]
        while waiting:
            for other in near[waiting.pop()]:
                if other not in found and stage[other] == stage[node]:
                    found.add(other)
                    waiting.append(other)
        return sorted(found)


def fullness(stage: NDArray[np.integer[Any]], load: NDArray[np.float64], stages: int) -> NDArray[np.float64]:
    """Loads [B, C] of stages, from decisions int [B, M] and loads float64 [M]; a decision of -1 counts nowhere."""
    rows = len(stage)
    known = stage >= 0
    slot = np.arange(rows)[:, None] * stages + np.where(known, stage, 0)
    total = np.bincount(slot.ravel(), (known * load).ravel(), rows * stages)
    return total.astype(np.float64).reshape(rows, stages)


def heat(full: NDArray[np.float64]) -> NDArray[np.float64]:
    """Float64 [B, C] in 0..1, from loads [B, C]: 1 for the fullest stage, near 0 for most of the others."""
    most = full.max(axis=1, keepdims=True)
    return np.where(most > 0, np.exp((full / np.where(most > 0, most, 1.0) - 1) / TOLERANCE), 0.0)


MAX_FULLNESS = 4.0
"""Fullness is capped at this value, in shares of an even split; stages that do not exist have it."""


def situation(stage: NDArray[np.integer[Any]], pipeline: Pipeline, stages: int) -> NDArray[np.float32]:
    """How nodes lie in their stages int [B, N]: float32 [B, N, 5], 0 for nodes with stage -1.

    The columns: whether the node could move to the stage before without taking a neighbour along; the same for the
    stage behind; and how full its own stage, the one before and the one behind are, in shares of an even split.
    """
    source, target = pipeline.edges
    rows, nodes = stage.shape
    with_next = (stage[:, source] == stage[:, target]) & (stage[:, source] >= 0)
    row = np.arange(rows)[:, None] * nodes
    held = [
        np.bincount((row + end).ravel(), with_next.ravel(), rows * nodes).reshape(rows, nodes) > 0
        for end in (target, source)
    ]
    full = fullness(stage, pipeline.load, stages)
    share = np.minimum(full * stages / np.maximum(full.sum(axis=1, keepdims=True), 1e-300), MAX_FULLNESS)
    padded = np.pad(share, ((0, 0), (1, 1)), constant_values=MAX_FULLNESS)
    at = np.maximum(stage, 0).astype(np.int64)
    near = [np.take_along_axis(padded, at + k, axis=1) for k in (1, 0, 2)]
    found = np.stack([~held[0], ~held[1], *near], axis=-1) * (stage >= 0)[..., None]
    return found.astype(np.float32)


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
