"""The cost of a partition on a simulated package: an order on every chip, its memory, messages on the ring.

Source: the MCM paper measures on hardware that nobody else has (sections 5.3 and 5.4) and names what an analytical
model misses: the order of operations that a later pass chooses, the peak memory that follows from it, traffic between
chips. This model has these three. It is deterministic; all of it is assumption:

1. *Stages.* The package is a pipeline. A new sample enters per period, and all periods are equally long. Sending a
   tensor to another chip takes one stage. So a node is in the first stage in which all its inputs have arrived. A node
   that depends on nothing from another chip (a broadcast bias, a mask) is in the last stage that its readers allow. In
   each period a chip runs each of its nodes once, on the sample that has reached the node's stage.
2. *Order.* On one chip, a node runs after the nodes of the same stage that it reads. Among the nodes that can run, the
   chip takes the one that adds the fewest bytes to what it holds; the first, if several are equal.
3. *Memory.* A chip holds, at any time,
   - the weights of its nodes;
   - of each tensor from another chip: the copy that is arriving, and one copy per stage from the stage of its maker to
     the stage of its last reader on this chip;
   - of each tensor that this chip makes and reads in later stages: one copy per such stage;
   - of each tensor that this chip sends: the copy that is being sent;
   - of each tensor made in this period: the tensor itself, from its node on until its last reader in the same stage
     has run; until the end of the period, if it is sent or read in later stages; only while its node runs, if nothing
     reads it.
   A partition that needs more than the SRAM of a chip does not run.
4. *Time.* A node takes its launch time, plus the longer of two times: computing, and moving its weights, inputs and
   output through the SRAM. If the time of a node was measured, the measured time counts instead. A tensor is sent to
   each reading chip in a message of its own (routers copy nothing). A message passes the links of its route one after
   another; each link is busy for the bytes at its rate, plus the latency of a hop. A chip is busy with a message while
   the bytes move through its SRAM; with `load = "compute+transfers"`, as long as the link is. The period is the busy
   time of the busiest chip or link.

A partition never costs less here than in the analytical model, so the bounds of that model hold here, too.
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
        capacity: bytes of a chip, or -1 if nothing limits them.
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


@kernel
def find_peaks(
    tables: DeviceTables, place: NDArray[np.int16], stage: NDArray[np.int64], peak: NDArray[np.int64]
) -> None:
    """Write the most bytes that each chip holds, int64 [C], to `peak`."""
    # base: bytes that a chip holds all the time. kept: tensors that base counts until the end of a period. left: their
    # readers on the same chip and in the same stage that have not run.
    base = np.zeros(tables.chips, np.int64)
    kept, left = np.zeros(len(tables.source), np.bool_), np.zeros(len(tables.source), np.int64)
    for n in range(len(place)):
        base[place[n]] += tables.weight_bytes[n]
    _hold_tensors(tables, place, stage, base, kept, left)
    waits = _count_inputs(tables, place, stage)
    begin, nodes = _nodes_by_chip(place, tables.chips)
    done = np.zeros(len(place), np.bool_)
    peak[:] = base
    for chip in range(tables.chips):
        live = 0
        for _ in range(begin[chip], begin[chip + 1]):
            # Of the nodes that can run the one after which the chip holds the fewest bytes more; the first of equals.
            best, least = -1, 0
            for at in range(begin[chip], begin[chip + 1]):
                v = nodes[at]
                if not done[v] and waits[v] == 0:
                    more = _growth(tables, place, stage, kept, left, v)
                    if best < 0 or more < least:
                        best, least = v, more
            done[best] = True
            # While a node runs, what it reads is still held beside what it makes.
            peak[chip] = max(peak[chip], base[chip] + live + tables.made_bytes[best])
            live += least
            _finish(tables, place, stage, left, waits, best)


@kernel
def _hold_tensors(
    tables: DeviceTables,
    place: NDArray[np.int16],
    stage: NDArray[np.int64],
    base: NDArray[np.int64],
    kept: NDArray[np.bool_],
    left: NDArray[np.int64],
) -> None:
    """Add to `base` what chips hold of tensors beyond a stage; mark what is kept and count the readers left."""
    # The last stage in which a chip reads the tensor at hand; -1 again once the chip is accounted for.
    last = np.full(tables.chips, -1, np.int64)
    for k in range(len(tables.source)):
        u = tables.source[k]
        home, size = place[u], tables.tensor_bytes[k]
        for at in range(tables.read_start[k], tables.read_start[k + 1]):
            v = tables.reader[at]
            last[place[v]] = max(last[place[v]], stage[v])
            left[k] += place[v] == home and stage[v] == stage[u]
        sent = False
        for at in range(tables.read_start[k], tables.read_start[k + 1]):
            chip = place[tables.reader[at]]
            if last[chip] < 0:
                continue
            stay = last[chip] - stage[u]
            # Elsewhere: one that arrives, and one for each stage until the last reader's. At home: the latter alone.
            if chip != home:
                base[chip] += size * (stay + 1)
                sent = True
            elif stay > 0:
                base[chip] += size * stay
                kept[k] = True
            last[chip] = -1
        # One that is being sent, to however many chips.
        if sent:
            base[home] += size
            kept[k] = True


@kernel
def _count_inputs(
    tables: DeviceTables, place: NDArray[np.int16], stage: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Int64 [N]: how many tensors of its own chip and stage each node has to wait for."""
    waits = np.zeros(len(place), np.int64)
    for v in range(len(place)):
        for at in range(tables.in_start[v], tables.in_start[v + 1]):
            u = tables.source[tables.taken[at]]
            waits[v] += place[u] == place[v] and stage[u] == stage[v]
    return waits


@kernel
def _nodes_by_chip(place: NDArray[np.int16], chips: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The nodes of each chip, ascending, as rows: where they begin, int64 [C + 1], and int64 [N]."""
    # Counting sort: how many a chip has, where its row begins, then the nodes in their order.
    begin = np.zeros(chips + 1, np.int64)
    for n in range(len(place)):
        begin[place[n] + 1] += 1
    for chip in range(chips):
        begin[chip + 1] += begin[chip]
    nodes, fill = np.empty(len(place), np.int64), begin[:-1].copy()
    for n in range(len(place)):
        nodes[fill[place[n]]] = n
        fill[place[n]] += 1
    return begin, nodes


@kernel
def _growth(
    tables: DeviceTables,
    place: NDArray[np.int16],
    stage: NDArray[np.int64],
    kept: NDArray[np.bool_],
    left: NDArray[np.int64],
    v: int,
) -> int:
    """Bytes that its chip holds more after node v than before."""
    # What it makes is held if a later node of the stage reads it, or beyond the stage.
    more = 0
    for at in range(tables.own_start[v], tables.own_start[v + 1]):
        k = tables.own[at]
        if kept[k] or left[k] > 0:
            more += int(tables.tensor_bytes[k])
    # What it reads of its own stage and chip is given up if it is the last to read it.
    for at in range(tables.in_start[v], tables.in_start[v + 1]):
        k = tables.taken[at]
        u = tables.source[k]
        if place[u] == place[v] and stage[u] == stage[v] and not kept[k] and left[k] == 1:
            more -= int(tables.tensor_bytes[k])
    return more


@kernel
def _finish(
    tables: DeviceTables,
    place: NDArray[np.int16],
    stage: NDArray[np.int64],
    left: NDArray[np.int64],
    waits: NDArray[np.int64],
    u: int,
) -> None:
    """Note that node u has run: what it read waits for one reader less, and its readers for one input less."""
    # Only readers and sources of the same chip and stage: the others are met as messages, not in the chip's own order.
    for at in range(tables.in_start[u], tables.in_start[u + 1]):
        k = tables.taken[at]
        s = tables.source[k]
        if place[s] == place[u] and stage[s] == stage[u]:
            left[k] -= 1
    for at in range(tables.own_start[u], tables.own_start[u + 1]):
        k = tables.own[at]
        for to in range(tables.read_start[k], tables.read_start[k + 1]):
            v = tables.reader[to]
            if place[v] == place[u] and stage[v] == stage[u]:
                waits[v] -= 1


@dataclass(frozen=True)
class DeviceRun:
    """Times and peaks of B partitions on the device; without acyclic rule and with it.

    Attributes:
        chip_s, link_s: float64 [B, C], busy seconds per sample.
        peak_bytes: int64 [B, C].
        stages: int64 [B].
        cost_s: float64 [B], the period.
        excess_bytes: int64 [B], what chips lack together; 0 if it runs.
    """

    chip_s: NDArray[np.float64]
    link_s: NDArray[np.float64]
    peak_bytes: NDArray[np.int64]
    stages: NDArray[np.int64]
    cost_s: NDArray[np.float64]
    excess_bytes: NDArray[np.int64]


def run(tables: DeviceTables, places: NDArray[np.int16]) -> DeviceRun:
    """Times and peaks of partitions int16 [B, N] on chips that exist."""
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
