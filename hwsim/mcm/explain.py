"""A partition explained: bytes and times of each chip, the load of each link, and which of them is the slowest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.explanation import ChipUse, Partition
from hwsim.mcm.cost import busy
from hwsim.mcm.device import DeviceTables, run
from hwsim.mcm.network import Network


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
