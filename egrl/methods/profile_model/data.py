"""The measurements of one problem as the profile model reads them: different mappings, their costs and profiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import Archive
from egrl.methods.twin.data import thin
from hwsim.capabilities import Parts
from hwsim.problem import Floats, Mapping16, Profiles, Status

NOISE, WEIGHT = 0.01, 2.0
"""Assumed relative standard deviation of a cost, and how many repetitions the assumption weighs."""
EXACT = 1e-4
"""Profiles that add up to the cost but for this share are exact, and so are costs."""
LEAST_MISFIT, NEAREST = 0.1, 8
"""The least standard deviation of what the model does not explain of a cost, as a share of the noise; how many of
the mappings that it thinks best, at least, show it."""
SLOWER = 3.0
"""A cost so many standard deviations above what the model says is believed, not the model."""
NOTHING_S = 1e-30
"""The logarithm of a part of 0 s is that of this."""


@dataclass(frozen=True)
class Measured:
    """M different mappings that ran; repetitions are averaged.

    Attributes:
        ticket: int64 [M], of the first evaluation of each.
        mapping: int16 [M, N, H].
        log_cost: float64 [M].
        log_seconds: float64 [M, N], of each node, or [M, P], of each part; NaN: not known.
        count: int64 [M], evaluations.
        noise: relative standard deviation of a cost, by repetitions and an assumption; 0 if repetitions are all equal.
        whole: how these seconds make the cost.
        reward: float64 [M], geometric means.
    """

    ticket: NDArray[np.int64]
    mapping: Mapping16
    log_cost: Floats
    log_seconds: Floats
    count: NDArray[np.int64]
    noise: float
    whole: Literal["sum", "max"]
    reward: Floats

    def __len__(self) -> int:
        return len(self.ticket)

    @property
    def earned(self) -> Floats:
        """The rewards [M] as log costs less a constant if a reward is a squared speedup; else their order alone."""
        return np.asarray(-0.5 * np.log(self.reward))

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
        complete = np.isfinite(self.log_seconds).all(axis=1)
        if not complete.any():
            return False
        seconds = np.exp(self.log_seconds[complete])
        cost = seconds.sum(axis=1) if self.whole == "sum" else seconds.max(axis=1)
        return bool(np.abs(np.log(cost) - self.log_cost[complete]).max() < EXACT)

    def weighed(self, predicted: Floats) -> Floats:
        """Log costs [M] by measurements and by a model that predicts them, [M], weighed by their precisions."""
        if self.exact:
            return self.log_cost
        left = self.log_cost - predicted
        noise = self.noise**2 / self.count
        # What differs in all mappings alike (overhead between ops) changes no choice. A lucky cost is no misfit, and
        # what the model says of slow mappings does not matter.
        near = np.argsort(predicted, kind="stable")[: max(NEAREST, len(left) // 4)]
        shift = float(np.median(left[near]))
        spread = 1.4826 * float(np.median(np.abs(left[near] - shift)))
        usual = max(spread**2 - float(noise[near].mean()), (LEAST_MISFIT * self.noise) ** 2)
        # Who looks for the best finds where the model errs to the good.
        off = left - shift
        misfit = np.where(off > SLOWER * np.sqrt(noise + usual), off**2, usual)
        return np.asarray(
            (self.log_cost / noise + (predicted + shift) / misfit) / (1.0 / noise + 1.0 / misfit)
        )

    def rows(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> Measured:
        """Some of them."""
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        columns: dict[str, Any] = {name: value[index] for name, value in arrays.items()}
        return replace(self, **columns)

    def thinned(self, most: int) -> Measured:
        """Those with a profile; of more than `most` the best half and an even choice of the others."""
        rows = np.flatnonzero(self.profiled)
        return self.rows(rows if len(rows) <= most else rows[thin(self.log_cost[rows], most)])


def gather(archive: Archive, tickets: NDArray[np.int64], parts: Parts, nodes: int | None) -> Measured:
    """What ran among evaluations of one problem, in the order of tickets.

    Seconds are of so many nodes, or, for None, of each part.
    """
    status, cost = archive.column("status")[tickets], archive.column("cost")[tickets]
    tickets = tickets[(status == Status.OK) & np.isfinite(cost) & (cost > 0)]
    mapping, found = archive.mappings(tickets), archive.parts(tickets)
    of_parts = np.log(np.maximum(found, NOTHING_S))
    seconds = of_parts if nodes is None else _by_node(found, parts.node, nodes)
    group, first = _groups(mapping)
    count = np.bincount(group, minlength=len(first))
    log = np.log(archive.column("cost")[tickets])
    log_cost = np.bincount(group, log, len(first)) / count
    known = np.isfinite(seconds)
    logs = _sums(group, np.where(known, seconds, 0.0), len(first))
    number = _sums(group, known.astype(np.float64), len(first))
    mean = np.where(number > 0, logs / np.maximum(number, 1), np.nan)
    noise = _noise(log - log_cost[group], len(first))
    log_reward = np.log(np.maximum(archive.column("reward")[tickets], NOTHING_S))
    reward = np.exp(np.bincount(group, log_reward, len(first)) / count)
    return Measured(tickets[first], mapping[first], log_cost, mean, count, noise, parts.whole, reward)


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
    """The noise in log costs, given less the mean of their mapping, of `different` mappings; see `Measured`."""
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
