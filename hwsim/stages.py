"""How full the stages of a pipeline are, and which of them set its pace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

HALF = 0.5
"""The share of a stage's memory that an even split gives to what nodes hold; tensors on their way need the rest."""
TOLERANCE = 0.02
"""A stage that much below the fullest, in shares of it, has a heat of 1 / e (own choice)."""
ROOM = 0.2
"""A stage with that share of its memory left has a heat of 1 / e (own choice)."""

Gauge = Callable[[NDArray[np.int16], int], tuple[NDArray[np.float64], NDArray[np.float64] | None]]
"""(stages int16 [B, N], how many there are) -> how busy each is, float64 [B, C], and the share of its memory that each
needs, float64 [B, C], None where that is not limited."""


@dataclass(frozen=True)
class Pipeline:
    """N nodes that are dealt to stages; the fullest stage sets the pace.

    Attributes:
        load: float64 [N], what each adds to its stage, 0 or more.
        edges: int64 [2, E], from a node to a later one, which is in the same stage or a later one.
        held: float64 [N], what each needs of its stage's memory, in shares of it; None where that is not limited.
        span: how many stages an edge may lead on without doubt; None: any number.
        gauge: what a problem knows better of its stages than the sums of `load` and `held`; None: these.
    """

    load: NDArray[np.float64]
    edges: NDArray[np.int64]
    held: NDArray[np.float64] | None = None
    span: int | None = None
    gauge: Gauge | None = None

    def heat(self, mapping: NDArray[np.int16], stages: int) -> NDArray[np.float64]:
        """Float64 [B, H, C] in 0..1 of whole mappings int16 [B, N, H] on C = `stages`.

        How near each stage is to setting the pace; 1 where it has to hold more than it can.
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
        """Float64 [N] in 0..1: where the middle of each node lies in a pipeline whose stages are equally full.

        Nodes come in their order, each taking its share of all load, or of as much memory as `stages` use where they
        are half full (`HALF`), if that is more.
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
        """What has to go with a node to a later (or an earlier) stage: itself, and all of its stage [N] behind (before)
        it."""
        near = self._around[1 if later else 0]
        found, waiting = {node}, [node]
        while waiting:
            for other in near[waiting.pop()]:
                if other not in found and stage[other] == stage[node]:
                    found.add(other)
                    waiting.append(other)
        return sorted(found)


def fullness(stage: NDArray[np.integer[Any]], load: NDArray[np.float64], stages: int) -> NDArray[np.float64]:
    """Loads [B, C] of stages, of decisions int [B, M] with loads float64 [M]; what is at -1 counts nowhere."""
    rows = len(stage)
    known = stage >= 0
    slot = np.arange(rows)[:, None] * stages + np.where(known, stage, 0)
    total = np.bincount(slot.ravel(), (known * load).ravel(), rows * stages)
    return total.astype(np.float64).reshape(rows, stages)


def heat(full: NDArray[np.float64]) -> NDArray[np.float64]:
    """Float64 [B, C] in 0..1 of loads [B, C]: 1 for the fullest stage, next to 0 for most of the others."""
    most = full.max(axis=1, keepdims=True)
    return np.where(most > 0, np.exp((full / np.where(most > 0, most, 1.0) - 1) / TOLERANCE), 0.0)


MOST = 4.0
"""Fullness is cut off there; a stage that does not exist is as full."""


def situation(stage: NDArray[np.integer[Any]], pipeline: Pipeline, stages: int) -> NDArray[np.float32]:
    """How nodes lie in their stages, float32 [B, N, 5], of stages int [B, N]; 0 where the stage is -1.

    Whether a node could go to the stage before, and to the one behind, without its neighbours in its own; how full its
    stage is, the one before and the one behind, in shares of an even split.
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
    share = np.minimum(full * stages / np.maximum(full.sum(axis=1, keepdims=True), 1e-300), MOST)
    padded = np.pad(share, ((0, 0), (1, 1)), constant_values=MOST)
    at = np.maximum(stage, 0).astype(np.int64)
    near = [np.take_along_axis(padded, at + k, axis=1) for k in (1, 0, 2)]
    found = np.stack([~held[0], ~held[1], *near], axis=-1) * (stage >= 0)[..., None]
    return found.astype(np.float32)
