"""The measurements of one problem as the critic reads them: different mappings, their costs and profiles."""

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
    group, first = _groups(mapping)
    count = np.bincount(group, minlength=len(first))
    log = np.log(archive.column("cost")[tickets])
    log_cost = np.bincount(group, log, len(first)) / count
    known = np.isfinite(seconds)
    logs = _sums(group, np.where(known, seconds, 0.0), len(first))
    number = _sums(group, known.astype(np.float64), len(first))
    mean = np.where(number > 0, logs / np.maximum(number, 1), np.nan)
    noise = _noise(log - log_cost[group], len(first))
    return Measured(tickets[first], mapping[first], log_cost, mean, count, noise)


def _groups(mapping: Mapping16) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of M different mappings each of [B, N, H] is, int64 [B], and where each is first, int64 [M].

    They are numbered as they come. Rows are looked up as bytes: sorting them takes ten times as long.
    """
    data, width = np.ascontiguousarray(mapping).tobytes(), mapping[0].nbytes if len(mapping) else 1
    number: dict[bytes, int] = {}
    rows = (data[at : at + width] for at in range(0, len(data), width))
    group = np.fromiter((number.setdefault(row, len(number)) for row in rows), np.int64, len(mapping))
    first = np.empty(len(number), np.int64)
    first[group[::-1]] = np.arange(len(group))[::-1]  # of repeated indices the last counts
    return group, first


def _sums(group: NDArray[np.int64], values: Floats, groups: int) -> Floats:
    """The sums over each group of float64 [B, N], in the order of rows: float64 [groups, N]."""
    columns = [np.bincount(group, column, groups) for column in values.T]
    return np.array(columns, np.float64).reshape(values.shape[1], groups).T.copy()


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
