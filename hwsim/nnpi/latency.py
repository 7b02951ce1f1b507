"""Latency of one inference under a mapping: a roofline an op, and a DMA that works ahead.

Source: none is published for the NNP-I. The op model is the roofline (Williams, Waterman, Patterson, CACM
2009) over every memory of the chip; `docs/nnpi.md` has each equation and what is assumed.

The ops run one after the other. Op i takes

    t_i = launch + max(compute_i, max over memories m of bytes_im / bandwidth_m).

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
from hwsim.nnpi.tables import Tables
from hwsim.problem import Floats, Mapping16

SIMULATOR_VERSION = 1
"""Goes up with every change that changes a cost."""


class Trace(NamedTuple):
    """What each op of one mapping did; every array has 0 rows where no trace is wanted.

    Attributes:
        duration_s: float64 [N].
        traffic_bytes: int64 [N, L], on each memory, crossing traffic included.
        prefetched_bytes: int64 [N], bytes of the op's weight that the DMA had fetched before it began.
        fetched_bytes: int64 [N], bytes that the DMA fetched while the op ran.
    """

    duration_s: Floats
    traffic_bytes: NDArray[np.int64]
    prefetched_bytes: NDArray[np.int64]
    fetched_bytes: NDArray[np.int64]

    @staticmethod
    def empty(ops: int, memories: int) -> Trace:
        """Room for `ops` ops."""
        n = np.zeros
        return Trace(n(ops), n((ops, memories), np.int64), n(ops, np.int64), n(ops, np.int64))


@kernel
def _latency(tables: Tables, mapping: Mapping16, traffic: NDArray[np.int64], trace: Trace) -> float:
    """Seconds of a valid mapping int16 [N, 2]; `traffic` [L] is scratch; fills `trace` if it has rows."""
    ops = len(mapping)
    into, via = tables.into, tables.via
    weight_bytes, activation_bytes = tables.weight_bytes, tables.activation_bytes
    tracing = len(trace.duration_s) > 0

    free = tables.capacity_bytes[into]
    stream_end = 0
    for i in range(ops):
        if mapping[i, 0] == into:
            free -= weight_bytes[i]
        elif mapping[i, 0] == 0 and tables.passes[i] > 0:
            stream_end += weight_bytes[i]

    total = 0.0
    stream = 0  # where the weights of this and later ops begin
    fetched = 0  # the DMA has fetched the stream up to here; never less than `stream`
    for i in range(ops):
        traffic[:] = 0
        home = mapping[i, 1]
        if home == into:
            free -= activation_bytes[i]

        # The part of `into` that is free may have shrunk: what came last is given up.
        fetched = max(stream, min(fetched, stream + free))
        buffered = 0
        weight = mapping[i, 0]
        if weight >= 0:
            from_home = tables.weight_read_bytes[i]
            if weight == 0 and tables.passes[i] > 0:
                buffered = min(weight_bytes[i], fetched - stream)
                traffic[into] += buffered * tables.passes[i]
                from_home -= buffered * tables.passes[i]
                stream += weight_bytes[i]
                fetched = max(stream, fetched)
            traffic[weight] += from_home

        stays = 0
        for e in range(tables.edge_start[i], tables.edge_start[i + 1]):
            source = mapping[tables.edge_source[e], 1]
            if tables.moves and tables.rearranges[i] and source == home:
                stays += tables.edge_bytes[e]
            elif source >= 0:
                traffic[source] += tables.edge_bytes[e]
        if home >= 0:
            traffic[home] += max(activation_bytes[i] - stays, 0)
        if tables.moves:
            traffic[0] += tables.external_bytes[i]
            if tables.is_output[i] and home > 0:
                traffic[0] += activation_bytes[i]
        if tables.cross:
            traffic[via] += traffic[0]

        busiest = tables.compute_s[i]
        for m in range(len(traffic)):
            busiest = max(busiest, traffic[m] * tables.inverse_bandwidth[m])
        duration = tables.launch_s + busiest
        total += duration

        ahead = 0
        if tables.prefetch and fetched < stream_end:
            idle = duration * tables.bandwidth_Bps[0] - traffic[0]
            if tables.contention:
                idle = min(idle, duration * tables.bandwidth_Bps[into] - traffic[into])
                if tables.cross:
                    idle = min(idle, duration * tables.bandwidth_Bps[via] - traffic[via])
            room = free - buffered - (fetched - stream)
            ahead = min(room, stream_end - fetched)
            ahead = int(max(0.0, min(idle, float(ahead))))
            fetched += ahead
        if tracing:
            trace.duration_s[i] = duration
            trace.traffic_bytes[i, :] = traffic
            trace.prefetched_bytes[i] = buffered
            trace.fetched_bytes[i] = ahead
        for k in range(tables.free_start[i], tables.free_start[i + 1]):
            j = tables.free_op[k]
            if mapping[j, 1] == into:
                free += activation_bytes[j]
    return total


@kernel
def _latencies(tables: Tables, mapping: Mapping16, normals: Floats, trace: Trace) -> Floats:
    out = np.empty(len(mapping), np.float64)
    traffic = np.zeros(len(tables.capacity_bytes), np.int64)
    sigma = tables.sigma
    for b in range(len(mapping)):
        out[b] = _latency(tables, mapping[b], traffic, trace)
        if sigma > 0.0:
            out[b] *= math.exp(sigma * normals[b] - 0.5 * sigma * sigma)
    return out


def latencies(tables: Tables, mapping: Mapping16, normals: Floats) -> Floats:
    """Seconds of one inference, float64 [B], of valid canonical mappings int16 [B, N, 2] (C-contiguous).

    `normals` float64 [B] are standard normals; they matter only where the noise effect is on.
    """
    return _latencies(tables, mapping, normals, Trace.empty(0, len(tables.capacity_bytes)))


def trace_latency(tables: Tables, mapping: Mapping16) -> tuple[float, Trace]:
    """Noise-free seconds of one valid canonical mapping int16 [N, 2], and what each op did."""
    trace = Trace.empty(len(mapping), len(tables.capacity_bytes))
    quiet = tables._replace(sigma=0.0)
    return float(_latencies(quiet, np.ascontiguousarray(mapping)[None], np.zeros(1), trace)[0]), trace
