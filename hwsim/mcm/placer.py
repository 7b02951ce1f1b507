"""Nodes onto chips by score: the solver of the package as a placer, and what ranking policies see.

Source: the loop of SAMPLE (MCM paper, section 4.2, algorithm 1), whose probabilities here are a sharp softmax of the
scores, and whose order is that of the scores: nodes that one chip suits much better than any other come first.

Place 0 of the contract is none: every node has a chip, and place l is chip l - 1. What a policy sees is where a chip is
along the pipeline and where a node is: the share of the network before it, in topological order, by seconds, weights,
bytes that are sent, number, and the mean of the first two. In a partition into equal loads the two are equal.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.cost import Tables
from hwsim.mcm.graph import topological
from hwsim.mcm.solver.solver import Repairer
from hwsim.placing import Placer, Scores
from hwsim.problem import Mapping16

SHARPNESS, BEND = 200.0, 40.0
"""Chips are weighted by exp(-d), d = SHARPNESS times how far a score is behind the best one, over the mean size of
scores; from BEND on it rises ever more slowly, to 2 BEND at most: float32 holds exp(-80), so that there always is a
next best chip."""
FARTHEST = 4.0
"""Distances from a chip beyond so many chips are taken for this one."""
LEAST_SHARE = 1e-3
"""Least time of a node over the mean one's, before its logarithm."""
MEASURES = ("seconds", "weights", "sent", "number", "load")
FEATURE_NAMES = (
    *(f"{what}_by_{measure}" for measure in MEASURES for what in ("distance", "square")),
    "time_along",
    "along",
)
"""Distance between node and chip in chips, by each measure, and its square / 4; the time of the node over the mean
one's (base-2 logarithm / 4) times the position of the chip, 0..1; that position."""


class McmPlacer(Placer):
    """The placer of a network on a package; see the module. It ignores the share of a memory that stays empty."""

    feature_names = FEATURE_NAMES
    offset, by_key = 1, True

    def __init__(self, tables: Tables, repairer: Repairer) -> None:
        self._tables, self._repairer = tables, repairer
        self.node = np.arange(len(tables.compute_s))
        self.head = np.zeros(len(self.node), np.int64)

    @cached_property
    def features(self) -> NDArray[np.float32]:  # type: ignore[override]
        """float32 [N, C + 1, F]."""
        t, nodes = self._tables, len(self.node)
        sent = np.zeros(nodes)
        np.add.at(sent, t.source, t.tensor_s)
        shares = [_shares(own) for own in (t.compute_s, t.weight_bytes, sent, np.ones(nodes))]
        shares.append((shares[0] + shares[1]) / 2)
        order = topological(nodes, t.edges)
        middle, columns = np.arange(t.chips) + 0.5, []
        for share in shares:
            before = np.empty(nodes)
            before[order] = np.cumsum(share[order]) - share[order] / 2
            distance = np.minimum(np.abs(before[:, None] * t.chips - middle), FARTHEST)
            columns += [distance, distance**2 / FARTHEST]
        along = np.broadcast_to(middle / t.chips, (nodes, t.chips))
        time = np.log2(np.maximum(shares[0] * nodes, LEAST_SHARE)) / FARTHEST
        found = np.zeros((nodes, t.chips + 1, len(FEATURE_NAMES)), np.float32)
        found[:, 1:] = np.stack([*columns, time[:, None] * along, along], axis=2)
        return found

    def place(self, scores: Scores, free_share: NDArray[np.float64]) -> Mapping16:
        """See `hwsim.placing.Placer.place`; a score of -inf makes a chip unlikely, but the rules come first.

        Where the solver finds nothing within its limit, the partition is the baseline's.
        """
        self.check(scores, free_share)
        own = scores[:, :, 1:].astype(np.float64)
        own = np.maximum(own, np.finfo(np.float32).min)
        size = np.mean(np.abs(own), axis=(1, 2), keepdims=True)
        behind = (own.max(axis=2, keepdims=True) - own) / np.where(size > 0, size, 1.0)
        second = np.partition(behind, 1, axis=2)[:, :, 1] if behind.shape[2] > 1 else behind[:, :, 0]
        order = np.argsort(-second, axis=1, kind="stable")
        solver, backtracks = self._repairer.solver, self._repairer.backtracks
        answer = solver.sample(_odds(behind), np.zeros(len(scores), np.uint64), order, backtracks)
        return self._repairer.found(answer)[:, :, None]


def _odds(behind: NDArray[np.float64]) -> NDArray[np.float32]:
    """Weights float32 [B, N, C], above 0 and the less the further behind the best chip, float64 from 0, one is."""
    farthest = behind.max(axis=(1, 2), keepdims=True)
    far = behind / np.where(farthest > 0, farthest, 1.0)
    return np.exp(-BEND * (1 - np.exp(-SHARPNESS / BEND * behind) + far)).astype(np.float32)


def _shares(values: NDArray[np.integer] | NDArray[np.floating]) -> NDArray[np.float64]:
    """Float64 [N] that sum up to 1; equal ones of values that are all 0."""
    total = float(values.sum())
    return np.asarray(values / total) if total > 0 else np.full(len(values), 1 / len(values))
