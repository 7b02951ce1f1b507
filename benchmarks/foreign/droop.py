"""A board that slows itself down: its clock droops with heat, its last-level cache with its fill.

SRAM is one bank: tensors of one op that lie there together take turns. The bandwidth of the LLC falls as it
fills. What goes to DRAM passes a FIFO that drains while later ops run; an op that reads from DRAM waits until the FIFO
is half empty, and one that finds it full waits for room. The clock of the engines falls with a temperature that
follows what they did.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from benchmarks.foreign.network import Floats, Ints, Network


class Droop(NamedTuple):
    """The constants of one board, all drawn from its seed."""

    rate_Bps: Floats
    llc_bytes: float
    fill_loss: float
    turn: float
    fifo_bytes: float
    compute_s: Floats
    heat_s: float
    droop: float
    start_s: float


def draw(network: Network, seed: int) -> Droop:
    """A board of the kind."""
    rng = np.random.default_rng([seed, 2])
    rate = 35e12 * np.exp(rng.normal(0.0, 0.3, len(network.kinds)))
    vector = 0.6e12 * np.exp(rng.normal(0.0, 0.3, len(network.kinds)))
    compute = network.macs / rate[network.kind] + network.vectors / vector[network.kind]
    return Droop(
        rate_Bps=np.array([67e9, 680e9, 6.8e12]) * np.exp(rng.uniform(-0.4, 0.4, 3)),
        llc_bytes=24.0 * 2**20,
        fill_loss=rng.uniform(0.3, 0.7),
        turn=rng.uniform(0.3, 0.8),
        fifo_bytes=rng.uniform(0.2, 1.0) * 2**20,
        compute_s=compute * np.exp(rng.normal(0.0, 0.1, len(compute))),
        heat_s=rng.uniform(20e-6, 80e-6),
        droop=rng.uniform(0.1, 0.35),
        start_s=0.4e-6 * np.exp(rng.normal(0.0, 0.3)),
    )


@numba.njit(cache=True)
def _run(board, net, place, op_s):  # type: ignore[no-untyped-def]
    n = len(place)
    pinned = 0.0
    for i in range(n):
        if place[i, 0] == 1:
            pinned += net.weight[i]
    live, heat, fifo, total = 0.0, 0.0, 0.0, 0.0
    moved = np.zeros(3)
    written = np.zeros(3)
    for i in range(n):
        if place[i, 1] == 1:
            live += net.output[i]
        moved[:] = 0.0
        written[:] = 0.0
        guests = 0
        for e in range(net.start[i], net.start[i + 1]):
            m = place[net.source[e], 1]
            if m >= 0:
                moved[m] += net.read[e]
                guests += m == 2
        m = place[i, 0]
        if m >= 0:
            moved[m] += net.gathered[i]
            guests += m == 2
        m = place[i, 1]
        if m >= 0:
            written[m] += net.output[i]
            guests += m == 2
        fill = min(1.0, (pinned + live) / board.llc_bytes)
        llc_Bps = board.rate_Bps[1] * (1.0 - board.fill_loss * fill * fill)
        sram_s = (moved[2] + written[2]) / board.rate_Bps[2] * (1.0 + board.turn * max(0, guests - 1))
        llc_s = (moved[1] + written[1]) / llc_Bps
        # Reads from DRAM wait for the FIFO of writes; writes for room in it.
        wait = 0.0
        if moved[0] > 0.0:
            wait += max(0.0, fifo - 0.5 * board.fifo_bytes) / board.rate_Bps[0]
            fifo = min(fifo, 0.5 * board.fifo_bytes)
        fifo += written[0]
        if fifo > board.fifo_bytes:
            wait += (fifo - board.fifo_bytes) / board.rate_Bps[0]
            fifo = board.fifo_bytes
        dram_s = wait + moved[0] / board.rate_Bps[0]
        work_s = board.compute_s[i] * (1.0 + board.droop * heat)
        took = board.start_s + max(work_s, dram_s + 0.5 * llc_s, llc_s) + 0.5 * min(sram_s, work_s)
        took += max(0.0, sram_s - work_s)
        idle = max(0.0, took - moved[0] / board.rate_Bps[0] - wait)
        fifo = max(0.0, fifo - idle * board.rate_Bps[0])
        fade = np.exp(-took / board.heat_s)
        heat = heat * fade + (1.0 - fade) * min(1.0, work_s / took)
        op_s[i] = took
        total += took
        for k in range(net.dead_start[i], net.dead_start[i + 1]):
            j = net.dead[k]
            if place[j, 1] == 1:
                live -= net.output[j]
    return total


class Net(NamedTuple):
    """The arrays of a network that the compiled code reads; `dead[dead_start[i]:dead_start[i + 1]]` die with op i."""

    weight: Floats
    gathered: Floats
    output: Floats
    start: Ints
    source: Ints
    read: Floats
    dead_start: Ints
    dead: Ints


def op_seconds(network: Network, board: Droop, place: np.ndarray) -> Floats:
    """Noise-free seconds of each op, float64 [N]; `place` int [N, 2]: memory of weight and of activation, -1 = none."""
    order = np.argsort(network.last, kind="stable")
    starts = np.searchsorted(network.last[order], np.arange(len(order) + 1))
    net = Net(
        network.weight,
        network.gathered,
        network.output,
        network.start,
        network.source,
        network.read,
        starts.astype(np.int64),
        order.astype(np.int64),
    )
    took = np.empty(len(place))
    _run(board, net, place, took)
    return took
