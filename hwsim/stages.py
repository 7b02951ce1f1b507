"""How full the stages of a pipeline are, and which of them set its pace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 0.02
"""A stage that much below the fullest, in shares of it, has a heat of 1 / e (own choice)."""


@dataclass(frozen=True)
class Pipeline:
    """N nodes that are dealt to stages; the fullest stage sets the pace.

    Attributes:
        load: float64 [N], what each adds to its stage, 0 or more.
        edges: int64 [2, E], from a node to one that is in the same stage or a later one.
    """

    load: NDArray[np.float64]
    edges: NDArray[np.int64]

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
