"""What each memory holds while each op of an inference runs.

Source: the liveness that `hwsim/nnpi/rectify.py` places by: a weight is held during the whole inference, an
activation from its op to its last consumer (closed).

Deviations: what the DMA prefetches into free room is not counted, because the compiler does not place it; bytes are
only counted, so that fragmentation never makes a mapping fail.
"""

from __future__ import annotations

import numpy as np

from hwsim.capabilities import Occupancy
from hwsim.nnpi.tables import Tables
from hwsim.problem import Mapping16


def occupancy(tables: Tables, mapping: Mapping16, memories: tuple[str, ...]) -> Occupancy:
    """What L memories hold during N ops under one canonical mapping int16 [N, 2], as it stands: nothing is moved."""
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
