"""What was measured, as the inference reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwsim.family import Learnable
from hwsim.problem import Floats, Mapping16

MOST = 400
"""Measurements that are looked at; of more, the best half and an even choice of the others."""
REACH = 0.1
"""Distance at which what the family cannot say has fallen to 1/e."""


@dataclass(frozen=True)
class Data:
    """M different mappings that were measured.

    Attributes:
        mapping: int16 [M, N, H].
        log_cost: float64 [M].
        places: float64 [M, F], `Learnable.places`.
        residual_gram: float64 [M, M], covariance of a residual of size 1.
        distance_gram: float64 [M, M], covariance of what depends on the distance, of size 1.
    """

    mapping: Mapping16
    log_cost: Floats
    places: Floats
    residual_gram: Floats
    distance_gram: Floats

    def __len__(self) -> int:
        return len(self.log_cost)


def gather(family: Learnable, mapping: Mapping16, cost: Floats, most: int = MOST) -> Data:
    """Data of different mappings [M, N, H] with costs [M], all finite and positive; thinned out beyond `most`."""
    if len(cost) > most:
        kept = thin(cost, most)
        mapping, cost = mapping[kept], cost[kept]
    places = family.places(mapping)
    distance = family.distance(mapping, mapping)
    return Data(mapping, np.log(cost), places, places @ places.T, closeness(distance))


def closeness(distance: Floats) -> Floats:
    """Covariance of size 1 of what depends on the distance: an exponential kernel."""
    return np.asarray(np.exp(-distance / REACH))


def thin(cost: Floats, most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Positions, ascending, of the best half of `most` costs and of an even choice of the others."""
    order = np.argsort(cost, kind="stable")
    best, others = order[: most // 2], np.sort(order[most // 2 :])
    even = np.linspace(0, len(others) - 1, most - len(best)).round().astype(np.int64)
    return np.sort(np.concatenate([best, others[even]]))
