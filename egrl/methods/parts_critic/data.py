"""What was measured of one problem, as the critic reads it: different mappings, their costs and their profiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import Archive
from egrl.methods.twin.data import thin
from hwsim.problem import Floats, Mapping16, Profiles, Status

NOISE, WEIGHT = 0.01, 2.0
"""Assumed relative standard deviation of a cost, and how many repetitions the assumption weighs."""
EXACT = 1e-4
"""Profiles that add up to the cost but for this share are exact, and so are costs."""


@dataclass(frozen=True)
class Measured:
    """M different mappings that ran; repetitions are averaged.

    Attributes:
        ticket: int64 [M], of the first evaluation of each.
        mapping: int16 [M, N, H].
        log_cost: float64 [M].
        log_seconds: float64 [M, N], of each node; NaN: not known.
        count: int64 [M], evaluations.
        noise: relative standard deviation of a cost, by repetitions and an assumption; 0 if repetitions are all equal.
    """

    ticket: NDArray[np.int64]
    mapping: Mapping16
    log_cost: Floats
    log_seconds: Floats
    count: NDArray[np.int64]
    noise: float

    def __len__(self) -> int:
        return len(self.ticket)

    @property
    def profiled(self) -> NDArray[np.bool_]:
        """bool [M]: the time of at least half of the nodes is known that any profile has."""
        known = np.isfinite(self.log_seconds)
        return np.asarray(known.sum(axis=1) > 0.5 * known.any(axis=0).sum())

    @property
    def exact(self) -> bool:
        """True if costs have no noise: repetitions are all equal, or profiles add up to the costs."""
        if self.noise == 0.0:
            return True
        whole = np.isfinite(self.log_seconds).all(axis=1)
        if not whole.any():
            return False
        left = np.log(np.exp(self.log_seconds[whole]).sum(axis=1)) - self.log_cost[whole]
        return bool(np.abs(left).max() < EXACT)

    def rows(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> Measured:
        """Some of them."""
        columns = {name: value[index] for name, value in vars(self).items() if name != "noise"}
        return Measured(**columns, noise=self.noise)

    def thinned(self, most: int) -> Measured:
        """Those with a profile; of more than `most` the best half and an even choice of the others."""
        rows = np.flatnonzero(self.profiled)
        return self.rows(rows if len(rows) <= most else rows[thin(self.log_cost[rows], most)])


def gather(archive: Archive, tickets: NDArray[np.int64], node: NDArray[np.int32], nodes: int) -> Measured:
    """What ran among evaluations of one problem, in the order of tickets; `node` [P] as in `Parts`."""
    status, cost = archive.column("status")[tickets], archive.column("cost")[tickets]
    tickets = tickets[(status == Status.OK) & np.isfinite(cost) & (cost > 0)]
    mapping, seconds = archive.mappings(tickets), _by_node(archive.parts(tickets), node, nodes)
    flat = mapping.reshape(len(mapping), -1)
    _, first, group = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    count = np.bincount(group.reshape(-1), minlength=len(first))
    log_cost = np.bincount(group.reshape(-1), np.log(archive.column("cost")[tickets]), len(first)) / count
    known = np.isfinite(seconds)
    logs, number = np.zeros((len(first), nodes)), np.zeros((len(first), nodes))
    np.add.at(logs, group.reshape(-1), np.where(known, seconds, 0.0))
    np.add.at(number, group.reshape(-1), known)
    mean = np.where(number > 0, logs / np.maximum(number, 1), np.nan)
    at = first[order]
    noise = _noise(np.log(archive.column("cost")[tickets]) - log_cost[group.reshape(-1)], len(first))
    return Measured(tickets[at], mapping[at], log_cost[order], mean[order], count[order], noise)


def _noise(left: Floats, different: int) -> float:
    """Of log costs, less the mean of their mapping, of so many different mappings; see `Measured`."""
    repeated = len(left) - different
    if repeated > 0 and np.abs(left).max() < EXACT:
        return 0.0
    return float(np.sqrt(((left**2).sum() + WEIGHT * NOISE**2) / (repeated + WEIGHT)))


def _by_node(parts: Profiles, node: NDArray[np.int32], nodes: int) -> Floats:
    """The logarithm of the seconds of each node, float64 [B, N]; NaN if a part of it is not known, or it has none."""
    seconds = np.zeros((len(parts), nodes))
    owned = node >= 0
    for part in np.flatnonzero(owned).tolist():
        seconds[:, node[part]] += parts[:, part]
    seconds[:, np.bincount(node[owned], minlength=nodes) == 0] = np.nan
    return np.log(np.where(seconds > 0, seconds, np.nan))
