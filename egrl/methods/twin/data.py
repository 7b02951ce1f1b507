"""Measurements as the inference reads them.

The parameters of a family fitted to profiles, before totals are used.

The logarithm of each measured part is that of the family's part plus an error with a Student t distribution, whose size
is learned: what the profiler adds, and what no member of the family can say of single ops. So parts that do not fit do
not drag the others along. Near a model the log-likelihood of all parts is quadratic in theta. Together with the prior
it gives a normal distribution, which takes the place of the prior.

Source: Lange, Little and Taylor, Robust statistical modeling using the t distribution, J. Am. Statist. Assoc. 84
(1989), for weights and size.

Deviations: the weights are those at the model, and the distribution is that of the family as linear there (Gauss and
Newton); errors of one part in several measurements are taken as independent, though a misfit is not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from hwsim.family import Learnable, PartTimes
from hwsim.problem import Floats, Mapping16

MOST = 400
"""Measurements that are looked at; of more, the best half and an even choice of the others."""
MOST_PROFILES = 40
"""Profiles that are looked at: each says more than any total, and takes the time of hundreds."""
REACH = 0.1
"""Distance at which what the family cannot say has fallen to 1/e."""


@dataclass(frozen=True)
class Profiled:
    """Profiles of K mappings with Q parts each.

    Attributes:
        mapping: int16 [K, N, H].
        log_seconds: float64 [K, Q], NaN where a part is not known; scaled so that parts make the costs.
    """

    mapping: Mapping16
    log_seconds: Floats


@dataclass(frozen=True)
class Data:
    """M different mappings that were measured.

    Attributes:
        mapping: int16 [M, N, H].
        log_cost: float64 [M].
        places: float64 [M, F], `Learnable.places`.
        residual_gram: float64 [M, M], covariance of a residual of size 1.
        distance_gram: float64 [M, M], covariance of what depends on the distance, of size 1.
        profiles: of some of the mappings; None: there are none, or the family knows no parts.
    """

    mapping: Mapping16
    log_cost: Floats
    places: Floats
    residual_gram: Floats
    distance_gram: Floats
    profiles: Profiled | None = None

    def __len__(self) -> int:
        return len(self.log_cost)


def gather(
    family: Learnable, mapping: Mapping16, cost: Floats, most: int = MOST, parts: Floats | None = None
) -> Data:
    """Data of different mappings [M, N, H] with costs [M], all finite and positive; thinned out beyond `most`.

    `parts` float64 [M, Q] are profiles, NaN where nothing is known; of those `MOST_PROFILES` at most are looked at.
    """
    knows = type(family).part_times is not Learnable.part_times
    profiles = _profiled(mapping, cost, parts) if knows and parts is not None else None
    if len(cost) > most:
        kept = thin(cost, most)
        mapping, cost = mapping[kept], cost[kept]
    places = family.places(mapping)
    distance = family.distance(mapping, mapping)
    return Data(mapping, np.log(cost), places, places @ places.T, closeness(distance), profiles)


def _profiled(mapping: Mapping16, cost: Floats, parts: Floats) -> Profiled | None:
    """The profiles among M mappings; None if there are none.

    What belongs to no part is shared out among the parts: the family has no other place for it. If no profile has all
    parts, it is not known how much that is.
    """
    at = np.flatnonzero(np.isfinite(parts).any(axis=1))
    if len(at) > MOST_PROFILES:
        at = at[thin(cost[at], MOST_PROFILES)]
    if not len(at):
        return None
    whole = parts[at].sum(axis=1)
    complete = np.isfinite(whole) & (whole > 0)
    over = float(np.median((cost[at] / whole)[complete])) if complete.any() else 1.0
    log_seconds = np.log(np.where(parts[at] > 0, parts[at] * over, np.nan))
    return Profiled(mapping[at], log_seconds)


def averaged(parts: NDArray[np.floating[Any]], group: NDArray[np.int64], groups: int) -> Floats | None:
    """float64 [groups, Q], the mean of profiles [R, Q] of each group [R], NaN where a part is not known.

    None if nothing is known of any.
    """
    known = np.isfinite(parts)
    if not known.any():
        return None
    total, count = np.zeros((groups, parts.shape[1])), np.zeros((groups, parts.shape[1]))
    np.add.at(total, group, np.where(known, parts, 0.0))
    np.add.at(count, group, known)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def closeness(distance: Floats) -> Floats:
    """Covariance of size 1 of what depends on the distance: an exponential kernel."""
    return np.asarray(np.exp(-distance / REACH))


def thin(cost: Floats, most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Positions, ascending, of the best half of `most` costs and of an even choice of the others."""
    order = np.argsort(cost, kind="stable")
    best, others = order[: most // 2], np.sort(order[most // 2 :])
    even = np.linspace(0, len(others) - 1, most - len(best)).round().astype(np.int64)
    return np.sort(np.concatenate([best, others[even]]))


FREEDOM = 4.0
"""Degrees of freedom of an error: at four sizes it counts a quarter of what it would in a normal distribution."""
LEAST_SIZE = 2e-3
"""No profiler is more exact, relatively."""


@dataclass(frozen=True)
class PartFit:
    """A family's parts at a model, beside those that were measured.

    Attributes:
        times: the family's, K mappings with Q parts each.
        left: float64 [K Q], log measured - log family; 0 where one of them is not known.
        known: bool [K Q].
    """

    times: PartTimes
    left: Floats
    known: NDArray[np.bool_]

    @staticmethod
    def of(times: PartTimes, log_seconds: Floats) -> PartFit:
        """Beside measurements float64 [K, Q], NaN where they are not known."""
        known = (np.isfinite(log_seconds) & (times.seconds > 0)).reshape(-1)
        family = np.log(np.where(times.seconds > 0, times.seconds, 1.0)).reshape(-1)
        return PartFit(times, np.where(known, np.nan_to_num(log_seconds.reshape(-1)) - family, 0.0), known)

    def loss(self, size: float) -> float:
        """Minus the log likelihood, without what depends on neither theta nor size."""
        terms = np.log1p(np.square(self.left / size) / FREEDOM)
        return float(0.5 * (FREEDOM + 1) * terms.sum() + self.known.sum() * np.log(size))

    def weights(self, size: float) -> Floats:
        """float64 [K Q], how much each error counts; 0 where nothing is known."""
        found = (FREEDOM + 1) / (FREEDOM + np.square(self.left / size))
        return np.asarray(np.where(self.known, found, 0.0))

    def sized(self, size: float) -> float:
        """The size that the errors have, from one that was thought before."""
        if not self.known.any():
            return size
        for _ in range(10):
            size = float(np.sqrt((self.weights(size) * np.square(self.left)).sum() / self.known.sum()))
            size = max(size, LEAST_SIZE)
        return size

    def information(self, size: float) -> tuple[Floats, Floats]:
        """Minus the second derivatives of the log likelihood by theta, float64 [P, P], and the first ones [P]."""
        columns, common, alone = self.times.columns, self.times.common, self.times.alone
        # Rows of `common` are dense in a few parameters, those of `alone` sparse in the others; so four blocks.
        weight = self.weights(size) / size**2
        weighted = common * weight[:, None]
        found = (alone.T @ alone.multiply(weight[:, None]).tocsr()).toarray()
        both = alone.T @ weighted
        found[:, columns] += both
        found[columns, :] += both.T
        found[np.ix_(columns, columns)] += common.T @ weighted
        first = alone.T @ (weight * self.left)
        first[columns] += weighted.T @ self.left
        return found, first


class Known(ABC):
    """A normal distribution of P parameters: what is known of them before totals are looked at.

    Attributes:
        mean: float64 [P].
        excess: how much less sure the prior alone is, in log density at the mean: 0 for the prior.
    """

    mean: Floats
    excess: float = 0.0

    @abstractmethod
    def times(self, vectors: Floats) -> Floats:
        """float64 [P, K], the covariance times vectors [P, K]."""

    @abstractmethod
    def diagonal(self) -> Floats:
        """float64 [P], variances."""

    @abstractmethod
    def block(self, columns: NDArray[np.int64]) -> Floats:
        """float64 [K, K], the covariance of K parameters."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Floats:
        """float64 [P], drawn; less the mean."""


class PriorAlone(Known):
    """Independent parameters with these spreads, float64 [P]."""

    def __init__(self, spread: Floats) -> None:
        self._spread, self.mean = spread, np.zeros(len(spread))

    def times(self, vectors: Floats) -> Floats:
        return np.asarray(np.square(self._spread)[:, None] * vectors)

    def diagonal(self) -> Floats:
        return np.asarray(np.square(self._spread))

    def block(self, columns: NDArray[np.int64]) -> Floats:
        return np.diag(np.square(self._spread[columns]))

    def draw(self, rng: np.random.Generator) -> Floats:
        return np.asarray(self._spread * rng.standard_normal(len(self._spread)))


class WithParts(Known):
    """The prior with spreads float64 [P], and parts whose family is linear near theta [P]."""

    def __init__(self, spread: Floats, theta: Floats, parts: PartFit, size: float) -> None:
        information, first = parts.information(size)
        # Two normal densities in theta are multiplied: precisions add, and the mean solves the sum of both pulls.
        precision = information + np.diag(1.0 / np.square(spread))
        self._root = cho_factor(precision, lower=True)
        self.mean = cho_solve(self._root, first + information @ theta)
        self.excess = float(np.log(np.diag(self._root[0])).sum() + np.log(spread).sum())

    @cached_property
    def _covariance(self) -> Floats:
        return np.asarray(cho_solve(self._root, np.eye(len(self.mean))))

    def times(self, vectors: Floats) -> Floats:
        return np.asarray(cho_solve(self._root, vectors))

    def diagonal(self) -> Floats:
        return np.asarray(np.diag(self._covariance))

    def block(self, columns: NDArray[np.int64]) -> Floats:
        return np.asarray(self._covariance[np.ix_(columns, columns)])

    def draw(self, rng: np.random.Generator) -> Floats:
        normal = rng.standard_normal(len(self.mean))
        # With precision L L', x = L'^-1 z has covariance (L L')^-1.
        return np.asarray(solve_triangular(self._root[0], normal, lower=True, trans="T"))
