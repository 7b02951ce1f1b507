"""The memory of the device model: the order in which each chip runs its nodes, and the most bytes that it then holds.

Rules 2 and 3 of `hwsim/mcm/device.py`. Kernels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.device_tables import DeviceTables


@kernel
def find_peaks(
    tables: DeviceTables, place: NDArray[np.int16], stage: NDArray[np.int64], peak: NDArray[np.int64]
) -> None:
    """Write the most bytes that each chip holds, int64 [C], to `peak`."""
    # base: bytes that a chip holds all the time. kept: tensors that base counts until the end of a period. left: their
    # readers on the same chip and in the same stage that have not run.
    base = np.zeros(tables.chips, np.int64)
    kept, left = np.zeros(len(tables.source), np.bool_), np.zeros(len(tables.source), np.int64)
    for n in range(len(place)):
        base[place[n]] += tables.weight_bytes[n]
    _hold_tensors(tables, place, stage, base, kept, left)
    waits = _count_inputs(tables, place, stage)
    begin, nodes = _nodes_by_chip(place, tables.chips)
    done = np.zeros(len(place), np.bool_)
    peak[:] = base
    for chip in range(tables.chips):
        live = 0
        for _ in range(begin[chip], begin[chip + 1]):
            # Of the nodes that can run the one after which the chip holds the fewest bytes more; the first of equals.
            best, least = -1, 0
            for at in range(begin[chip], begin[chip + 1]):
                v = nodes[at]
                if not done[v] and waits[v] == 0:
                    more = _growth(tables, place, stage, kept, left, v)
                    if best < 0 or more < least:
                        best, least = v, more
            done[best] = True
            # While a node runs, what it reads is still held beside what it makes.
            peak[chip] = max(peak[chip], base[chip] + live + tables.made_bytes[best])
            live += least
            _finish(tables, place, stage, left, waits, best)


@kernel
def _hold_tensors(
    tables: DeviceTables,
    place: NDArray[np.int16],
    stage: NDArray[np.int64],
    base: NDArray[np.int64],
    kept: NDArray[np.bool_],
    left: NDArray[np.int64],
) -> None:
    """Add to `base` what chips hold of tensors beyond a stage; mark what is kept and count the readers left."""
    # The last stage in which a chip reads the tensor at hand; -1 again once the chip is accounted for.
    last = np.full(tables.chips, -1, np.int64)
    for k in range(len(tables.source)):
        u = tables.source[k]
        home, size = place[u], tables.tensor_bytes[k]
        for at in range(tables.read_start[k], tables.read_start[k + 1]):
            v = tables.reader[at]
            last[place[v]] = max(last[place[v]], stage[v])
            left[k] += place[v] == home and stage[v] == stage[u]
        sent = False
        for at in range(tables.read_start[k], tables.read_start[k + 1]):
            chip = place[tables.reader[at]]
            if last[chip] < 0:
                continue
            stay = last[chip] - stage[u]
            # Elsewhere: one that arrives, and one for each stage until the last reader's. At home: the latter alone.
            if chip != home:
                base[chip] += size * (stay + 1)
                sent = True
            elif stay > 0:
                base[chip] += size * stay
                kept[k] = True
            last[chip] = -1
        # One that is being sent, to however many chips.
        if sent:
            base[home] += size
            kept[k] = True


@kernel
def _count_inputs(
    tables: DeviceTables, place: NDArray[np.int16], stage: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Int64 [N]: how many tensors of its own chip and stage each node has to wait for."""
    waits = np.zeros(len(place), np.int64)
    for v in range(len(place)):
        for at in range(tables.in_start[v], tables.in_start[v + 1]):
            u = tables.source[tables.taken[at]]
            waits[v] += place[u] == place[v] and stage[u] == stage[v]
    return waits


@kernel
def _nodes_by_chip(place: NDArray[np.int16], chips: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The nodes of each chip, ascending, as rows: where they begin, int64 [C + 1], and int64 [N]."""
    # Counting sort: how many a chip has, where its row begins, then the nodes in their order.
    begin = np.zeros(chips + 1, np.int64)
    for n in range(len(place)):
        begin[place[n] + 1] += 1
    for chip in range(chips):
        begin[chip + 1] += begin[chip]
    nodes, fill = np.empty(len(place), np.int64), begin[:-1].copy()
    for n in range(len(place)):
        nodes[fill[place[n]]] = n
        fill[place[n]] += 1
    return begin, nodes


@kernel
def _growth(
    tables: DeviceTables,
    place: NDArray[np.int16],
    stage: NDArray[np.int64],
    kept: NDArray[np.bool_],
    left: NDArray[np.int64],
    v: int,
) -> int:
    """Bytes that its chip holds more after node v than before."""
    # What it makes is held if a later node of the stage reads it, or beyond the stage.
    more = 0
    for at in range(tables.own_start[v], tables.own_start[v + 1]):
        k = tables.own[at]
        if kept[k] or left[k] > 0:
            more += int(tables.tensor_bytes[k])
    # What it reads of its own stage and chip is given up if it is the last to read it.
    for at in range(tables.in_start[v], tables.in_start[v + 1]):
        k = tables.taken[at]
        u = tables.source[k]
        if place[u] == place[v] and stage[u] == stage[v] and not kept[k] and left[k] == 1:
            more -= int(tables.tensor_bytes[k])
    return more


@kernel
def _finish(
    tables: DeviceTables,
    place: NDArray[np.int16],
    stage: NDArray[np.int64],
    left: NDArray[np.int64],
    waits: NDArray[np.int64],
    u: int,
) -> None:
    """Note that node u has run: what it read waits for one reader less, and its readers for one input less."""
    # Only readers and sources of the same chip and stage: the others are met as messages, not in the chip's own order.
    for at in range(tables.in_start[u], tables.in_start[u + 1]):
        k = tables.taken[at]
        s = tables.source[k]
        if place[s] == place[u] and stage[s] == stage[u]:
            left[k] -= 1
    for at in range(tables.own_start[u], tables.own_start[u + 1]):
        k = tables.own[at]
        for to in range(tables.read_start[k], tables.read_start[k + 1]):
            v = tables.reader[to]
            if place[v] == place[u] and stage[v] == stage[u]:
                waits[v] -= 1
