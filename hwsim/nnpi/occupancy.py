"""The content of each memory while each op of an inference runs, and the tensors that can be given an address.

Source: the liveness that `hwsim/nnpi/rectify.py` places by: a weight is held during the whole inference, an
activation from its op to its last consumer (closed). `occupancy` is the sum of the bytes of `lifetimes`.

Deviations: what the DMA prefetches into free room is not counted, because the compiler does not place it; bytes are
only counted, so that fragmentation never makes a mapping fail.
"""

from __future__ import annotations

import numpy as np

from hwsim.capabilities import Lifetime, Occupancy
from hwsim.nnpi.tables import Tables
from hwsim.problem import Mapping16


def occupancy(tables: Tables, mapping: Mapping16, memories: tuple[str, ...]) -> Occupancy:
    """The bytes in L memories during N ops under one canonical mapping int16 [N, 2], without repair."""
    ops = len(mapping)
    steps = np.arange(ops)
    change = np.zeros((ops + 1, len(memories), 2), np.int64)
    lives = (
        (tables.weight_bytes, np.zeros(ops, np.int64), np.full(ops, ops - 1)),
        (tables.activation_bytes, steps, tables.last_use),
    )
    for head, (size, first, last) in enumerate(lives):
        held = mapping[:, head] >= 0
        memory = mapping[held, head]
        np.add.at(change[:, :, head], (first[held], memory), size[held])
        np.add.at(change[:, :, head], (last[held] + 1, memory), -size[held])
    return Occupancy(memories, np.cumsum(change[:-1], axis=0), tables.capacity_bytes)


def lifetimes(
    tables: Tables, mapping: Mapping16, nodes: tuple[str, ...], heads: tuple[str, ...]
) -> list[Lifetime]:
    """The tensors of one canonical mapping int16 [N, 2] as it stands, by op, the weight before the activation."""
    weight, activation = heads
    end = len(nodes) - 1
    found = []
    for op, (node, (weight_memory, activation_memory)) in enumerate(
        zip(nodes, mapping.tolist(), strict=True)
    ):
        if weight_memory >= 0:
            found.append(Lifetime(node, weight, weight_memory, int(tables.weight_bytes[op]), 0, end))
        if activation_memory >= 0:
            size, last = int(tables.activation_bytes[op]), int(tables.last_use[op])
            found.append(Lifetime(node, activation, activation_memory, size, op, last))
    return found
