"""Which tensor lies where during which ops: what an address can be given to.

Source: the liveness that `hwsim/nnpi/rectify.py` places by: a weight is held during the whole inference, an
activation from its op to its last consumer (closed).

Deviations: none from `hwsim/nnpi/occupancy.py`, whose bytes are the sums over these tensors.
"""

from __future__ import annotations

from hwsim.capabilities import Lifetime
from hwsim.nnpi.tables import Tables
from hwsim.problem import Mapping16


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
