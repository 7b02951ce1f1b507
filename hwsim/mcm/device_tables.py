"""What the device model (`hwsim/mcm/device.py`) reads of a network, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.network import Network
from hwsim.mcm.package import Package


class DeviceTables(NamedTuple):
    """N nodes, T tensors, C chips.

    Attributes:
        run_s: float64 [N], a node with its launch.
        made_bytes, weight_bytes: int64 [N].
        order: int64 [N], in which every edge points forward.
        source, read_start, reader, tensor_s, tensor_bytes: as `hwsim.mcm.cost.Tables` has them.
        own_start, own: the tensors of each node, [N + 1] and [T].
        in_start, taken: the tensors that each node reads, [N + 1] and [R].
        hop_s: seconds of a message on each link beside those of its bytes.
        sram_Bps: of a chip.
        chips, transfers: as in `Tables`.
        capacity: bytes of a chip, or -1 where nothing limits them.
    """

    run_s: NDArray[np.float64]
    made_bytes: NDArray[np.int64]
    weight_bytes: NDArray[np.int64]
    order: NDArray[np.int64]
    source: NDArray[np.int64]
    read_start: NDArray[np.int64]
    reader: NDArray[np.int64]
    tensor_s: NDArray[np.float64]
    tensor_bytes: NDArray[np.int64]
    own_start: NDArray[np.int64]
    own: NDArray[np.int64]
    in_start: NDArray[np.int64]
    taken: NDArray[np.int64]
    hop_s: float
    sram_Bps: float
    chips: int
    transfers: int
    capacity: int


def device_tables(network: Network, package: Package) -> DeviceTables:
    """The tables of a network, whose nodes stand in an order in which edges point forward."""
    t = network.tables
    nodes = np.arange(len(t.weight_bytes))
    readers = np.repeat(np.arange(len(t.source)), np.diff(t.read_start))
    return DeviceTables(
        run_s=network.run_s,
        made_bytes=network.made_bytes,
        weight_bytes=t.weight_bytes,
        order=nodes,
        source=t.source,
        read_start=t.read_start,
        reader=t.reader,
        tensor_s=t.tensor_s,
        tensor_bytes=t.tensor_bytes,
        own_start=np.searchsorted(np.sort(t.source), np.append(nodes, len(nodes))).astype(np.int64),
        own=np.argsort(t.source, kind="stable").astype(np.int64),
        in_start=np.searchsorted(np.sort(t.reader), np.append(nodes, len(nodes))).astype(np.int64),
        taken=readers[np.argsort(t.reader, kind="stable")].astype(np.int64),
        hop_s=package.link.hop_s,
        sram_Bps=package.device.sram_Bps,
        chips=t.chips,
        transfers=t.transfers,
        capacity=t.capacity,
    )
