"""Measurements as the inference reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.family import Learnable
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
