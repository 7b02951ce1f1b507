"""The time of one inference op by op, from the same recurrence that gives the latency.

The content of each memory while each op of an inference runs, and the tensors that can be given an address.

Source: the liveness that `hwsim/nnpi/rectify.py` places by: a weight is held during the whole inference, an
activation from its op to its last consumer (closed). `occupancy` is the sum of the bytes of `lifetimes`.

Deviations: what the DMA prefetches into free room is not counted, because the compiler does not place it; bytes are
only counted, so that fragmentation never makes a mapping fail.
"""

from __future__ import annotations

import numpy as np

from hwsim.capabilities import Lifetime, Occupancy
from hwsim.explanation import OpTime, OpTimes
from hwsim.nnpi.latency import Trace, trace_latency
from hwsim.nnpi.tables import Tables
from hwsim.problem import Mapping16


def explain(tables: Tables, mapping: Mapping16, nodes: tuple[str, ...], memories: tuple[str, ...]) -> OpTimes:
    """The noise-free inference of one valid canonical mapping int16 [N, 2]."""
    latency_s, trace = trace_latency(tables, mapping)
    ops = []
    start_s = 0.0
    seconds: dict[str, float] = {}
    for i, name in enumerate(nodes):
        traffic: list[float] = trace.traffic_bytes[i].tolist()
        op = OpTime(
            name=name,
            weight=_memory(memories, int(mapping[i, 0])),
            activation=_memory(memories, int(mapping[i, 1])),
            start_s=start_s,
            duration_s=float(trace.duration_s[i]),
            bound_by=_bound_by(tables, i, _stream_s(tables, trace, i), memories),
            traffic_bytes={m: round(moved) for m, moved in zip(memories, traffic, strict=True)},
            prefetched_bytes=int(trace.prefetched_bytes[i]),
            fetched_bytes=int(trace.fetched_bytes[i]),
        )
        ops.append(op)
        start_s += op.duration_s
        seconds[op.bound_by] = seconds.get(op.bound_by, 0.0) + op.duration_s
    return OpTimes(
        latency_s=latency_s,
        ops=tuple(ops),
        traffic_bytes={m: sum(op.traffic_bytes[m] for op in ops) for m in memories},
        prefetched_bytes=sum(op.prefetched_bytes for op in ops),
        seconds_bound_by=seconds,
    )


def _memory(memories: tuple[str, ...], choice: int) -> str | None:
    return memories[choice] if choice >= 0 else None


def _stream_s(tables: Tables, trace: Trace, i: int) -> list[float]:
    """Seconds that each memory is busy while op i runs."""
    moving = trace.traffic_bytes[i] * tables.inverse_bandwidth
    found: list[float] = (moving + trace.transfers[i] * tables.access_s).tolist()
    return found


def _bound_by(tables: Tables, i: int, stream_s: list[float], memories: tuple[str, ...]) -> str:
    """The largest term of the op's roofline; among equal ones compute, then the slower memory."""
    if tables.measured[i]:
        terms = {"measured": float(tables.compute_s[i])}
    else:
        terms = {"mac": float(tables.mac_s[i]), "dsp": float(tables.dsp_s[i])}
    terms |= zip(memories, stream_s, strict=True)
    largest = max(terms, key=terms.__getitem__)
    return "overhead" if tables.launch_s > terms[largest] else largest


def occupancy(tables: Tables, mapping: Mapping16, memories: tuple[str, ...]) -> Occupancy:
    """The bytes in L memories during N ops under one canonical mapping int16 [N, 2], without repair."""
    ops = len(mapping)
    steps = np.arange(ops)
    change = np.zeros((ops + 1, len(memories), 2), np.int64)
    lives = (
        (tables.weight_bytes, np.zeros(ops, np.int64), np.full(ops, ops - 1)),
        (tables.activation_bytes, steps, tables.last_use),
    )
    for head, (size, first, last) in enumerate(lives):
        held = mapping[:, head] >= 0
        memory = mapping[held, head]
        np.add.at(change[:, :, head], (first[held], memory), size[held])
        np.add.at(change[:, :, head], (last[held] + 1, memory), -size[held])
    return Occupancy(memories, np.cumsum(change[:-1], axis=0), tables.capacity_bytes)


def lifetimes(
    tables: Tables, mapping: Mapping16, nodes: tuple[str, ...], heads: tuple[str, ...]
) -> list[Lifetime]:
    """The tensors of one canonical mapping int16 [N, 2] as it stands, by op, the weight before the activation."""
    weight, activation = heads
    end = len(nodes) - 1
    found = []
    for op, (node, (weight_memory, activation_memory)) in enumerate(
        zip(nodes, mapping.tolist(), strict=True)
    ):
        if weight_memory >= 0:
            found.append(Lifetime(node, weight, weight_memory, int(tables.weight_bytes[op]), 0, end))
        if activation_memory >= 0:
            size, last = int(tables.activation_bytes[op]), int(tables.last_use[op])
            found.append(Lifetime(node, activation, activation_memory, size, op, last))
    return found
