"""What a partition costs on a simulated package: an order on every chip, the memory that needs, messages on the ring.

Source: the MCM paper measures on hardware that nobody else has (sections 5.3 and 5.4) and names what an analytical
model misses: the order of operations that a later pass chooses, the peak memory that follows from it, traffic between
chips. This model has these three. It is deterministic; all of it is assumption:

1. *Stages.* Samples follow each other in periods of equal length, and a tensor takes a stage to get to another chip.
   A node belongs to the first stage that what it reads allows; one that depends on nothing from another chip (a bias
   that is spread, a mask) to the last that its readers allow. In a period a chip runs its nodes once, each for the
   sample that has got to its stage.
2. *Order.* Nodes of one stage on one chip run after those that they read. Of the nodes that can run, a chip takes the
   one after which it holds the fewest bytes more; of equal ones the first.
3. *Memory.* A chip holds the weights of its nodes; for a tensor from another chip one arriving and one for each stage
   from its maker's to its last reader's here; for a tensor read here in later stages one a stage; for a tensor that is
   sent one being sent; and in its order what is made until its last reader of the stage, until the end of the period
   where it is sent or read in later stages, and for the time of its node where nothing reads it. More than the SRAM:
   the partition does not run.
4. *Time.* A node takes its launch and the longer of its computing and of moving weights, inputs and output through the
   SRAM (measured times stand as they are). A tensor is sent to each chip that reads it, a message each (routers copy
   nothing), which passes every link on its way in turn and takes its bytes at the link's rate and a hop's latency of
   each. Chips are busy with messages as long as moving them through the SRAM takes; with `load = "compute+transfers"`
   as long as the link. The period is the busy time of the busiest chip or link.

It never costs less than the analytical model, whose bounds therefore hold for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.device_memory import find_peaks
from hwsim.mcm.device_tables import DeviceTables


@dataclass(frozen=True)
class DeviceRun:
    """What B partitions do on the device; without acyclic rule and with it.

    Attributes:
        chip_s, link_s: float64 [B, C], busy seconds a sample.
        peak_bytes: int64 [B, C].
        stages: int64 [B].
        cost_s: float64 [B], the period.
        excess_bytes: int64 [B], what chips lack together; 0 where it runs.
    """

    chip_s: NDArray[np.float64]
    link_s: NDArray[np.float64]
    peak_bytes: NDArray[np.int64]
    stages: NDArray[np.int64]
    cost_s: NDArray[np.float64]
    excess_bytes: NDArray[np.int64]


def run(tables: DeviceTables, places: NDArray[np.int16]) -> DeviceRun:
    """What partitions int16 [B, N] on chips that exist do on the device."""
    chip_s, link_s, peak, stages = _run(tables, np.ascontiguousarray(places))
    cost = np.maximum(chip_s.max(axis=1, initial=0), link_s.max(axis=1, initial=0))
    excess = (
        np.maximum(peak - tables.capacity, 0).sum(axis=1)
        if tables.capacity >= 0
        else np.zeros(len(peak), np.int64)
    )
    return DeviceRun(chip_s, link_s, peak, stages, cost, excess)


@kernel
def _run(
    tables: DeviceTables, places: NDArray[np.int16]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Busy seconds of chips and links [B, C], peak bytes [B, C] and stages [B] of partitions [B, N]."""
    batch = len(places)
    chip_s, link_s = np.zeros((batch, tables.chips)), np.zeros((batch, tables.chips))
    peak, stages = np.zeros((batch, tables.chips), np.int64), np.zeros(batch, np.int64)
    for b in range(batch):
        stage = _stages(tables, places[b])
        stages[b] = stage.max() + 1
        _times(tables, places[b], chip_s[b], link_s[b])
        find_peaks(tables, places[b], stage, peak[b])
    return chip_s, link_s, peak, stages


@kernel
def _stages(tables: DeviceTables, place: NDArray[np.int16]) -> NDArray[np.int64]:
    """The stage of each node, int64 [N]."""
    stage = np.zeros(len(place), np.int64)
    alone = np.ones(len(place), np.bool_)
    # As early as possible: a tensor takes a stage to another chip. `alone`: nothing of another chip is needed for it.
    for v in tables.order:
        for at in range(tables.in_start[v], tables.in_start[v + 1]):
            u = tables.source[tables.taken[at]]
            stage[v] = max(stage[v], stage[u] + (1 if place[u] != place[v] else 0))
            alone[v] = alone[v] and alone[u] and place[u] == place[v]
    # Those that are alone as late as their readers allow: readers first, so that theirs are final.
    for u in tables.order[::-1]:
        if not alone[u]:
            continue
        latest = np.int64(-1)
        for own in range(tables.own_start[u], tables.own_start[u + 1]):
            k = tables.own[own]
            for at in range(tables.read_start[k], tables.read_start[k + 1]):
                v = tables.reader[at]
                allowed = stage[v] - (1 if place[u] != place[v] else 0)
                latest = allowed if latest < 0 else min(latest, allowed)
        stage[u] = max(stage[u], latest)
    return stage


@kernel
def _times(
    tables: DeviceTables, place: NDArray[np.int16], chip_s: NDArray[np.float64], link_s: NDArray[np.float64]
) -> None:
    """Add the busy times of chips [C] and links [C]."""
    for n in range(len(place)):
        chip_s[place[n]] += tables.run_s[n]
    # The tensor that was sent to a chip last: each chip that reads a tensor gets it once.
    seen = np.full(tables.chips, -1, np.int64)
    for k in range(len(tables.source)):
        home = int(place[tables.source[k]])
        moving_s = tables.tensor_s[k] if tables.transfers else tables.tensor_bytes[k] / tables.sram_Bps
        for at in range(tables.read_start[k], tables.read_start[k + 1]):
            chip = int(place[tables.reader[at]])
            if chip == home or seen[chip] == k:
                continue
            seen[chip] = k
            chip_s[home] += moving_s
            chip_s[chip] += moving_s
            for hop in range((chip - home) % tables.chips):
                link_s[(home + hop) % tables.chips] += tables.tensor_s[k] + tables.hop_s
