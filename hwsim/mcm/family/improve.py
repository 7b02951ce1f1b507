"""Local search on a model of the family: nodes of busy chips go to another chip, or to a new one between two.

A move takes a node, with or without all that it depends on (that depends on it) on its own chip, to any chip between
those of what it reads and of what reads it. Where a chip is left over, a new one may be put between two others. A chip
that is left empty goes. So edges never lead back and no chip is skipped; the other rules are checked. Most moves begin
at the busiest chip, or at one that lacks memory.

What is annealed is nearly the busiest of all: the norm over chips and links of a high power, so that of several busy
ones each that is relieved counts.
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

COLD = 0.01
"""The last temperature of a local search, as a share of the first."""
MOST_CUT_WORK = 1e9
"""Steps of the best cuts that are worth while for one draft: C N^2 of C chips and N nodes."""
ROOM = (1.0, 0.97, 0.94, 0.9, 0.85, 0.8)
"""Shares of a chip's memory that the weights of the best cuts may take, tried in turn."""
POWER = 64.0
LACK = 4.0
"""A chip that needs a share of its memory more than it has costs so much more time, in shares."""
HOTTEST, BESIDE = 0.5, 0.75
"""A move begins at the busiest chip below the one, at one of its neighbours below the other, else anywhere."""
ALONE, WHOLE, BETWEEN, NEAR = 0.15, 0.05, 0.2, 0.8
"""Shares of moves of a node alone, and of all of a chip; of those to a new chip, and of the others to the chip before
or behind."""
DRAWS, CHANCE, TRIES = 64, 63, 56
LEAST_WARM = 1e-200
"""A temperature, in seconds, for costs of 0."""
MAX_MOVED_NODES = 256
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
) -> tuple[float, int, bool, float]:
    """What is annealed, the chip to relieve, whether all chips have memory, and the busiest, of one partition [N].

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
    if most <= 0.0:
        return 0.0, busiest, fits, 0.0
    total = 0.0
    for c in range(tables.chips):
        total += (chip_s[c] / most) ** POWER + (link_s[c] / most) ** POWER
    # A chip that lacks little memory and is not busy must count, too.
    lack = 1.0 + LACK * worst
    return most * total ** (1.0 / POWER) * lack, busiest, fits, most * lack


@kernel
def _group(
    place: Places16,
    node: int,
    later: bool,
    begin: NDArray[np.int64],
    others: NDArray[np.int64],
    group: NDArray[np.int64],
) -> int:
    """Write a node and all of its chip that follows it (precedes it, unless `later`); how many; 0 if too many.

    Whoever is in a group is marked: its chip is -1 - chip from now on.
    """
    home, count, k = place[node], 1, 0
    group[0], place[node] = node, -1 - home
    while k < count:
        u = group[k]
        k += 1
        for at in range(begin[u], begin[u + 1]):
            v = others[at]
            if place[v] == home and (v > u) == later:
                if count == MAX_MOVED_NODES:
                    return 0
                group[count], place[v] = v, -1 - home
                count += 1
    return count


@kernel
def _all_of(place: Places16, home: int, group: NDArray[np.int64]) -> int:
    """Write all nodes of a chip; how many; 0 if too many."""
    count = 0
    for n in range(len(place)):
        if place[n] == home:
            if count == MAX_MOVED_NODES:
                return 0
            group[count], place[n] = n, -1 - home
            count += 1
    return count


@kernel
def _range(
    place: Places16, group: NDArray[np.int64], begin: NDArray[np.int64], others: NDArray[np.int64], used: int
) -> tuple[int, int]:
    """The last chip of what a group reads, -1 if nothing, and the first of what reads it, `used` if nothing."""
    low, high = -1, used
    for u in group:
        for at in range(begin[u], begin[u + 1]):
            chip = int(place[others[at]])
            if chip >= 0 and others[at] > u:
                high = min(high, chip)
            elif chip >= 0:
                low = max(low, chip)
    return low, high


@kernel
def _close(place: Places16, chip: int) -> None:
    """Move what lies behind a chip one chip ahead, if the chip is empty."""
    for n in range(len(place)):
        if place[n] == chip:
            return
    for n in range(len(place)):
        if place[n] > chip:
            place[n] -= 1


@kernel
def _move(
    place: Places16,
    node: int,
    tables: Tables,
    begin: NDArray[np.int64],
    others: NDArray[np.int64],
    group: NDArray[np.int64],
    chances: Floats,
) -> bool:
    """Take a node, and what goes with it, to another chip, in place; False if it cannot, and `place` is of no use.

    `chances` float64 [5] are uniform.
    """
    home, used, later, count = int(place[node]), int(place.max()) + 1, chances[0] < 0.5, 1
    if chances[1] < ALONE:
        group[0], place[node] = node, -1 - home
    elif chances[1] < ALONE + WHOLE:
        count = _all_of(place, home, group)
    else:
        count = _group(place, node, later, begin, others, group)
    low, high = _range(place, group[:count], begin, others, used)
    if count == 0:
        return False
    if chances[3] < BETWEEN and used < tables.chips and low < high:
        to = low + 1 + int(chances[2] * (high - low))
        for n in range(len(place)):
            if place[n] >= to:
                place[n] += 1
        home += home >= to
    else:
        low, high = max(low, 0), min(high, tables.chips - 1)
        to = low + int(chances[2] * (high - low + 1))
        if chances[4] < NEAR:
            to = home + (1 if later else -1)
        if to == home or not low <= to <= high:
            return False
    for k in range(count):
        place[group[k]] = to
    if tables.no_skip:
        _close(place, home)
    return True


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
    """The partition int16 [N] of an annealing from `start` whose busiest is the least, and that; the first of equals.

    One that lacks memory is the best only until there is another. `temperature` is the first and the last, as shares
    of the value; `neighbours` are of all nodes, [2 E], and where those of each begin, [N + 1].
    """
    others, begin = neighbours
    nodes = len(start)
    chip_s, link_s = np.empty(tables.chips), np.empty(tables.chips)
    group, wrong, chances = np.empty(MAX_MOVED_NODES, np.int64), np.zeros(nodes, np.bool_), np.empty(5)
    current = start.copy()
    cost, busiest, fits, most = value(tables, terms, made_bytes, factor, current, chip_s, link_s)
    best, best_most, best_fits = current.copy(), most, fits
    for step in range(steps):
        # Every step owns `DRAWS` numbers of the key, however many it uses.
        draw = np.uint64(step) * np.uint64(DRAWS)
        chance, chip = uniform(key, draw), busiest
        if HOTTEST <= chance < BESIDE:
            chip += 1 if uniform(key, draw + np.uint64(1)) < 0.5 else -1
        node = -1
        for attempt in range(TRIES):
            n = int(uniform(key, draw + np.uint64(7 + attempt)) * nodes)
            if chance >= BESIDE or current[n] == chip:
                node = n
                break
        if node < 0:
            continue
        for k in range(len(chances)):
            chances[k] = uniform(key, draw + np.uint64(2 + k))
        proposal = current.copy()
        if not _move(proposal, node, tables, begin, others, group, chances):
            continue
        new, new_busiest, new_fits, most = value(tables, terms, made_bytes, factor, proposal, chip_s, link_s)
        warm = cost * temperature[0] * (temperature[1] / temperature[0]) ** (step / steps)
        warm = max(warm, LEAST_WARM)
        # Rules are checked only for proposals that would be taken.
        if new <= cost or uniform(key, draw + np.uint64(CHANCE)) < math.exp((cost - new) / warm):
            wrong[:] = False
            mark(tables, proposal, wrong)
            if wrong.any():
                continue
            current, cost, busiest, fits = proposal, new, new_busiest, new_fits
            if (most < best_most and fits >= best_fits) or (fits and not best_fits):
                best, best_most, best_fits = current.copy(), most, fits
    return best, best_most
