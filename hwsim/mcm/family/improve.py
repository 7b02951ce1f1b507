"""Local search on a model of the family: nodes of busy chips go to a neighbouring chip, and what must go with them.

A move takes a node to the chip before or behind, with all that it depends on (that depends on it) on its own chip. Most
begin at the busiest chip, or at one that lacks memory. What is annealed is nearly the busiest of all: the norm over
chips of a high power, so that of several busy chips each that is relieved counts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import uniform
from hwsim.mcm.cost import Tables
from hwsim.mcm.family.cost import Places16, Terms, fill, held
from hwsim.mcm.rules import mark
from hwsim.problem import Floats

POWER = 64.0
LACK = 4.0
"""A chip that needs a share of its memory more than it has costs so much more time, in shares."""
HOTTEST, BESIDE = 0.5, 0.75
"""A move begins at the busiest chip below the one, at one of its neighbours below the other, else anywhere."""
DRAWS, CHANCE, TRIES = 64, 63, 60
MOST = 256
"""Nodes that a move takes along at most."""


@kernel
def value(
    tables: Tables,
    terms: Terms,
    made_bytes: NDArray[np.int64],
    factor: Floats,
    place: Places16,
    chip_s: Floats,
    link_s: Floats,
) -> tuple[float, int, bool]:
    """What is annealed, the chip to relieve, and whether all chips have memory, of one partition [N].

    `factor` float64 [2] is what `limits` has the logarithms of; `chip_s` and `link_s` [C] are written.
    """
    fill(tables, terms, place, chip_s, link_s)
    fits = True
    worst = 0.0
    if tables.capacity >= 0:
        of = held(tables, made_bytes, place.reshape(1, len(place)))[0]
        for c in range(tables.chips):
            need = of[c, 0] + factor[0] * of[c, 1] + factor[1] * of[c, 2]
            if need > tables.capacity:
                fits = False
                chip_s[c] *= 1.0 + LACK * (need / max(tables.capacity, 1) - 1.0)
                worst = max(worst, need / max(tables.capacity, 1) - 1.0)
    busiest = int(chip_s.argmax())
    most = max(chip_s[busiest], link_s.max())
    total = 0.0
    for c in range(tables.chips):
        total += (chip_s[c] / most) ** POWER
    # A chip that lacks little memory and is not busy must count, too.
    return most * total ** (1.0 / POWER) * (1.0 + LACK * worst), busiest, fits


@kernel
def _move(
    place: Places16,
    node: int,
    to: int,
    begin: NDArray[np.int64],
    others: NDArray[np.int64],
    gone: NDArray[np.int64],
) -> int:
    """Take a node to a chip, and what of its own chip must go with it; returns how many, MOST + 1 if too many."""
    home, count, k = place[node], 1, 0
    later = to > home
    gone[0], place[node] = node, to
    while k < count:
        u = gone[k]
        k += 1
        for at in range(begin[u], begin[u + 1]):
            v = others[at]
            if place[v] == home and (v > u) == later:
                if count >= MOST:
                    return MOST + 1
                gone[count], place[v] = v, to
                count += 1
    return count


@kernel
def anneal(
    tables: Tables,
    terms: Terms,
    made_bytes: NDArray[np.int64],
    factor: Floats,
    neighbours: tuple[NDArray[np.int64], NDArray[np.int64]],
    start: Places16,
    steps: int,
    temperature: tuple[float, float],
    key: np.uint64,
) -> tuple[Places16, float]:
    """The best partition int16 [N] of an annealing from `start`, and its value; the first, if several are equal.

    One that lacks memory is the best only until there is another. `temperature` is the first and the last, as shares
    of the value; `neighbours` are of all nodes, [2 E], and where those of each begin, [N + 1].
    """
    others, begin = neighbours
    nodes = len(start)
    chip_s, link_s = np.empty(tables.chips), np.empty(tables.chips)
    gone, wrong = np.empty(MOST + 1, np.int64), np.zeros(nodes, np.bool_)
    current = start.copy()
    cost, busiest, fits = value(tables, terms, made_bytes, factor, current, chip_s, link_s)
    best, best_cost, best_fits = current.copy(), cost, fits
    for step in range(steps):
        # Every step owns `DRAWS` numbers of the key, however many it uses.
        draw = np.uint64(step) * np.uint64(DRAWS)
        chance = uniform(key, draw)
        chip = busiest
        if HOTTEST <= chance < BESIDE:
            chip += 1 if uniform(key, draw + np.uint64(1)) < 0.5 else -1
        node = -1
        for attempt in range(TRIES):
            n = int(uniform(key, draw + np.uint64(2 + attempt)) * nodes)
            if chance >= BESIDE or current[n] == chip:
                node = n
                break
        if node < 0:
            continue
        to = current[node] + (1 if uniform(key, draw + np.uint64(1)) * 2 % 1 < 0.5 else -1)
        if to < 0 or to >= tables.chips:
            continue
        proposal = current.copy()
        if _move(proposal, node, to, begin, others, gone) > MOST:
            continue
        new, new_busiest, new_fits = value(tables, terms, made_bytes, factor, proposal, chip_s, link_s)
        warm = cost * temperature[0] * (temperature[1] / temperature[0]) ** (step / steps)
        # Rules are checked only for proposals that would be taken.
        if new <= cost or uniform(key, draw + np.uint64(CHANCE)) < math.exp((cost - new) / warm):
            wrong[:] = False
            mark(tables, proposal, wrong)
            if wrong.any():
                continue
            current, cost, busiest, fits = proposal, new, new_busiest, new_fits
            if (cost < best_cost and fits >= best_fits) or (fits and not best_fits):
                best, best_cost, best_fits = current.copy(), cost, fits
    return best, best_cost
