"""A partition explained: bytes and times of each chip, the load of each link, and which of them is the slowest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.explanation import ChipUse, Partition
from hwsim.mcm.cost import Tables, busy
from hwsim.mcm.device import DeviceTables, run
from hwsim.mcm.network import Network
from hwsim.mcm.package import Package
from hwsim.stages import Pipeline, fullness


def partition(
    network: Network, device: DeviceTables, place: NDArray[np.int16], sram_bytes: int, on_device: bool
) -> Partition:
    """One partition int16 [N] on chips that exist, explained in the times of one of the two models."""
    t = network.tables
    ran = run(device, place[None])
    chip_s, link_s = (ran.chip_s[0], ran.link_s[0]) if on_device else busy(t, place)
    if t.transfers and not on_device:
        link_s = np.zeros(t.chips)
    carried = np.zeros(t.chips, np.int64)
    for k in range(len(t.source)):
        home = int(place[t.source[k]])
        hops = (place[t.reader[t.read_start[k] : t.read_start[k + 1]]].astype(np.int64) - home) % t.chips
        each = np.unique(hops) if on_device else [int(hops.max())]
        for far in each:
            carried[(home + np.arange(far)) % t.chips] += t.tensor_bytes[k]
    chip, link = int(chip_s.argmax()), int(link_s.argmax())
    by_chip = bool(chip_s[chip] >= link_s[link])
    return Partition(
        tuple(
            ChipUse(
                str(c),
                int((place == c).sum()),
                float(chip_s[c]),
                int(t.weight_bytes[place == c].sum()),
                int(ran.peak_bytes[0, c]),
                float(link_s[c]),
                int(carried[c]),
            )
            for c in range(t.chips)
        ),
        float(max(chip_s[chip], link_s[link])),
        f"chip {chip}" if by_chip else f"link {link} -> {(link + 1) % t.chips}",
        sram_bytes,
        int(ran.stages[0]),
    )


def pipeline_of(tables: Tables, package: Package, device: DeviceTables | None) -> Pipeline:
    """Seconds of computing of the nodes, and their edges; `device` where the device model judges, else None.

    With the triangle rule an edge may skip chips only if no other path leads over them.
    """
    sram_bytes = package.chip.sram_bytes if package.constraints.memory else 0
    return Pipeline(
        tables.compute_s,
        np.ascontiguousarray(tables.edges.T),
        tables.weight_bytes / sram_bytes if sram_bytes else None,
        1 if package.constraints.triangle else None,
        ChipGauge(tables, device, sram_bytes),
    )


@dataclass(frozen=True)
class ChipGauge:
    """The times and the bytes of chips (`Gauge` of hwsim/stages.py).

    With the analytical model by computing alone, whatever else its cost counts.

    Attributes:
        tables: of the analytical model.
        device: the device model's; None: the analytical model judges.
        sram_bytes: of a chip; 0 if memory is not limited.
    """

    tables: Tables
    device: DeviceTables | None
    sram_bytes: int

    def __call__(
        self, stage: NDArray[np.int16], stages: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Seconds [B, C] that each chip is busy, and the share [B, C] of its memory that it needs."""
        if self.device is None:
            busy = fullness(stage, self.tables.compute_s, stages)
            held = fullness(stage, self.tables.weight_bytes.astype(np.float64), stages)
        else:
            ran = run(self.device, stage)
            busy, held = ran.chip_s, ran.peak_bytes.astype(np.float64)
        return busy, held / self.sram_bytes if self.sram_bytes else None
