"""Latency of one inference under a mapping: one roofline per op, and a DMA that works ahead.

Source: none is published for the NNP-I. The op model is the roofline (Williams, Waterman, Patterson, CACM
2009) over every memory of the chip; `docs/explanations/nnpi.md` has each equation and what is assumed.

The ops run one after the other. Op i takes

    t_i = launch + max(c_i, S_i) + serial * min(c_i, S_i)
    S_i = the busiest memory's s_im + shared * the sum of all others'
    s_im = bytes_im / bandwidth_m + transfers_im * access_m

with `serial`, `shared` and `access_m` 0 unless the chip file says otherwise: then the busiest of compute and memories.

Weights kept in the slowest memory form one stream in execution order. During op i a DMA goes on along this
stream with the bandwidth that op i leaves idle, and keeps what it fetched in the free part of the memory
`into`. What is buffered is therefore always one contiguous piece of the stream: two positions describe it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import normal
from hwsim.nnpi.tables import Tables
from hwsim.problem import Floats, Keys, Mapping16, Profiles

SIMULATOR_VERSION = 1
"""Goes up with every change that changes a cost."""


class Trace(NamedTuple):
    """A trace of each op of one mapping. Arrays that are not wanted have 0 rows: all but the first, or all.

    Attributes:
        duration_s: float64 [N].
        traffic_bytes: float64 [N, L], on each memory, crossing traffic included; whole if no factor is on traffic.
        transfers: int64 [N, L], tensors read from or written to each memory.
        prefetched_bytes: int64 [N], bytes of the op's weight that the DMA had fetched before it began.
        fetched_bytes: int64 [N], bytes that the DMA fetched while the op ran.
    """

    duration_s: Floats
    traffic_bytes: Floats
    transfers: NDArray[np.int64]
    prefetched_bytes: NDArray[np.int64]
    fetched_bytes: NDArray[np.int64]

    @staticmethod
    def empty(ops: int, memories: int) -> Trace:
        """Room for `ops` ops."""
        n = np.zeros
        whole = np.int64
        return Trace(n(ops), n((ops, memories)), n((ops, memories), whole), n(ops, whole), n(ops, whole))

    @staticmethod
    def of_times(ops: int, memories: int) -> Trace:
        """Room for the times of `ops` ops alone."""
        return Trace.empty(0, memories)._replace(duration_s=np.zeros(ops))


@kernel
def _allot(
    mapping: Mapping16, weight_bytes: NDArray[np.int64], passes: NDArray[np.int64], into: int, capacity: int
) -> tuple[int, int]:
    """Bytes of the memory `into` that no weight is pinned in, and bytes of the whole stream of weights."""
    free = capacity
    streamed = 0
    for i in range(len(mapping)):
        if mapping[i, 0] == into:
            free -= weight_bytes[i]
        # A weight that is never read whole is gathered from by rows, and the DMA cannot know which.
        elif mapping[i, 0] == 0 and passes[i] > 0:
            streamed += weight_bytes[i]
    return free, streamed


@kernel
def _busy_s(
    compute_s: float,
    traffic: Floats,
    transfers: NDArray[np.int64],
    inverse_bandwidth: Floats,
    access_s: Floats,
    waiting: tuple[float, float],
) -> float:
    """The roofline: seconds of the busiest among the compute units and the memories, and what waits for them.

    `waiting` is (serial, shared); where both are 0, what is added is exactly 0.
    """
    serial, shared = waiting
    longest_s, together_s = 0.0, 0.0
    for m in range(len(traffic)):
        stream_s = traffic[m] * inverse_bandwidth[m] + transfers[m] * access_s[m]
        longest_s = max(longest_s, stream_s)
        together_s += stream_s
    transfer_s = longest_s + shared * (together_s - longest_s)
    return max(compute_s, transfer_s) + serial * min(compute_s, transfer_s)


@kernel
def inference_seconds(
    tables: Tables, mapping: Mapping16, traffic: Floats, transfers: NDArray[np.int64], trace: Trace
) -> float:
    """Seconds of a valid mapping int16 [N, 2]; fills `trace` if it has rows.

    `traffic` float64 [L] and `transfers` int64 [L] are scratch.

    The stream's bytes position .. fetched are in the buffer, where `position` is where the weights of this and later
    ops begin. Invariant at every op: position <= fetched <= position + free.

    One function, since a helper that took the tables would cost more than the op itself (a reference count an array).
    """
    into, via = tables.into, tables.via
    weight_bytes, activation_bytes = tables.weight_bytes, tables.activation_bytes
    timing, tracing = len(trace.duration_s) > 0, len(trace.fetched_bytes) > 0
    free, stream_end = _allot(mapping, weight_bytes, tables.passes, into, tables.capacity_bytes[into])
    waiting = (tables.serial, tables.shared)
    total_s = 0.0
    position = 0
    fetched = 0
    for i in range(len(mapping)):
        traffic[:] = 0.0
        transfers[:] = 0
        weight, home = mapping[i, 0], mapping[i, 1]

        # The op's output takes its room before the op runs. What no longer fits in the buffer is dropped from its end,
        # where the weights lie that are needed last.
        if home == into:
            free -= activation_bytes[i]
        fetched = max(position, min(fetched, position + free))

        buffered = 0
        if weight >= 0:
            from_home = float(tables.weight_read_bytes[i])
            if weight == 0 and tables.passes[i] > 0:
                # The op's weight is the head of the stream: every pass reads its buffered part from `into`. It leaves
                # the stream, fetched or not.
                buffered = min(weight_bytes[i], fetched - position)
                traffic[into] += buffered * tables.pass_bytes[i]
                from_home -= buffered * tables.pass_bytes[i]
                position += weight_bytes[i]
                fetched = max(position, fetched)
            traffic[weight] += from_home
            if tables.weight_read_bytes[i] > 0:
                transfers[weight] += tables.steps[i]

        stays = 0
        for e in range(tables.edge_start[i], tables.edge_start[i + 1]):
            source = mapping[tables.edge_source[e], 1]
            # An op that only rearranges bytes leaves inputs where they are if its output lies in the same memory.
            if tables.moves and tables.rearranges[i] and source == home:
                stays += tables.edge_bytes[e]
            # A source without output holds no bytes: its reader only waits for it.
            elif source >= 0:
                traffic[source] += tables.edge_bytes[e]
                transfers[source] += tables.edge_bytes[e] > 0
        if home >= 0:
            # More may stay than the op writes: it may drop bytes, or read one input twice.
            traffic[home] += max(tables.written_bytes[i] - stays, 0)
            transfers[home] += 1
        if tables.moves:
            # The network's inputs come from the slowest memory, and its outputs end there.
            traffic[0] += tables.external_bytes[i]
            if tables.is_output[i] and home > 0:
                traffic[0] += tables.written_bytes[i]
        # Only now is traffic[0] complete, and all of it crosses the memory `via`.
        if tables.cross:
            traffic[via] += traffic[0]

        duration_s = tables.launch_s + _busy_s(
            tables.compute_s[i], traffic, transfers, tables.inverse_bandwidth, tables.access_s, waiting
        )
        total_s += duration_s

        ahead = 0
        if tables.prefetch and fetched < stream_end:
            idle = duration_s * tables.bandwidth_Bps[0] - traffic[0]
            # With contention the DMA also waits for the memories that it writes to and passes through.
            if tables.contention:
                idle = min(idle, duration_s * tables.bandwidth_Bps[into] - traffic[into])
                if tables.cross:
                    idle = min(idle, duration_s * tables.bandwidth_Bps[via] - traffic[via])
            # The op's own weight holds its place in the buffer until the op ends.
            room = free - buffered - (fetched - position)
            ahead = min(room, stream_end - fetched)
            ahead = int(max(0.0, min(idle, float(ahead))))
            fetched += ahead
        if timing:
            trace.duration_s[i] = duration_s
        if tracing:
            trace.traffic_bytes[i, :] = traffic
            trace.transfers[i, :] = transfers
            trace.prefetched_bytes[i] = buffered
            trace.fetched_bytes[i] = ahead

        # Activations that this op was the last to read give their room back.
        for k in range(tables.free_start[i], tables.free_start[i + 1]):
            dead = tables.free_op[k]
            if mapping[dead, 1] == into:
                free += activation_bytes[dead]
    return total_s


@kernel
def _noise(sigma: float, normal: float) -> float:
    """Log-normal noise of mean 1: the second term of the exponent takes out the bias."""
    return math.exp(sigma * normal - 0.5 * sigma * sigma)


@kernel
def _latencies(tables: Tables, mapping: Mapping16, normals: Floats, trace: Trace) -> Floats:
    out = np.empty(len(mapping), np.float64)
    traffic = np.zeros(len(tables.capacity_bytes))
    transfers = np.zeros(len(tables.capacity_bytes), np.int64)
    for b in range(len(mapping)):
        out[b] = inference_seconds(tables, mapping[b], traffic, transfers, trace)
        if tables.sigma > 0.0:
            out[b] *= _noise(tables.sigma, normals[b])
    return out


@kernel
def _profiles(
    tables: Tables, mapping: Mapping16, normals: Floats, spread: float, keys: Keys, trace: Trace
) -> tuple[Floats, Profiles]:
    """As `_latencies`, and what each op took; `trace` has room for times."""
    batch, ops = mapping.shape[:2]
    out, parts = np.empty(batch, np.float64), np.empty((batch, ops), np.float32)
    traffic = np.zeros(len(tables.capacity_bytes))
    transfers = np.zeros(len(tables.capacity_bytes), np.int64)
    for b in range(batch):
        out[b] = inference_seconds(tables, mapping[b], traffic, transfers, trace)
        # The whole inference was slower or faster, so all of its ops were.
        common = _noise(tables.sigma, normals[b]) if tables.sigma > 0.0 else 1.0
        out[b] *= common
        for i in range(ops):
            own = _noise(spread, normal(keys[b], np.uint64(i))) if spread > 0.0 else 1.0
            parts[b, i] = trace.duration_s[i] * common * own
    return out, parts


def latencies(tables: Tables, mapping: Mapping16, normals: Floats) -> Floats:
    """Seconds of one inference, float64 [B], of valid canonical mappings int16 [B, N, 2] (C-contiguous).

    `normals` float64 [B] are standard normals; they matter only where the noise effect is on.
    """
    return _latencies(tables, mapping, normals, Trace.empty(0, len(tables.capacity_bytes)))


def profiles(
    tables: Tables, mapping: Mapping16, normals: Floats, spread: float, keys: Keys
) -> tuple[Floats, Profiles]:
    """As `latencies`, and seconds of each op, float32 [B, N].

    The noise of a latency is on all of its ops alike. `spread` is the relative standard deviation of what a profiler
    adds to each op by itself, and `keys` uint64 [B] decide it; their sum then differs from the latency.
    """
    room = Trace.of_times(mapping.shape[1], len(tables.capacity_bytes))
    found: tuple[Floats, Profiles] = _profiles(tables, mapping, normals, spread, keys, room)
    return found


def trace_latency(tables: Tables, mapping: Mapping16) -> tuple[float, Trace]:
    """Noise-free seconds of one valid canonical mapping int16 [N, 2], and what each op did."""
    trace = Trace.empty(len(mapping), len(tables.capacity_bytes))
    quiet = tables._replace(sigma=0.0)
    return float(_latencies(quiet, np.ascontiguousarray(mapping)[None], np.zeros(1), trace)[0]), trace
