"""The tensors of a workload that are placed: their sizes, when they are held, and how many bytes they move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.nnpi.tables import Ints, Tables

WEIGHT, ACTIVATION = 0, 1


@dataclass(frozen=True)
class Tensors:
    """The T tensors to place, int64 [T] each: WEIGHT or ACTIVATION (head) of an op, held in first..last (closed)."""

    op: Ints
    head: Ints
    size_bytes: Ints
    first: Ints
    last: Ints
    moved_bytes: Ints

    @property
    def density(self) -> NDArray[np.float64]:
        """Bytes moved per inference, for each byte held during one step, float64 [T]."""
        held = self.size_bytes.astype(np.float64) * (self.last - self.first + 1)
        return np.asarray(self.moved_bytes / held)


def tensors(tables: Tables) -> Tensors:
    """Every tensor that has a size, weights before activations of the same op."""
    ops = len(tables.weight_bytes)
    reads = np.zeros(ops, np.int64)
    np.add.at(reads, tables.edge_source, tables.edge_bytes)
    op, head = np.nonzero(np.stack([tables.weight_bytes, tables.activation_bytes], axis=1))
    is_weight = head == WEIGHT
    return Tensors(
        op,
        head,
        np.where(is_weight, tables.weight_bytes[op], tables.activation_bytes[op]),
        np.where(is_weight, 0, op),
        np.where(is_weight, ops - 1, tables.last_use[op]),
        np.where(is_weight, tables.weight_read_bytes[op], tables.written_bytes[op] + reads[op]),
    )
