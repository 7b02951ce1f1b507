"""A board with queues: banks that serve one request after the other, and writes that nobody waits for.

Nothing here is a roofline. Time is absolute: each bank of each memory is busy until some instant, and a request
begins when its bank is free. A tensor is striped over some banks of its memory, from a bank that its address decides,
so that tensors meet in banks. An op asks for its inputs and its weight, computes as they come, and posts its output,
which the next op may have to wait behind. A prefetcher of its own asks for the weights of the next ops that lie in
DRAM, as long as its small buffer has room; it competes with everybody else in the banks of DRAM.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from benchmarks.foreign.network import Floats, Ints, Network

BANKS = (4, 8, 16)
STRIPE = 65_536.0
"""Bytes of a tensor on one bank before it goes on to the next one."""


class Queues(NamedTuple):
    """The constants of one board, all drawn from its seed."""

    bank_Bps: Floats
    latency_s: Floats
    compute_s: Floats
    start_s: float
    eager: float
    window: int
    buffer_bytes: float
    first_bank: Ints


def draw(network: Network, seed: int) -> Queues:
    """A board of the kind: bandwidths, latencies, rates of each kind of op, and how far its prefetcher looks."""
    rng = np.random.default_rng([seed, 1])
    total = np.array([67e9, 680e9, 6.8e12]) * np.exp(rng.uniform(-0.4, 0.4, 3))
    rate = 35e12 * np.exp(rng.normal(0.0, 0.3, len(network.kinds)))
    vector = 0.6e12 * np.exp(rng.normal(0.0, 0.3, len(network.kinds)))
    compute = network.macs / rate[network.kind] + network.vectors / vector[network.kind]
    return Queues(
        bank_Bps=total / np.array(BANKS),
        latency_s=np.array([350e-9, 90e-9, 25e-9]) * np.exp(rng.normal(0.0, 0.25, 3)),
        compute_s=compute * np.exp(rng.normal(0.0, 0.1, len(compute))),
        start_s=0.4e-6 * np.exp(rng.normal(0.0, 0.3)),
        eager=rng.uniform(0.15, 0.6),
        window=int(rng.integers(2, 6)),
        buffer_bytes=float(rng.choice([1, 2, 3])) * 2**20,
        first_bank=rng.integers(0, 1 << 20, 2 * len(compute)),
    )


@numba.njit(cache=True)
def _serve(busy, memory, banks, first, size, now, bank_Bps, latency_s):  # type: ignore[no-untyped-def]
    """Ask for `size` bytes at `now`; when the last of its banks has served them."""
    width = min(banks, max(1, int(np.ceil(size / STRIPE))))
    done = now
    for k in range(width):
        bank = (first + k) % banks
        begins = max(busy[memory, bank], now)
        busy[memory, bank] = begins + latency_s[memory] + size / width / bank_Bps[memory]
        done = max(done, busy[memory, bank])
    return done


@numba.njit(cache=True)
def _run(board, net, banks, place, took):  # type: ignore[no-untyped-def]
    busy = np.zeros((3, 16))
    arrived = np.full(len(place), -1.0)
    fetched = 0.0
    ahead = 0
    now = 0.0
    for i in range(len(place)):
        begins = now + board.start_s
        # What the op needs, asked for at once.
        ready = begins
        first_word = begins
        for e in range(net.start[i], net.start[i + 1]):
            j = net.source[e]
            m = place[j, 1]
            if m < 0 or net.read[e] <= 0:
                continue
            done = _serve(
                busy,
                m,
                banks[m],
                board.first_bank[2 * j + 1],
                net.read[e],
                begins,
                board.bank_Bps,
                board.latency_s,
            )
            ready = max(ready, done)
            first_word = max(first_word, begins + board.eager * (done - begins))
        m = place[i, 0]
        if m >= 0 and net.gathered[i] > 0:
            if arrived[i] >= 0.0:
                done = max(arrived[i], begins)
                fetched -= net.weight[i]
            else:
                done = _serve(
                    busy,
                    m,
                    banks[m],
                    board.first_bank[2 * i],
                    net.gathered[i],
                    begins,
                    board.bank_Bps,
                    board.latency_s,
                )
            ready = max(ready, done)
            first_word = max(first_word, begins + board.eager * (done - begins))
        # The prefetcher: weights of the next ops in DRAM, in order, while its buffer has room.
        ahead = max(ahead, i + 1)
        while ahead < len(place) and ahead <= i + board.window:
            if place[ahead, 0] == 0 and net.gathered[ahead] >= net.weight[ahead] > 0:
                if fetched + net.weight[ahead] > board.buffer_bytes:
                    break
                fetched += net.weight[ahead]
                arrived[ahead] = _serve(
                    busy,
                    0,
                    banks[0],
                    board.first_bank[2 * ahead],
                    net.weight[ahead],
                    begins,
                    board.bank_Bps,
                    board.latency_s,
                )
            ahead += 1
        before, now = now, max(ready, first_word + board.compute_s[i])
        took[i] = now - before
        m = place[i, 1]
        if m >= 0 and net.output[i] > 0:
            _serve(
                busy,
                m,
                banks[m],
                board.first_bank[2 * i + 1],
                net.output[i],
                now,
                board.bank_Bps,
                board.latency_s,
            )
    return now


class Net(NamedTuple):
    """The arrays of a network that the compiled code reads."""

    weight: Floats
    gathered: Floats
    output: Floats
    start: Ints
    source: Ints
    read: Floats


def op_seconds(network: Network, board: Queues, place: np.ndarray) -> Floats:
    """Noise-free seconds of each op, float64 [N], waiting included; `place` int [N, 2]: memory of weight and of
    activation, -1 = none.
    """
    net = Net(network.weight, network.gathered, network.output, network.start, network.source, network.read)
    took = np.empty(len(place))
    _run(board, net, np.array(BANKS), place, took)
    return took
