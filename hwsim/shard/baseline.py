"""The rival of every search: the nodes in order, each its least cost, within the limit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.shard.cost import totals
from hwsim.shard.greedy import greedy
from hwsim.shard.repair import repaired
from hwsim.shard.tables import Tables
from workloads.sharding import FORBIDDEN_FROM

RULE = "the nodes in order, each its least cost"
PRICES = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)
"""Of usage, in turn, until a choice is valid; at 1 the mean usage of a node costs as much as the mean strategy."""


def is_valid(t: Tables, choice: NDArray[np.int16]) -> NDArray[np.bool_]:
    """bool [B]: which choices [B, N] break nothing."""
    _, forbidden, peak = totals(t, choice)
    valid: NDArray[np.bool_] = (forbidden == 0) & (peak <= t.limit)
    return valid


def choose(t: Tables) -> NDArray[np.int16]:
    """The choice int16 [N] of the first price at which `greedy`, or what is repaired of it, is valid.

    Where there is none it is the repaired one of the last price, and breaks something.
    """
    allowed = t.cost[t.cost < FORBIDDEN_FROM]
    held = np.float64(t.usage.mean()) * max(1.0, float((t.upper - t.lower).mean()))
    unit = max(1.0, float(allowed.mean())) / max(1.0, held)
    choice = np.zeros(len(t.lower), np.int16)
    for price in PRICES:
        choice = greedy(t, price * unit)
        choice = repaired(t, choice[None], choice, False)[0]
        if is_valid(t, choice[None])[0]:
            break
    return choice
