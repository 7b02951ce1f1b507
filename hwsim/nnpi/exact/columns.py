"""The options of one op as columns of a linear program: a joint placement of its tensors, and an amount prefetched.

Source: the configuration (Dantzig-Wolfe) formulation of resource allocation: one variable for each joint choice, so
that the roofline's maximum is taken before the program is made linear. `docs/explanations/exact.md` has the model
and its proof.

For a fixed placement the op's duration is a convex piecewise linear function of `b`, the bytes of its weight that were
prefetched, and what it leaves idle for the DMA is linear between finitely many breakpoints. The columns of a
placement are these breakpoints: every point in between is a mean of two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hwsim.nnpi.tables import Tables

WEIGHT, ACTIVATION = 0, 1

Floats = NDArray[np.float64]
Places = NDArray[np.int8]


@dataclass(frozen=True)
class Scope:
    """The tensors that decide the duration of an op.

    Attributes:
        op: its number.
        tensors: (op, head) of each, K of them: its weight, its activation, then what it reads.
        read_bytes: int64 [K], bytes that an edge reads; 0 for its own two.
        transfers: int64 [K], how often the op begins to move it: an activation of its own is written, all else read.
    """

    op: int
    tensors: tuple[tuple[int, int], ...]
    read_bytes: NDArray[np.int64]
    transfers: NDArray[np.int64]

    def column(self, op: int, head: int) -> int | None:
        """Position of a tensor in `tensors`, None if it is dead."""
        return self.tensors.index((op, head)) if (op, head) in self.tensors else None


@dataclass(frozen=True)
class Columns:
    """C columns of one op.

    Attributes:
        place: int8 [C, K], the memory of each tensor of the scope.
        duration_s: float64 [C].
        used_bytes: float64 [C], bytes of the op's weight that must have been prefetched before it begins.
        idle_bytes: float64 [C], the most that the DMA can fetch meanwhile (not more than `into` holds).
    """

    place: Places
    duration_s: Floats
    used_bytes: Floats
    idle_bytes: Floats


def scope(tables: Tables, op: int) -> Scope:
    """The tensors with a size that op number `op` touches; edges from one producer are added up."""
    tensors: dict[tuple[int, int], int] = {}
    transfers: dict[tuple[int, int], int] = {}
    if tables.weight_bytes[op] > 0:
        tensors[op, WEIGHT], transfers[op, WEIGHT] = 0, 0
        if tables.weight_read_bytes[op] > 0:
            transfers[op, WEIGHT] = int(tables.steps[op])
    if tables.activation_bytes[op] > 0:
        tensors[op, ACTIVATION], transfers[op, ACTIVATION] = 0, 1
    for e in range(tables.edge_start[op], tables.edge_start[op + 1]):
        source = int(tables.edge_source[e])
        if tables.activation_bytes[source] > 0 and tables.edge_bytes[e] > 0:
            tensors[source, ACTIVATION] = tensors.get((source, ACTIVATION), 0) + int(tables.edge_bytes[e])
            transfers[source, ACTIVATION] = transfers.get((source, ACTIVATION), 0) + 1
    counts = np.array(list(transfers.values()), np.int64)
    return Scope(op, tuple(tensors), np.array(list(tensors.values()), np.int64), counts)


def streams(tables: Tables, op: int) -> bool:
    """Whether the op's weight, when it lies in the slowest memory, can be prefetched."""
    return bool(tables.prefetch and tables.weight_bytes[op] > 0 and tables.passes[op] > 0)


def traffic(tables: Tables, of: Scope, place: Places) -> NDArray[np.int64]:
    """Bytes int64 [C, L] that the op moves over each memory if nothing was prefetched.

    `place` is int8 [C, K]. The same sums as the simulator's, written for many placements at once.
    """
    rows = np.arange(len(place))
    out: NDArray[np.int64] = np.zeros((len(place), len(tables.capacity_bytes)), np.int64)
    i = of.op
    own, weight = of.column(i, ACTIVATION), of.column(i, WEIGHT)
    home = place[:, own] if own is not None else np.full(len(place), -1, np.int8)
    stays: NDArray[np.int64] = np.zeros(len(place), np.int64)
    for k, size in enumerate(of.read_bytes):
        if size:
            in_place = (place[:, k] == home) & bool(tables.moves and tables.rearranges[i])
            out[rows, place[:, k]] += np.where(in_place, 0, size)
            stays += np.where(in_place, size, 0)
    if own is not None:
        out[rows, home] += np.maximum(tables.written_bytes[i] - stays, 0)
    if weight is not None:
        out[rows, place[:, weight]] += tables.weight_read_bytes[i]
    if tables.moves:
        out[:, 0] += tables.external_bytes[i]
        if tables.is_output[i] and own is not None:
            out[:, 0] += np.where(home > 0, tables.written_bytes[i], 0)
    if tables.cross:
        out[:, tables.via] += out[:, 0]
    return out


def starting(tables: Tables, of: Scope, place: Places) -> Floats:
    """Seconds float64 [C, L] that the starts of the op's transfers take in each memory; `place` as in `traffic`."""
    out = np.zeros((len(place), len(tables.capacity_bytes)))
    if not tables.access_s.any():
        return out
    rows, own = np.arange(len(place)), of.column(of.op, ACTIVATION)
    in_place = bool(tables.moves and tables.rearranges[of.op])
    for k, (count, size) in enumerate(zip(of.transfers, of.read_bytes, strict=True)):
        stays = bool(size) & in_place & (own is not None and place[:, k] == place[:, own])
        out[rows, place[:, k]] += np.where(stays, 0.0, count * tables.access_s[place[:, k]])
    return out


def slope(tables: Tables, op: int) -> Floats:
    """float64 [L]: how the op's traffic changes with each byte of its weight that was prefetched."""
    change: Floats = np.zeros(len(tables.capacity_bytes), np.float64)
    change[0] -= tables.pass_bytes[op]
    change[tables.into] += tables.pass_bytes[op]
    if tables.cross:
        change[tables.via] -= tables.pass_bytes[op]
    return change


def watched(tables: Tables) -> tuple[int, ...]:
    """The memories whose idle bandwidth limits the DMA."""
    memories = {0}
    if tables.contention:
        memories.add(tables.into)
        if tables.cross:
            memories.add(tables.via)
    return tuple(sorted(memories))


def placements(levels: int, tensors: int) -> Places:
    """Every joint placement, int8 [levels ** tensors, tensors]."""
    number = np.arange(levels**tensors)[:, None]
    return np.asarray(number // levels ** np.arange(tensors) % levels, np.int8)


def columns(tables: Tables, of: Scope) -> Columns:
    """All columns of an op, dominated ones left out.

    A column is dominated by another of the same placement that is as fast, needs no more prefetched and leaves
    at least as much idle after what it needs less: exchanging them never costs anything
    (`docs/explanations/exact-proof.md`).
    """
    place = placements(len(tables.capacity_bytes), len(of.tensors))
    moved, start_s = traffic(tables, of, place).astype(np.float64), starting(tables, of, place)
    weight = of.column(of.op, WEIGHT)
    if weight is None or not streams(tables, of.op):
        return _without_stream(tables, of.op, place, moved, start_s)
    streamed = place[:, weight] == 0
    fixed = _without_stream(tables, of.op, place[~streamed], moved[~streamed], start_s[~streamed])
    room = _room(tables, of, place[streamed])
    ahead = _with_stream(tables, of.op, place[streamed], moved[streamed], start_s[streamed], room)
    return Columns(
        np.concatenate([fixed.place, ahead.place]),
        np.concatenate([fixed.duration_s, ahead.duration_s]),
        np.concatenate([fixed.used_bytes, ahead.used_bytes]),
        np.concatenate([fixed.idle_bytes, ahead.idle_bytes]),
    )


class ColumnsOf:
    """`columns` of the ops of one problem, worked out once for all ops that are alike; layers repeat."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._found: dict[tuple[object, ...], Columns] = {}

    def __call__(self, of: Scope) -> Columns:
        """All columns of an op; read only, since other ops may share them."""
        tables, i = self._tables, of.op
        own = (tables.weight_bytes, tables.weight_read_bytes, tables.passes, tables.activation_bytes)
        about = (tables.external_bytes, tables.is_output, tables.rearranges, tables.compute_s)
        alike = (
            *(table[i] for table in (*own, *about)),
            *((op == i, head, tables.activation_bytes[op]) for op, head in of.tensors),
            of.read_bytes.tobytes(),
            of.transfers.tobytes(),
        )
        if alike not in self._found:
            self._found[alike] = columns(tables, of)
        return self._found[alike]


def _room(tables: Tables, of: Scope, place: Places) -> Floats:
    """float64 [C]: bytes of `into` that the op's own tensors leave, none of which is its weight."""
    sizes = np.array([0 if head == WEIGHT else tables.activation_bytes[op] for op, head in of.tensors])
    held = ((place == tables.into) * sizes).sum(axis=1)
    return np.asarray(np.maximum(tables.capacity_bytes[tables.into] - held, 0), np.float64)


def combined(stream_s: Floats, shared: float) -> Floats:
    """What memories [..., L] that are busy so long may take together, each [..., L]: the largest is what they take."""
    return np.asarray((1.0 - shared) * stream_s + shared * stream_s.sum(axis=-1, keepdims=True))


def _lines(tables: Tables, stream_s: Floats, compute_s: float) -> Floats:
    """Seconds [..., K] of which an op takes the largest: lines in those of its memories [..., L], and of computing.

    The longer of computing and transfers, and a share of the shorter: as long as it is at most 1, the larger of both
    orders. Linear without a constant, so that slopes go the same way.
    """
    transfer_s, waits = combined(stream_s, tables.shared), tables.serial
    compute = np.broadcast_to(compute_s, stream_s.shape[:-1])[..., None]
    if not waits:
        return np.concatenate([transfer_s, compute], axis=-1)
    return np.concatenate([transfer_s + waits * compute, compute + waits * transfer_s], axis=-1)


def _duration(tables: Tables, op: int, moved: Floats, start_s: Floats) -> Floats:
    """Seconds [...] of traffic [..., L] whose starts take so many seconds [..., L]."""
    lines = _lines(tables, moved * tables.inverse_bandwidth + start_s, float(tables.compute_s[op]))
    return np.asarray(tables.launch_s + lines.max(axis=-1))


def _idle(tables: Tables, duration_s: Floats, moved: Floats) -> Floats:
    """Bytes [..., 1 + number of watched memories] that each limit leaves to the DMA."""
    limits = [duration_s * tables.bandwidth_Bps[m] - moved[..., m] for m in watched(tables)]
    limits.append(np.full_like(duration_s, float(tables.capacity_bytes[tables.into])))
    return np.stack(limits, axis=-1)


def _without_stream(tables: Tables, op: int, place: Places, moved: Floats, start_s: Floats) -> Columns:
    duration = _duration(tables, op, moved, start_s)
    idle = np.maximum(_idle(tables, duration, moved).min(axis=-1), 0.0)
    return Columns(place, duration, np.zeros(len(place)), idle)


def _with_stream(
    tables: Tables, op: int, place: Places, moved: Floats, start_s: Floats, room: Floats
) -> Columns:
    """Columns of placements whose weight is streamed: one at every breakpoint of duration and idle bytes.

    `room` float64 [C] is where the range of prefetched bytes ends.
    """
    most = np.minimum(float(tables.weight_bytes[op]), room)
    change = slope(tables, op)

    # Duration is the largest of lines in b; it can only bend where two of them cross.
    start = _lines(tables, moved * tables.inverse_bandwidth + start_s, float(tables.compute_s[op]))
    rise = _lines(tables, change * tables.inverse_bandwidth, 0.0)
    bends = [np.zeros(len(place)), most]
    for p, q in combinations(range(len(rise)), 2):
        if rise[p] != rise[q]:
            bends.append((start[:, q] - start[:, p]) / (rise[p] - rise[q]))
    used = np.sort(np.clip(np.stack(bends, axis=1), 0.0, most[:, None]), axis=1)

    # Between two bends each limit on the DMA is a line; the smallest changes only where two of them cross.
    limits = _idle(tables, *_at(tables, op, moved, start_s, change, used))
    crossings = [used]
    for p, q in combinations(range(limits.shape[2]), 2):
        gap = limits[:, :, p] - limits[:, :, q]
        left, right = gap[:, :-1], gap[:, 1:]
        share = np.divide(left, left - right, out=np.zeros_like(left), where=left * right < 0)
        crossings.append(used[:, :-1] + share * (used[:, 1:] - used[:, :-1]))
    used = np.concatenate(crossings, axis=1)

    duration, at = _at(tables, op, moved, start_s, change, used)
    idle = np.maximum(_idle(tables, duration, at).min(axis=-1), 0.0)
    keep = ~_is_dominated(duration, used, idle)
    row, _ = np.nonzero(keep)
    return Columns(place[row], duration[keep], used[keep], idle[keep])


def _at(
    tables: Tables, op: int, moved: Floats, start_s: Floats, change: Floats, used: Floats
) -> tuple[Floats, Floats]:
    """Durations [C, V] and traffic [C, V, L] where `used` [C, V] bytes were prefetched."""
    at = moved[:, None, :] + used[:, :, None] * change
    return _duration(tables, op, at, start_s[:, None, :]), at


def _is_dominated(duration: Floats, used: Floats, idle: Floats) -> NDArray[np.bool_]:
    """bool [C, V]: another vertex of the row is no worse (the first of equal vertices stays)."""
    net = idle - used
    out: NDArray[np.bool_] = np.zeros(duration.shape, np.bool_)
    for v in range(duration.shape[1]):
        one = slice(v, v + 1)
        better = (duration <= duration[:, one]) & (used <= used[:, one]) & (net >= net[:, one])
        equal = (duration == duration[:, one]) & (used == used[:, one]) & (net == net[:, one])
        equal[:, :v] = False
        out[:, v] = (better & ~equal).any(axis=1)
    return out
