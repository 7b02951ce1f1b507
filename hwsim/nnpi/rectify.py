"""The compiler's side of a mapping: make it one that the chip can hold.

Source: EGRL paper, section 3 and algorithm 1, lines 6 and 7: the compiler moves what cannot be placed, and
the share of moved bytes is the mapping error epsilon. How it moves them is not published.

Deviations (*assumptions*): ops are taken in execution order, each with its weight before its activation; a
tensor that does not fit goes to the next slower memory, and on, until it fits; nothing already placed moves
again.

A weight outside the slowest memory is pinned there during the whole inference; an activation is held from its
op to its last consumer (closed interval). While op i is placed, bytes live from earlier ops can only fall
later, so three numbers per memory decide: pinned bytes, live bytes now, and the peak of live bytes so far.

Where there are pins, tensors with a memory of their own come first, and those that lie together are one: they go to the
next slower memory until all of them fit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.nnpi.tables import Tables
from hwsim.problem import Mapping16


@kernel
def _first_that_fits(
    wanted: int, size: int, pinned: NDArray[np.int64], live: NDArray[np.int64], capacity: NDArray[np.int64]
) -> int:
    """The fastest memory from `wanted` downwards with room for `size` bytes beside those pinned and live, each [L].

    Memory 0 takes everything: the tables are only built where it can.
    """
    m = wanted
    while m > 0 and pinned[m] + live[m] + size > capacity[m]:
        m -= 1
    return m


@kernel
def _put(
    tables: Tables,
    unit: tuple[int, int],
    m: int,
    used: NDArray[np.int64],
    pinned: NDArray[np.int64],
    peak: NDArray[np.int64],
) -> bool:
    """Put the tensors unit[0] .. unit[1] - 1 of the order of units into memory m, if it has room for all of them.

    `used` int64 [L, N] are bytes of activations in each step, `peak` int64 [L] their most, `pinned` int64 [L] bytes of
    weights; they follow.
    """
    before, weights, fits = peak[m], pinned[m], True
    end = unit[0]
    while end < unit[1] and fits:
        op = tables.unit_op[end]
        if tables.unit_head[end] == 0:
            size = tables.weight_bytes[op]
            fits = m == 0 or pinned[m] + peak[m] + size <= tables.capacity_bytes[m]
            pinned[m] += size
        else:
            size = tables.activation_bytes[op]
            most = used[m, op : tables.last_use[op] + 1].max()
            fits = m == 0 or pinned[m] + most + size <= tables.capacity_bytes[m]
            used[m, op : tables.last_use[op] + 1] += size
            peak[m] = max(peak[m], most + size)
        end += 1
    if not fits:  # all of them leave again
        for k in range(unit[0], end):
            op = tables.unit_op[k]
            if tables.unit_head[k] == 1:
                used[m, op : tables.last_use[op] + 1] -= tables.activation_bytes[op]
        peak[m], pinned[m] = before, weights
    return fits


@kernel
def _rectify_units(tables: Tables, mapping: Mapping16) -> tuple[Mapping16, NDArray[np.int64]]:
    """`rectify` where there are pins: unit by unit, each into the fastest memory from the wanted one downwards with
    room for all of it. Those that are pinned to a memory come first, and always have room there."""
    levels, ops = len(tables.capacity_bytes), mapping.shape[1]
    out = mapping.copy()
    moved = np.zeros(len(mapping), np.int64)
    used = np.zeros((levels, ops), np.int64)
    pinned, peak = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
    for b in range(len(mapping)):
        used[:] = 0
        pinned[:] = 0
        peak[:] = 0
        for u in range(len(tables.unit_memory)):
            first, last = tables.unit_start[u], tables.unit_start[u + 1]
            wanted = tables.unit_memory[u]
            if wanted < 0:
                wanted = np.int64(out[b, tables.unit_op[first], tables.unit_head[first]])
            m = wanted
            while not _put(tables, (first, last), m, used, pinned, peak):
                m -= 1
            for k in range(first, last):
                op, head = tables.unit_op[k], tables.unit_head[k]
                out[b, op, head] = m
                if m != wanted:
                    moved[b] += tables.weight_bytes[op] if head == 0 else tables.activation_bytes[op]
    return out, moved


@kernel
def rectify(tables: Tables, mapping: Mapping16) -> tuple[Mapping16, NDArray[np.int64]]:
    """The maps that run, int16 [B, N, 2], and the bytes that had to move, int64 [B].

    `mapping` is int16 [B, N, 2], canonical and in range. A map that fits comes back unchanged. Pins are kept.
    """
    if len(tables.unit_op) > 0:
        return _rectify_units(tables, mapping)
    weight_bytes, activation_bytes = tables.weight_bytes, tables.activation_bytes
    capacity = tables.capacity_bytes
    levels = len(capacity)
    out = mapping.copy()
    moved = np.zeros(len(mapping), np.int64)
    pinned = np.zeros(levels, np.int64)
    live = np.zeros(levels, np.int64)
    peak = np.zeros(levels, np.int64)
    for b in range(len(mapping)):
        pinned[:] = 0
        live[:] = 0
        peak[:] = 0
        for i in range(mapping.shape[1]):
            weight = weight_bytes[i]
            if weight > 0:
                # A weight is there at every step, so also at the fullest one so far.
                m = _first_that_fits(out[b, i, 0], weight, pinned, peak, capacity)
                pinned[m] += weight
                if m != out[b, i, 0]:
                    moved[b] += weight
                    out[b, i, 0] = m
            activation = activation_bytes[i]
            if activation > 0:
                # An activation begins now: earlier, fuller steps do not matter to it.
                m = _first_that_fits(out[b, i, 1], activation, pinned, live, capacity)
                live[m] += activation
                peak[m] = max(peak[m], live[m])
                if m != out[b, i, 1]:
                    moved[b] += activation
                    out[b, i, 1] = m
            # After the placement, since an op's inputs and output are live at the same time.
            for k in range(tables.free_start[i], tables.free_start[i + 1]):
                dead = tables.free_op[k]
                live[out[b, dead, 1]] -= activation_bytes[dead]
    return out, moved


def epsilon(tables: Tables, moved_bytes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of the mapped bytes that had to move, float64 [B] in 0..1 (closed)."""
    total = int(tables.weight_bytes.sum() + tables.activation_bytes.sum())
    return moved_bytes / max(total, 1)
