"""The cost of a partition by the analytical model: seconds per sample in a pipeline with the chips as stages.

Source: MCM paper, section 5.1: the latencies of the nodes of a chip are added up, and the largest chip is the cost.
With `load = "compute+transfers"` it is the objective of "Efficient algorithms for device placement of DNN graph
operators" (NeurIPS 2020): a chip is also busy with each of its tensors that any other chip reads, once, and with each
tensor of another chip that it reads, once.

Deviations:
- With `load = "compute"` the links have busy times, too, and the slowest of chips and links is the cost; the paper
  names no links. A tensor passes a link once, and every chip on its way can take it.
- The ring closes from the last chip to the first; without the acyclic rule tensors may take that link.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel


class Tables(NamedTuple):
    """N nodes and T tensors (one per node that another node reads), C chips, as the kernels read them.

    Attributes:
        compute_s: float64 [N].
        size_bytes: int64 [N], at least 1: what a node holds and makes.
        weight_bytes: int64 [N].
        edges: int64 [E, 2], from the node that is read to its reader.
        source: int64 [T], the node that makes the tensor.
        read_start, reader: the nodes that read it are reader[read_start[t] : read_start[t + 1]], others than its
            source.
        tensor_s: float64 [T], seconds on a link.
        tensor_bytes: int64 [T].
        chips: C.
        transfers: 1 if the busy time of a chip counts transfers, else 0.
        acyclic, no_skip, triangle: which rules hold, 0 or 1.
        capacity: bytes of a chip, or -1 if memory is no rule.
    """

    compute_s: NDArray[np.float64]
    size_bytes: NDArray[np.int64]
    weight_bytes: NDArray[np.int64]
    edges: NDArray[np.int64]
    source: NDArray[np.int64]
    read_start: NDArray[np.int64]
    reader: NDArray[np.int64]
    tensor_s: NDArray[np.float64]
    tensor_bytes: NDArray[np.int64]
    chips: int
    transfers: int
    acyclic: int
    no_skip: int
    triangle: int
    capacity: int


def tensors_of(tables: Tables) -> list[tuple[int, int, list[int]]]:
    """Each tensor as the node that makes it, its bytes, and the nodes that read it."""
    readers = np.split(tables.reader, tables.read_start[1:-1]) if len(tables.source) else []
    return [
        (source, size, to.tolist())
        for source, size, to in zip(
            tables.source.tolist(), tables.tensor_bytes.tolist(), readers, strict=True
        )
    ]


@kernel
def _busy(
    tables: Tables, place: NDArray[np.int16], chip_s: NDArray[np.float64], link_s: NDArray[np.float64]
) -> None:
    """Add the busy times of one partition [N] to those of chips [C] and links [C]; link i leads from chip i on."""
    for n in range(len(place)):
        chip_s[place[n]] += tables.compute_s[n]
    # The tensor that a chip received last: however many of its nodes read a tensor, it receives that once.
    seen = np.full(tables.chips, -1, np.int64)
    for k in range(len(tables.source)):
        home, far = int(place[tables.source[k]]), 0
        for at in range(tables.read_start[k], tables.read_start[k + 1]):
            chip = int(place[tables.reader[at]])
            hops = (chip - home) % tables.chips
            if hops == 0 or seen[chip] == k:
                continue
            seen[chip] = k
            if tables.transfers:
                chip_s[chip] += tables.tensor_s[k]
                # Sent once, too: with the first chip that receives it.
                if far == 0:
                    chip_s[home] += tables.tensor_s[k]
            far = max(far, hops)
        # It passes each link up to the farthest reader once, and the chips on its way take it.
        for hop in range(far):
            link_s[(home + hop) % tables.chips] += tables.tensor_s[k]


@kernel
def _busy_of(tables: Tables, place: NDArray[np.int16]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Busy seconds of chips [C] and links [C]."""
    chip_s, link_s = np.zeros(tables.chips), np.zeros(tables.chips)
    _busy(tables, place, chip_s, link_s)
    return chip_s, link_s


@kernel
def _loads(tables: Tables, places: NDArray[np.int16]) -> NDArray[np.float64]:
    """Busy seconds float64 [B, 2 C] of chips, then of links; 0 for links if the chips' times hold the transfers."""
    out = np.zeros((len(places), 2 * tables.chips))
    for b in range(len(places)):
        _busy(tables, places[b], out[b, : tables.chips], out[b, tables.chips :])
        if tables.transfers:
            out[b, tables.chips :] = 0.0
    return out


def busy(tables: Tables, place: NDArray[np.int16]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds per sample that chips, float64 [C], and links, float64 [C], are busy under a partition int16 [N]."""
    found: tuple[NDArray[np.float64], NDArray[np.float64]] = _busy_of(tables, np.ascontiguousarray(place))
    return found


def costs(tables: Tables, places: NDArray[np.int16]) -> NDArray[np.float64]:
    """Seconds per sample, float64 [B], of partitions int16 [B, N] on chips that exist: the busiest chip or link."""
    return np.asarray(loads(tables, places).max(axis=1))


def loads(tables: Tables, places: NDArray[np.int16]) -> NDArray[np.float64]:
    """Seconds per sample, float64 [B, 2 C], that chips and then links are busy; the largest is the cost.

    A link has 0 if the times of chips hold the transfers.
    """
    found: NDArray[np.float64] = _loads(tables, np.ascontiguousarray(places))
    return found
