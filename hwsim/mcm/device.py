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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
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


def run(d: DeviceTables, places: NDArray[np.int16]) -> DeviceRun:
    """What partitions int16 [B, N] on chips that exist do on the device."""
    chip_s, link_s, peak, stages = _run(d, np.ascontiguousarray(places))
    cost = np.maximum(chip_s.max(axis=1, initial=0), link_s.max(axis=1, initial=0))
    excess = (
        np.maximum(peak - d.capacity, 0).sum(axis=1) if d.capacity >= 0 else np.zeros(len(peak), np.int64)
    )
    return DeviceRun(chip_s, link_s, peak, stages, cost, excess)


@kernel
def _run(
    d: DeviceTables, places: NDArray[np.int16]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    batch = len(places)
    chip_s, link_s = np.zeros((batch, d.chips)), np.zeros((batch, d.chips))
    peak, stages = np.zeros((batch, d.chips), np.int64), np.zeros(batch, np.int64)
    for b in range(batch):
        stage = _stages(d, places[b])
        stages[b] = stage.max() + 1
        _times(d, places[b], chip_s[b], link_s[b])
        _memory(d, places[b], stage, peak[b])
    return chip_s, link_s, peak, stages


@kernel
def _stages(d: DeviceTables, place: NDArray[np.int16]) -> NDArray[np.int64]:
    """The stage of each node, int64 [N]."""
    stage = np.zeros(len(place), np.int64)
    alone = np.ones(len(place), np.bool_)
    for v in d.order:
        for at in range(d.in_start[v], d.in_start[v + 1]):
            u = d.source[d.taken[at]]
            stage[v] = max(stage[v], stage[u] + (1 if place[u] != place[v] else 0))
            alone[v] = alone[v] and alone[u] and place[u] == place[v]
    for u in d.order[::-1]:
        if not alone[u]:
            continue
        latest = np.int64(-1)
        for own in range(d.own_start[u], d.own_start[u + 1]):
            k = d.own[own]
            for at in range(d.read_start[k], d.read_start[k + 1]):
                v = d.reader[at]
                allowed = stage[v] - (1 if place[u] != place[v] else 0)
                latest = allowed if latest < 0 else min(latest, allowed)
        stage[u] = max(stage[u], latest)
    return stage


@kernel
def _times(
    d: DeviceTables, place: NDArray[np.int16], chip_s: NDArray[np.float64], link_s: NDArray[np.float64]
) -> None:
    """Add the busy times of chips [C] and links [C]."""
    for n in range(len(place)):
        chip_s[place[n]] += d.run_s[n]
    seen = np.full(d.chips, -1, np.int64)
    for k in range(len(d.source)):
        home = int(place[d.source[k]])
        moving_s = d.tensor_s[k] if d.transfers else d.tensor_bytes[k] / d.sram_Bps
        for at in range(d.read_start[k], d.read_start[k + 1]):
            chip = int(place[d.reader[at]])
            if chip == home or seen[chip] == k:
                continue
            seen[chip] = k
            chip_s[home] += moving_s
            chip_s[chip] += moving_s
            for hop in range((chip - home) % d.chips):
                link_s[(home + hop) % d.chips] += d.tensor_s[k] + d.hop_s


@kernel
def _memory(
    d: DeviceTables, place: NDArray[np.int16], stage: NDArray[np.int64], peak: NDArray[np.int64]
) -> None:
    """The most that each chip holds, int64 [C], in `peak`."""
    count, tensors = len(place), len(d.source)
    base, live = np.zeros(d.chips, np.int64), np.zeros(d.chips, np.int64)
    kept = np.zeros(tensors, np.bool_)
    left = np.zeros(tensors, np.int64)
    last = np.full(d.chips, -1, np.int64)
    for n in range(count):
        base[place[n]] += d.weight_bytes[n]
    for k in range(tensors):
        u = d.source[k]
        home, size = place[u], d.tensor_bytes[k]
        for at in range(d.read_start[k], d.read_start[k + 1]):
            v = d.reader[at]
            last[place[v]] = max(last[place[v]], stage[v])
            left[k] += place[v] == home and stage[v] == stage[u]
        sent = False
        for at in range(d.read_start[k], d.read_start[k + 1]):
            chip = place[d.reader[at]]
            if last[chip] < 0:
                continue
            stay = last[chip] - stage[u]
            if chip != home:
                base[chip] += size * (stay + 1)
                sent = True
            elif stay > 0:
                base[chip] += size * stay
                kept[k] = True
            last[chip] = -1
        if sent:
            base[home] += size
            kept[k] = True
    waits = np.zeros(count, np.int64)
    for v in range(count):
        for at in range(d.in_start[v], d.in_start[v + 1]):
            u = d.source[d.taken[at]]
            waits[v] += place[u] == place[v] and stage[u] == stage[v]
    peak[:] = base
    start = np.zeros(d.chips + 1, np.int64)
    for n in range(count):
        start[place[n] + 1] += 1
    for chip in range(d.chips):
        start[chip + 1] += start[chip]
    mine, fill = np.empty(count, np.int64), start[:-1].copy()
    for n in range(count):
        mine[fill[place[n]]] = n
        fill[place[n]] += 1
    done = np.zeros(count, np.bool_)
    for chip in range(d.chips):
        for _ in range(start[chip + 1] - start[chip]):
            best, least = -1, 0
            for at in range(start[chip], start[chip + 1]):
                v = mine[at]
                if not done[v] and waits[v] == 0:
                    more = _growth(d, place, stage, kept, left, v)
                    if best < 0 or more < least:
                        best, least = v, more
            done[best] = True
            peak[chip] = max(peak[chip], base[chip] + live[chip] + d.made_bytes[best])
            live[chip] += least
            _ran(d, place, stage, left, waits, best)


@kernel
def _growth(
    d: DeviceTables,
    place: NDArray[np.int16],
    stage: NDArray[np.int64],
    kept: NDArray[np.bool_],
    left: NDArray[np.int64],
    v: int,
) -> int:
    """Bytes that its chip holds more after node v than before."""
    more = 0
    for at in range(d.own_start[v], d.own_start[v + 1]):
        k = d.own[at]
        if kept[k] or left[k] > 0:
            more += int(d.tensor_bytes[k])
    for at in range(d.in_start[v], d.in_start[v + 1]):
        k = d.taken[at]
        u = d.source[k]
        if place[u] == place[v] and stage[u] == stage[v] and not kept[k] and left[k] == 1:
            more -= int(d.tensor_bytes[k])
    return more


@kernel
def _ran(
    d: DeviceTables,
    place: NDArray[np.int16],
    stage: NDArray[np.int64],
    left: NDArray[np.int64],
    waits: NDArray[np.int64],
    u: int,
) -> None:
    """Node u has run: what it read has one reader less to wait for, its readers one input."""
    for at in range(d.in_start[u], d.in_start[u + 1]):
        k = d.taken[at]
        s = d.source[k]
        if place[s] == place[u] and stage[s] == stage[u]:
            left[k] -= 1
    for at in range(d.own_start[u], d.own_start[u + 1]):
        k = d.own[at]
        for to in range(d.read_start[k], d.read_start[k + 1]):
            v = d.reader[to]
            if place[v] == place[u] and stage[v] == stage[u]:
                waits[v] -= 1
