"""Local search on a model of the family, as `hwsim.nnpi.polish` does it on the chip file's own."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import uniform
from hwsim.nnpi.family.cost import Tape, Terms, no_tape, seconds
from hwsim.nnpi.local_moves import CHANCE, DRAWS, move
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Tables
from hwsim.problem import Mapping16


@kernel
def anneal(
    tables: Tables,
    terms: Terms,
    start: Mapping16,
    tensors: NDArray[np.int64],
    steps: int,
    temperature: tuple[float, float],
    key: np.uint64,
) -> tuple[Mapping16, float]:
    """The best mapping int16 [N, 2] of an annealing from `start` [1, N, 2], and its modelled seconds.

    `temperature` is the first and the last, as shares of the cost; `tensors` int64 [K, 2] are the live decisions.
    """
    levels, ops = len(tables.capacity_bytes), start.shape[1]
    tape: Tape = no_tape(levels)
    traffic, accesses = np.zeros(levels), np.zeros(levels, np.int64)
    usage = np.zeros((levels, ops), np.int64)
    weight_ops = tensors[np.nonzero(tensors[:, 1] == 0)[0], 0]
    current = rectify(tables, start)[0]
    cost = seconds(tables, terms, current[0], traffic, accesses, tape)
    best, best_cost = current.copy(), cost
    for step in range(steps):
        proposal = current.copy()
        if not move(tables, current[0], proposal[0], tensors, weight_ops, usage, key, step):
            continue
        proposal = rectify(tables, proposal)[0]
        new = seconds(tables, terms, proposal[0], traffic, accesses, tape)
        hot = abs(cost) * temperature[0] * (temperature[1] / temperature[0]) ** (step / steps)
        chance = uniform(key, np.uint64(step) * np.uint64(DRAWS) + np.uint64(CHANCE))
        if new <= cost or chance < math.exp((cost - new) / hot):
            current, cost = proposal, new
            if cost < best_cost:
                best, best_cost = current.copy(), cost
    return best[0], best_cost
