"""Local search on a learned model of op times: 10^5 proposals per second at 400 ops.

Source: simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 1983) with geometric cooling.

Deviations: every proposal is repaired, as compilers do it, before its cost is predicted: nodes in order, each tensor
in the fastest memory from the wanted one downwards that has room. The moves are those of `hwsim.memory_moves`.

Only ops whose accesses or whose part of the bucket changed are computed again; the sum is over all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl.methods.profile_model.accesses import Accesses
from egrl.methods.profile_model.times import (
    Constants,
    fetched_bytes,
    held_by,
    op_seconds,
    wanted_bytes,
)
from hwsim.jit import inlined, kernel
from hwsim.memory_moves import Held, fill_free, is_taken, move
from hwsim.problem import Floats, Mapping16

COLD = 2e-6
"""The last temperature, a share of the cost."""
SECONDS, AHEAD, USED, WANTED = 0, 1, 2, 3
"""Rows of what is kept of every op."""


@kernel
def repair(accesses: Accesses, mapping: Mapping16, live: Floats, peak: Floats) -> None:
    """Move tensors of a mapping int16 [N, H] to slower memories, in place, until all fit; scratch float64 [L] each."""
    nodes, heads = accesses.tensor.shape
    live[:] = 0.0
    peak[:] = 0.0
    for i in range(nodes):
        for h in range(heads):
            m = mapping[i, h]
            if m < 0:
                continue
            size = accesses.tensor[i, h]
            always = accesses.first[i, h] == 0 and accesses.last[i, h] == nodes - 1
            # What is held always needs its bytes at the fullest step so far, too.
            while m > 0 and (peak[m] if always else live[m]) + size > accesses.capacity[m]:
                m -= 1
            mapping[i, h] = m
            live[m] += size
            if always:
                peak[m] += size
            else:
                peak[m] = max(peak[m], live[m])
        for e in range(accesses.end_start[i], accesses.end_start[i + 1]):
            j, h = accesses.end_node[e], accesses.end_head[e]
            live[mapping[j, h]] -= accesses.tensor[j, h]


@inlined
def _recost(
    accesses: Accesses,
    held: Held,
    constants: Constants,
    mapping: Mapping16,
    changed: NDArray[np.bool_],
    old: Floats,
    new: Floats,
    free: Floats,
    tau: Floats,
) -> float:
    """Seconds of all ops; `new` float64 [4, N] is filled from `old` where nothing changed.

    `changed` bool [N] marks ops whose accesses lie elsewhere. The loop is that of `times.predict`.
    """
    nodes = len(changed)
    if constants.into >= 0:
        fill_free(held, mapping, constants.into, free)
    later = 0.0
    for i in range(nodes):
        new[WANTED, i] = wanted_bytes(accesses, constants, mapping, i) if changed[i] else old[WANTED, i]
        later += new[WANTED, i]
    total, waiting = 0.0, 0.0
    for i in range(nodes):
        room = max(0.0, constants.room + constants.free_share * free[i])
        waiting = min(waiting, room)
        wanted = new[WANTED, i]
        used = min(waiting, wanted)
        new[USED, i] = used
        if changed[i] or used != old[USED, i]:
            new[SECONDS, i] = op_seconds(accesses, constants, mapping, i, used, wanted, tau)
            new[AHEAD, i] = fetched_bytes(constants, new[SECONDS, i], tau)
        else:
            new[SECONDS, i] = old[SECONDS, i]
            new[AHEAD, i] = old[AHEAD, i]
        total += new[SECONDS, i]
        later -= wanted
        waiting = max(0.0, min(waiting - used + new[AHEAD, i], min(room - used, later)))
    return total


@kernel
def _anneal(
    accesses: Accesses,
    constants: Constants,
    start: Mapping16,
    tensors: NDArray[np.int64],
    always: NDArray[np.int64],
    steps: int,
    hot: float,
    key: np.uint64,
) -> tuple[Mapping16, float]:
    nodes, heads = start.shape
    levels = len(accesses.capacity)
    live, peak, tau = np.zeros(levels), np.zeros(levels), np.zeros(2 * levels)
    free, rooms = np.zeros(nodes), np.zeros((levels, nodes))
    old, new = np.zeros((4, nodes)), np.zeros((4, nodes))
    changed = np.ones(nodes, np.bool_)
    held = held_by(accesses)
    current = start.copy()
    repair(accesses, current, live, peak)
    cost = _recost(accesses, held, constants, current, changed, old, new, free, tau)
    old, new = new, old
    best, best_cost, trial = current.copy(), cost, current.copy()
    for step in range(steps):
        trial[:] = current
        if not move(held, current, trial, tensors, always, rooms, key, step):
            continue
        repair(accesses, trial, live, peak)
        changed[:] = False
        same = True
        for i in range(nodes):
            for h in range(heads):
                if trial[i, h] != current[i, h]:
                    same = False
                    at = i * heads + h
                    for e in range(accesses.reader_start[at], accesses.reader_start[at + 1]):
                        changed[accesses.reader[e]] = True
        if same:
            continue
        found = _recost(accesses, held, constants, trial, changed, old, new, free, tau)
        if is_taken(cost, found, (hot, COLD), step, steps, key):
            cost = found
            current, trial = trial, current
            old, new = new, old
            if cost < best_cost:
                best_cost = cost
                best[:] = current
    return best, best_cost


def anneal(
    accesses: Accesses, constants: Constants, start: Mapping16, *, steps: int, hot: float, key: int
) -> tuple[Mapping16, float]:
    """The best mapping int16 [N, H] of so many steps from `start` [N, H], and its predicted seconds.

    `hot` is the first temperature, a share of the cost. Equal arguments give equal mappings.
    """
    nodes = len(accesses.output)
    tensors = np.argwhere(accesses.tensor > 0)
    at = tensors[:, 0], tensors[:, 1]
    always = tensors[(accesses.first[at] == 0) & (accesses.last[at] == nodes - 1)]
    found, cost = _anneal(
        accesses, constants, start.astype(np.int16), tensors, always, steps, hot, np.uint64(key)
    )
    return found, float(cost)
