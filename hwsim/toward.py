"""Moves of a walk between two mappings, the *base* and the *goal*. Kernels.

A move toward one of them begins at a tensor that lies elsewhere there, which goes where it has it, and

    one       is all
    exchange  a tensor that lies there, mostly one of as many bytes, comes to where the first one was
    two       so does another tensor that lies elsewhere
    run       so do the next tensors in execution order, of the same head or of all
    room      so do tensors that lie where the first one goes, and do not belong there: often a few, at times all
    alike     so do all tensors of the same head, as many bytes and the same memory, of which repeated layers have many

All other moves are those of `hwsim.order_moves`, which know neither.

Shapes: N ops, H heads, K tensors that exist, C walks.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import uniform
from hwsim.order_moves import PAIR, move_in_order
from hwsim.problem import Floats, Keys, Mapping16

DRAWS = 8
"""Random numbers set apart for a step; a move uses the first four."""
CHANCE = 5
"""The number of the draw that decides whether a move is taken."""
BACK, FORTH = 0.25, 0.4
"""A step moves toward the base if its first random number is below BACK, toward the goal if below FORTH."""
ONE, EXCHANGE, TWO, RUN, ROOM = 0.3, 0.55, 0.7, 0.8, 0.9
"""What such a move is, likewise; beyond ROOM: alike."""
LONGEST = 16
"""Tensors of a run at most."""
SAME_SIZE, NOT_AT_HOME = 0.66, 0.33
"""How often an exchange asks for as many bytes, and how often for a tensor that belongs elsewhere."""


@kernel
def _differing(mapping: Mapping16, target: Mapping16, tensors: NDArray[np.int64], first: int) -> int:
    """The first tensor from number `first` on, in a circle, that two maps int16 [N, H] place otherwise; -1: none."""
    for s in range(len(tensors)):
        q = (first + s) % len(tensors)
        i, h = tensors[q, 0], tensors[q, 1]
        if mapping[i, h] != target[i, h]:
            return q
    return -1


@kernel
def _exchange(
    before: Mapping16,
    target: Mapping16,
    out: Mapping16,
    tensors: NDArray[np.int64],
    sizes: NDArray[np.int64],
    q: int,
    draws: tuple[float, float],
) -> None:
    """Move a tensor from where tensor `q` goes in `out` to where that one was `before`, if there is one."""
    i, h = tensors[q, 0], tensors[q, 1]
    first, w = int(draws[0] * len(tensors)), draws[1]
    for s in range(len(tensors)):
        r = (first + s) % len(tensors)
        j, g = tensors[r, 0], tensors[r, 1]
        if r == q or before[j, g] != target[i, h]:
            continue
        if (w >= NOT_AT_HOME or target[j, g] != before[j, g]) and (
            w > SAME_SIZE or sizes[j, g] == sizes[i, h]
        ):
            out[j, g] = before[i, h]
            return


@kernel
def _make_room(
    before: Mapping16,
    target: Mapping16,
    out: Mapping16,
    tensors: NDArray[np.int64],
    q: int,
    draws: tuple[float, float],
) -> None:
    """Move tensors of `out` that lie where tensor `q` goes and belong elsewhere to where they belong."""
    count, there = len(tensors), target[tensors[q, 0], tensors[q, 1]]
    # As many as the square of a random number says: often a few.
    left, first = 1 + int(draws[0] * draws[0] * count), int(draws[1] * count)
    for s in range(count):
        r = (first + s) % count
        j, g = tensors[r, 0], tensors[r, 1]
        if r != q and before[j, g] == there and target[j, g] != there:
            out[j, g] = target[j, g]
            left -= 1
            if left == 0:
                return


@kernel
def _toward(
    before: Mapping16,
    target: Mapping16,
    out: Mapping16,
    tensors: NDArray[np.int64],
    sizes: NDArray[np.int64],
    kind: float,
    draws: tuple[float, float, float],
) -> None:
    """Change `out` int16 [N, H], equal to `before`, by a move toward `target`; nothing if they are equal."""
    u, v, w = draws
    count = len(tensors)
    q = _differing(before, target, tensors, int(u * count))
    if q < 0:
        return
    i, h = tensors[q, 0], tensors[q, 1]
    out[i, h] = target[i, h]
    if kind < ONE:
        return
    if kind < EXCHANGE:
        _exchange(before, target, out, tensors, sizes, q, (v, w))
    elif kind < TWO:
        r = _differing(before, target, tensors, int(v * count))
        out[tensors[r, 0], tensors[r, 1]] = target[tensors[r, 0], tensors[r, 1]]
    elif kind < RUN:
        for s in range(1, 1 + int(v * LONGEST)):
            r = (q + s) % count
            if w < 0.5 or tensors[r, 1] == h:
                out[tensors[r, 0], tensors[r, 1]] = target[tensors[r, 0], tensors[r, 1]]
    elif kind < ROOM:
        _make_room(before, target, out, tensors, q, (v, w))
    else:
        for r in range(count):
            j = tensors[r, 0]
            if tensors[r, 1] == h and sizes[j, h] == sizes[i, h] and before[j, h] == before[i, h]:
                out[j, h] = target[j, h]


@kernel
def propose(
    state: Mapping16,
    base: Mapping16,
    goal: Mapping16,
    out: Mapping16,
    space: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int16]],
    keys: Keys,
    step: int,
) -> None:
    """Fill `out` int16 [C, N, H] with what one move makes of each of the maps `state` int16 [C, N, H].

    Args:
        state: where the walks are.
        base, goal: int16 [N, H].
        out: see above.
        space: op and head of each tensor int64 [K, 2]; of each decision its bytes int64 [N, H] and its number of
            choices int16 [N, H].
        keys: uint64 [C]; the draws depend on them and the step's number alone.
        step: number of the step.
    """
    tensors, sizes, counts = space
    levels = counts.max()
    for c in range(len(state)):
        out[c] = state[c]
        draw = np.uint64(step) * np.uint64(DRAWS)
        kind = uniform(keys[c], draw)
        u = uniform(keys[c], draw + np.uint64(1))
        v = uniform(keys[c], draw + np.uint64(2))
        w = uniform(keys[c], draw + np.uint64(3))
        if kind < BACK:
            _toward(state[c], base, out[c], tensors, sizes, kind / BACK, (u, v, w))
        elif kind < FORTH:
            _toward(state[c], goal, out[c], tensors, sizes, (kind - BACK) / (FORTH - BACK), (u, v, w))
        else:
            move_in_order(state[c], out[c], tensors, levels, (kind - FORTH) / (1 - FORTH) * PAIR, (u, v, w))
        # Moves know one number of choices; a tensor that has fewer stays where it was.
        for i, h in tensors:
            if out[c, i, h] >= counts[i, h]:
                out[c, i, h] = state[c, i, h]


@kernel
def changes(mapping: Mapping16, base: Mapping16) -> int:
    """How many decisions of a map int16 [N, H] differ from the base."""
    count = 0
    for i in range(len(base)):
        for h in range(base.shape[1]):
            if mapping[i, h] != base[i, h]:
                count += 1
    return count


@kernel
def accept(
    walks: tuple[Mapping16, Floats, NDArray[np.int64]],
    proposed: tuple[Mapping16, Floats],
    base: Mapping16,
    limits: tuple[Floats, NDArray[np.int64], Floats],
    seen: tuple[Mapping16, Floats, NDArray[np.int64]],
    keys: Keys,
    step: int,
) -> None:
    """Take proposals of C walks by the Metropolis rule, and keep the fastest map of each number of changes.

    Args:
        walks: where they are: maps int16 [C, N, H], costs float64 [C], changes int64 [C].
        proposed: maps and costs; infinite for one that does not run.
        limits: what a change costs float64 [C], the most changes int64 [C], temperatures float64 [C].
        seen: of S slots maps int16 [S, N, H], costs float64 [S], changes int64 [S]; numbers of changes up to the most
            of all share them evenly.
    """
    state, cost, count = walks
    maps, costs = proposed
    penalty, most, hot = limits
    kept, kept_cost, kept_count = seen
    for c in range(len(state)):
        new = changes(maps[c], base)
        slot = new * (len(kept) - 1) // max(most.max(), 1)
        if slot < len(kept) and (
            costs[c] < kept_cost[slot] or (costs[c] == kept_cost[slot] and new < kept_count[slot])
        ):
            kept[slot], kept_cost[slot], kept_count[slot] = maps[c], costs[c], new
        if costs[c] == np.inf or (new > most[c] and new > count[c]):
            continue
        rise = costs[c] - cost[c] + penalty[c] * (new - count[c])
        chance = uniform(keys[c], np.uint64(step) * np.uint64(DRAWS) + np.uint64(CHANCE))
        if rise <= 0 or chance < math.exp(-rise / hot[c]):
            state[c], cost[c], count[c] = maps[c], costs[c], new
