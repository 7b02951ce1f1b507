"""The cost of a placement, and the nearest placement that fits."""

from __future__ import annotations

import numpy as np

from egrl_edge.banks.tables import Floats, Ints, Tables
from hwsim.jit import kernel
from hwsim.problem import Mapping16

VERSION = 1
"""Goes up with every change that changes a cost."""


def costs(tables: Tables, mapping: Mapping16) -> Floats:
    """Seconds float64 [B] of placements int16 [B, N, 1]; places with -1 move nothing."""
    memory = mapping[:, :, 0]
    seconds = tables.moved_bytes * tables.inverse_bandwidth[memory] * (memory >= 0)
    total: Floats = tables.fixed_s + seconds.sum(axis=1)
    return total


@kernel
def _fits(tables: Tables, held: Ints, place: int, memory: int) -> bool:
    size = tables.size_bytes[place, memory]
    for step in range(tables.first[place], tables.last[place] + 1):
        if held[step, memory] + size > tables.capacity_bytes[memory]:
            return False
    return True


@kernel
def fit(tables: Tables, mapping: Mapping16) -> tuple[Mapping16, Ints]:
    """Placements that fit, int16 [B, N, 1], and the bytes that had to move, int64 [B]; -1 if a place finds no room.

    The largest place comes first. Each stays in its memory if there is room, else it goes to the next slower memory
    with room, else to the next faster one.
    A placement that fits comes back unchanged.
    """
    out = mapping.copy()
    moved = np.zeros(len(mapping), np.int64)
    levels = len(tables.capacity_bytes)
    for b in range(len(mapping)):
        held = tables.held_bytes.copy()
        for k in range(len(tables.order)):
            place = tables.order[k]
            wanted = mapping[b, place, 0]
            if wanted < 0:
                continue
            # Slower memories have smaller numbers.
            memory = wanted
            while memory >= 0 and not _fits(tables, held, place, memory):
                memory -= 1
            if memory < 0:
                memory = wanted + 1
                while memory < levels and not _fits(tables, held, place, memory):
                    memory += 1
            if memory == levels:
                moved[b] = -1
                break
            if memory != wanted:
                moved[b] += tables.size_bytes[place, wanted]
                out[b, place, 0] = memory
            # Places that come later see this one at all steps of its life (closed).
            held[tables.first[place] : tables.last[place] + 1, memory] += tables.size_bytes[place, memory]
    return out, moved


def moved_bytes(tables: Tables, mapping: Mapping16) -> Floats:
    """float64 [L], bytes that one placement int16 [N, 1] moves through each memory."""
    memory = mapping[:, 0]
    total = tables.fixed_bytes.copy()
    np.add.at(total, memory[memory >= 0], tables.moved_bytes[memory >= 0])
    return total
