"""What a ranking policy sees of putting a tensor in a memory: numbers without a unit, relative to the chip file.

Everything is a ratio, so that one policy reads any network on any chip: a time over the time of the mean op or of the
tensor's own op, bytes over the capacity of the memory, steps over the number of steps. Ratios are given as base-2
logarithms, cut to -16..16 and divided by 4. They read sizes, bandwidths, capacities and compute times of the chip file,
and one pass of the stream of weights through a buffer (`_stream`); the model of latency is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.nnpi.tables import WEIGHT, Ints, Tables, Tensors

Floats = NDArray[np.float64]

SCALE, LARGEST = 4.0, 16.0
LEAST, FLOOR, LEAST_GAIN = 1e-6, 1e-3, 1e-4
"""Ratios below are taken for these: any, one that may be 0, the roofline's gain over the time of the mean op."""
BUFFERS = (1.0, 0.25)
"""Shares of the prefetch memory that `_stream` is run with: all of it, and what a full memory may leave."""
WINDOWS = (4, 16)
"""Numbers of ops before a weight's own over which idle bandwidth is summed up."""

MEANING: Mapping[str, str] = {
    "one": "1",
    "saved_of_mean": "time that its traffic saves here / time of the mean op",
    "saved_of_compute": "time that its traffic saves here / compute time of its op",
    "bytes": "bytes / capacity",
    "lifetime": "steps that it is held / all steps",
    "bytes_times_lifetime": "bytes x lifetime / capacity",
    "fullest_step": "activations at the fullest step of its lifetime / capacity",
    "traffic_of_op": "time of its op's traffic, all in the slowest memory / compute time of the op",
    "traffic_of_readers": "the same, of the reader for which it is largest (activations)",
    "all_weights": "all weights / capacity",
    "fullest_of_all": "activations at the fullest step of all / capacity",
    "idle_before": "time that the slowest memory is idle before its op, without weights / mean op (weights)",
    "compute_of_mean": "compute time of its op / mean op",
    "position": "number of its op / number of ops, as it is",
    "gain_alone": "roofline: time gained if only this tensor is here and all others in the slowest memory / mean op",
    "loss_alone": "roofline: time lost if only this tensor is in the slowest memory and all others are here / mean op",
    "gains_alone": "1 if gain_alone is above 0",
    "loses_alone": "1 if loss_alone is above 0",
    "fetched_of_idle": "time to fetch all weights up to this one / idle time before its op (weights)",
    "fetch_of_idle_4": "time to fetch it / idle time of the 4 ops before (weights)",
    "fetch_of_idle_16": "time to fetch it / idle time of the 16 ops before (weights)",
    "reuse": "bytes moved / bytes",
    "bandwidth": "bandwidth of the memory / that of the slowest",
    "share_of_capacity": "capacity of the memory / that of all but the slowest",
    "is_output": "1 if it is, or belongs to, an output of the network",
    "rearranges": "1 if its op only rearranges bytes (activations)",
    "wait": "stream: wait of its op for its weight / mean op",
    "wait_after": "stream: waits of this and all later ops / mean op",
    "relief": "stream: the smaller of its own traffic time and wait_after / mean op",
    "relief_of_bytes": "stream: relief / (bytes x lifetime / capacity) / mean op",
    "relieves": "1 if relief is above 0",
    "idle_in_all": "stream: idle time that is left over / mean op",
    "wait_in_all": "stream: all waits / mean op",
    "fetched_ahead": "stream: what is fetched after its op / the buffer",
    "wait_small": "wait, with a quarter of the buffer",
    "wait_after_small": "wait_after, with a quarter of the buffer",
    "relief_small": "relief, with a quarter of the buffer",
    "relief_of_bytes_small": "relief_of_bytes, with a quarter of the buffer",
    "relieves_small": "relieves, with a quarter of the buffer",
    "gain_of_bytes": "gain_alone / (bytes x lifetime / capacity)",
    "loss_of_bytes": "loss_alone / (bytes x lifetime / capacity)",
}
"""What each feature is, in order; ratios as base-2 logarithms / 4, but for position and those that are 1 or 0."""
FEATURE_NAMES = tuple(MEANING)


class _Times(NamedTuple):
    """Seconds float64 [N] of each op, and of the E edges; `mean` of the mean op, all in the slowest memory."""

    compute: Floats
    inputs_bytes: Floats
    slow: Floats
    mean: float
    idle: Floats
    reader: NDArray[np.int64]


def place_features(tables: Tables, found: Tensors) -> NDArray[np.float32]:
    """Float32 [T, L, F]; those of memory 0 are 0."""
    levels, times = len(tables.capacity_bytes), _times(tables)
    out = np.zeros((len(found.op), levels, len(FEATURE_NAMES)), np.float32)
    for level in range(1, levels):
        columns = {
            **_sizes(tables, found, times, level),
            **_roofline(tables, found, times, level),
            **_waits(tables, found, times, level),
        }
        for number, name in enumerate(FEATURE_NAMES):
            out[:, level, number] = columns[name]
    return out


def _times(tables: Tables) -> _Times:
    slow_Bps = tables.bandwidth_Bps[0]
    compute = np.maximum(tables.compute_s + tables.launch_s, 1e-30)
    inputs = np.add.reduceat(np.append(tables.edge_bytes, 0), tables.edge_start[:-1]).astype(np.float64)
    inputs[tables.edge_start[:-1] == tables.edge_start[1:]] = 0
    slow = (tables.weight_read_bytes + tables.written_bytes + inputs + tables.external_bytes) / slow_Bps
    mean = float(np.maximum(compute, slow + tables.launch_s).mean())
    idle = np.maximum(compute - (tables.written_bytes + inputs) / slow_Bps, 0.0)
    reader = np.repeat(np.arange(len(compute)), np.diff(tables.edge_start))
    return _Times(compute, inputs, slow, mean, idle, reader)


def log_ratio(ratio: Floats | float) -> Floats:
    """A ratio as the policy sees it."""
    return np.clip(np.log2(np.maximum(ratio, LEAST)), -LARGEST, LARGEST) / SCALE


def _held_of_capacity(tables: Tables, found: Tensors, level: int) -> Floats:
    """Bytes x lifetime / capacity, float64 [T]: the room that a tensor takes, over all steps."""
    lifetime = (found.last - found.first + 1) / len(tables.weight_bytes)
    return np.asarray(found.size_bytes * lifetime / float(tables.capacity_bytes[level]))


def _sizes(tables: Tables, found: Tensors, times: _Times, level: int) -> dict[str, Floats | float]:
    """Ratios of bytes and of times that need no model at all."""
    op, weight, ops = found.op, found.head == WEIGHT, len(tables.weight_bytes)
    slow_Bps, Bps = tables.bandwidth_Bps[0], tables.bandwidth_Bps[level]
    capacity, compute, mean = float(tables.capacity_bytes[level]), times.compute, times.mean
    saved = found.moved_bytes * (1 / slow_Bps - 1 / Bps)
    pressure = times.slow / compute
    readers = np.zeros(ops)
    np.maximum.at(readers, tables.edge_source, pressure[times.reader])
    held = _held(tables)
    before = np.concatenate([[0.0], np.cumsum(times.idle)[:-1]])
    fetch = tables.weight_read_bytes / tables.steps / slow_Bps  # once, whatever steps read it
    close = {f"fetch_of_idle_{n}": fetch / (_before(times.idle, n) + 1e-9 * mean) for n in WINDOWS}
    of_weights = {
        "idle_before": (before + 1e-12) / mean,
        "fetched_of_idle": np.cumsum(fetch) / (before + 1e-9 * mean + 1e-15),
        **close,
    }
    return {
        "one": 1.0,
        "saved_of_mean": log_ratio(saved / mean),
        "saved_of_compute": log_ratio(saved / compute[op]),
        "bytes": log_ratio(found.size_bytes / capacity),
        "lifetime": log_ratio((found.last - found.first + 1) / ops),
        "bytes_times_lifetime": log_ratio(_held_of_capacity(tables, found, level)),
        "fullest_step": log_ratio(_most_between(held, found.first, found.last) / capacity),
        "traffic_of_op": log_ratio(pressure[op]),
        "traffic_of_readers": np.where(weight, 0.0, log_ratio(np.maximum(readers[op], FLOOR))),
        "all_weights": log_ratio(tables.weight_bytes.sum() / capacity),
        "fullest_of_all": log_ratio(held.max(initial=0) / capacity),
        "compute_of_mean": log_ratio(compute[op] / mean),
        "position": op / ops,
        **{name: np.where(weight, log_ratio(value[op]), 0.0) for name, value in of_weights.items()},
        "reuse": log_ratio(np.maximum(found.moved_bytes, 1) / found.size_bytes),
        "bandwidth": log_ratio(Bps / slow_Bps),
        "share_of_capacity": log_ratio(capacity / tables.capacity_bytes[1:].sum()),
        "is_output": tables.is_output[op].astype(np.float64),
        "rearranges": np.where(weight, 0.0, tables.rearranges[op]),
    }


def _roofline(tables: Tables, found: Tensors, times: _Times, level: int) -> dict[str, Floats | float]:
    """What a tensor gains by its memory, and loses by the slowest one, by the roofline of the ops that touch it."""
    op, weight = found.op, found.head == WEIGHT
    slow, fast = 1 / tables.bandwidth_Bps[0], 1 / tables.bandwidth_Bps[level]
    compute, reader, outside = tables.compute_s, times.reader, tables.external_bytes * slow
    bytes_here = tables.weight_read_bytes + tables.written_bytes + times.inputs_bytes
    all_slow = np.maximum(compute, times.slow)
    all_fast = np.maximum(compute, np.maximum(bytes_here * fast, outside))

    def gain(moved: Ints, ops: NDArray[np.int64] | slice) -> Floats:
        """Seconds of some ops if so many bytes each move to the fast memory."""
        rest = np.maximum(compute[ops], times.slow[ops] - moved * slow)
        return np.asarray(all_slow[ops] - np.maximum(rest, moved * fast))

    def loss(moved: Ints, ops: NDArray[np.int64] | slice) -> Floats:
        """Seconds of some ops if so many bytes each move to the slow memory."""
        rest = np.maximum(compute[ops], (bytes_here[ops] - moved) * fast)
        return np.asarray(np.maximum(rest, moved * slow + outside[ops]) - all_fast[ops])

    every = slice(None)
    columns: dict[str, Floats | float] = {}
    for name, change in (("gain", gain), ("loss", loss)):
        of_readers = np.zeros(len(compute))
        np.add.at(of_readers, tables.edge_source, change(tables.edge_bytes, reader))
        of_activation = change(tables.written_bytes, every) + of_readers
        share = np.where(weight, change(tables.weight_read_bytes, every)[op], of_activation[op]) / times.mean
        columns[f"{name}_alone"] = log_ratio(share + LEAST_GAIN)
        columns["gains_alone" if name == "gain" else "loses_alone"] = (share > 0).astype(np.float64)
        columns[f"{name}_of_bytes"] = log_ratio(share / _held_of_capacity(tables, found, level) + LEAST_GAIN)
    return columns


def _waits(tables: Tables, found: Tensors, times: _Times, level: int) -> dict[str, Floats | float]:
    """What a tensor could relieve if all weights were fetched ahead, and all activations were in its memory."""
    op, mean = found.op, times.mean
    slow_Bps = tables.bandwidth_Bps[0]
    fetch = tables.weight_read_bytes / tables.steps / slow_Bps * (tables.passes > 0)
    busy = (tables.written_bytes + times.inputs_bytes) / tables.bandwidth_Bps[level]
    buffer = float(tables.capacity_bytes[tables.into]) / slow_Bps
    own = found.moved_bytes / slow_Bps
    columns: dict[str, Floats | float] = {}
    for share, suffix in zip(BUFFERS, ("", "_small"), strict=True):
        wait, ahead, idle = _stream(
            times.compute, busy, fetch, tables.external_bytes / slow_Bps, share * buffer
        )
        after = np.cumsum(wait[::-1])[::-1]
        relief = np.minimum(own, after[op])
        columns |= {
            f"wait{suffix}": log_ratio(wait[op] / mean + FLOOR),
            f"wait_after{suffix}": log_ratio(after[op] / mean + FLOOR),
            f"relief{suffix}": log_ratio(relief / mean + FLOOR),
            f"relief_of_bytes{suffix}": log_ratio(
                relief / _held_of_capacity(tables, found, level) / mean + FLOOR
            ),
            f"relieves{suffix}": (relief > 0).astype(np.float64),
        }
        if share == 1.0:
            columns["idle_in_all"] = log_ratio(idle.sum() / mean + FLOOR)
            columns["wait_in_all"] = log_ratio(wait.sum() / mean + FLOOR)
            columns["fetched_ahead"] = log_ratio(ahead[op] / buffer + FLOOR)
    return columns


@kernel
def _stream(
    compute: Floats, busy: Floats, fetch: Floats, outside: Floats, buffer: float
) -> tuple[Floats, Floats, Floats]:
    """Seconds float64 [N] that ops wait for weights, that are fetched ahead after them, and that are left idle.

    Weights are fetched in order, in `fetch` seconds of the slowest memory each, ahead of their ops as far as a buffer
    of so many seconds has room. Ops take `compute` or `busy` seconds if they need not wait; `outside` seconds of the
    slowest memory are their own.
    """
    ops = len(compute)
    wait, ahead, idle = np.zeros(ops), np.zeros(ops), np.zeros(ops)
    left, fetched = fetch.sum(), 0.0
    for i in range(ops):
        had = min(fetch[i], fetched)
        rest = fetch[i] - had
        fetched -= had
        left -= fetch[i]
        quiet = max(compute[i], busy[i])
        takes = max(quiet, rest + outside[i])
        wait[i] = takes - quiet
        free = max(0.0, takes - rest - outside[i])
        more = max(0.0, min(free, min(buffer - fetched, left - fetched)))
        fetched += more
        ahead[i] = fetched
        idle[i] = free - more
    return wait, ahead, idle


def _before(idle: Floats, ops: int) -> Floats:
    """The sum float64 [N] of so many values before each."""
    total = np.concatenate([[0.0], np.cumsum(idle)])
    at = np.arange(len(idle))
    return np.asarray(total[at] - total[np.maximum(at - ops, 0)])


def _held(tables: Tables) -> NDArray[np.int64]:
    """Bytes int64 [N] of activations that are live at each step."""
    change = np.zeros(len(tables.activation_bytes) + 1, np.int64)
    change[:-1] += tables.activation_bytes
    np.subtract.at(change, tables.last_use + 1, tables.activation_bytes)
    return np.cumsum(change)[:-1]


def _most_between(
    values: NDArray[np.int64], first: NDArray[np.int64], last: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The largest of values [N] in first..last (closed), int64 [T]: of two runs of 2^k values that cover it."""
    rows = [values]
    while 2 ** len(rows) <= len(values):
        step, row = 2 ** (len(rows) - 1), rows[-1]
        rows.append(np.maximum(row[:-step], row[step:]))
    power = np.floor(np.log2(last - first + 1)).astype(np.int64)
    found = np.empty(len(first), np.int64)
    for k in np.unique(power):
        at = power == k
        found[at] = np.maximum(rows[k][first[at]], rows[k][last[at] + 1 - 2**k])
    return found
