"""What a partition makes of a package: what each chip holds and does, what each link carries, and which is the
slowest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.cost import busy
from hwsim.mcm.device import run
from hwsim.mcm.device_tables import DeviceTables
from hwsim.mcm.network import Network


@dataclass(frozen=True)
class ChipUse:
    """One chip and the link to the next.

    Attributes:
        name: the chip's number.
        nodes: how many it has.
        busy_s: seconds a sample that it is busy, by the model of the problem.
        weight_bytes: of its nodes.
        peak_bytes: the most that it holds on the device model.
        link_s: seconds a sample that the link to the next chip is busy; 0 where the chips' times hold the transfers.
        link_bytes: what passes that link a sample.
    """

    name: str
    nodes: int
    busy_s: float
    weight_bytes: int
    peak_bytes: int
    link_s: float
    link_bytes: int


@dataclass(frozen=True)
class Partition:
    """A partition on a package.

    Attributes:
        chips: each chip, used or not.
        cost_s: seconds a sample; `bottleneck` is what takes them ("chip 3", "link 3 -> 4").
        capacity_bytes: of a chip.
        stages: of the pipeline, as the device model has them.
    """

    chips: tuple[ChipUse, ...]
    cost_s: float
    bottleneck: str
    capacity_bytes: int
    stages: int


def explain(
    network: Network, device: DeviceTables, place: NDArray[np.int16], sram_bytes: int, on_device: bool
) -> Partition:
    """What one partition int16 [N] on chips that exist makes, in the times of the one or the other model."""
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
