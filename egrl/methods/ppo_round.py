"""A round of `ppo` on one problem, and what is known of a problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Mapping16


@dataclass
class Part:
    """A round's rows on one problem: the deployed mapping (or the start mapping), then R rollouts.

    Attributes:
        problem: its number.
        start: whether the start mapping stands in the first row.
        mapping: int16 [1 + R, N, H], what is proposed.
        before, action: int16 [T, R, N, H]; log_prob: float32, the same shape.
        group: int64 [R], which rollouts set out from the same mapping.
        reward: float64 [1 + R], NaN where nothing usable was heard; speedup alike.
        ran: int16 [R, N, H], what ran, only where that is credited.
        base: the best reward that was known when the round began.
        asked, told: how many of the rows.
    """

    problem: int
    start: bool
    mapping: Mapping16
    before: Mapping16
    action: Mapping16
    log_prob: NDArray[np.float32]
    group: NDArray[np.int64]
    reward: NDArray[np.float64]
    speedup: NDArray[np.float64]
    ran: Mapping16
    base: float = -np.inf
    asked: int = 0
    told: int = 0


@dataclass
class Known:
    """What has been heard of a problem: the best mapping int16 [N, H], its reward, the heat of all its stages and
    whether it ran (until one does, the best of those that do not); and running moments of rewards."""

    best: Mapping16
    reward: float = -np.inf
    warmth: float = np.inf
    ran: bool = False
    mean: float = 0.0
    variance: float = 0.0
    rounds: int = 0
