"""Latency of one inference under a model of the family, and its gradient.

The equations are those of `hwsim.nnpi.latency`, with every constant a parameter, and a residual of each tensor's place
on top. With the residual 0 and all factors 1 this is the simulator's latency (its DMA counts whole bytes, this one
fractions of them).

`gradients` differentiates the latency by one sweep backwards. The only continuous state between ops is how far the DMA
has fetched, so the sweep carries one number. Source: reverse accumulation (Griewank and Walther, Evaluating
Derivatives, 2008), written out by hand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.nnpi.tables import Tables
from hwsim.problem import Floats, Mapping16

NOTHING, IDLE, FULL, END = 0, 1, 2, 3
"""What limits the DMA while an op runs: it has nothing to do, bandwidth that is idle, room, the end of the stream."""


class Terms(NamedTuple):
    """The parameters of one model, as the kernels read them: N ops, L memories.

    Attributes:
        weight_factor, activation_factor: float64 [N], on the bytes that a tensor's reads and writes move.
        compute_s: float64 [N].
        bandwidth_Bps: float64 [L].
        access_s: float64 [L], latency of one access of an op to a tensor in that memory.
        launch_s: of every op.
        serial: share of the shorter of compute and transfer that does not overlap with the longer, 0..1.
        shared: share of a transfer that waits for those of other memories, 0..1.
        residual_s: float64 [N, 2, L], what a tensor's place adds for reasons that no other term has.
        cross, prefetch, contention, moves: switches, as in `Tables`.
    """

    weight_factor: Floats
    activation_factor: Floats
    compute_s: Floats
    bandwidth_Bps: Floats
    access_s: Floats
    launch_s: float
    serial: float
    shared: float
    residual_s: Floats
    cross: bool
    prefetch: bool
    contention: bool
    moves: bool


class Tape(NamedTuple):
    """What the sweep backwards needs of each op; every array has 0 rows if no gradient is wanted.

    Attributes:
        traffic: float64 [N, L], bytes moved on each memory.
        accesses: int64 [N, L].
        duration_s: float64 [N].
        before, kept, buffered: float64 [N], bytes of the stream: fetched before the op, what of it still has room, and
            what of the op's weight.
        position: float64 [N], where the weights of this and later ops begin in the stream.
        free: float64 [N], bytes free in `into` while the op runs.
        limit: int64 [N], NOTHING … END; and in the second column the memory whose bandwidth limits.
    """

    traffic: Floats
    accesses: NDArray[np.int64]
    duration_s: Floats
    before: Floats
    kept: Floats
    buffered: Floats
    position: Floats
    free: Floats
    limit: NDArray[np.int64]

    @staticmethod
    def empty(ops: int, memories: int) -> Tape:
        """Room for `ops` ops."""
        n = np.zeros
        return Tape(
            n((ops, memories)),
            n((ops, memories), np.int64),
            n(ops),
            n(ops),
            n(ops),
            n(ops),
            n(ops),
            n(ops),
            n((ops, 2), np.int64),
        )


@kernel
def no_tape(memories: int) -> Tape:
    """A tape without rows: no gradient is wanted. Called from kernels."""
    none, table = np.zeros(0), np.zeros((0, memories))
    whole = np.zeros((0, memories), np.int64)
    return Tape(table, whole, none, none, none, none, none, none, np.zeros((0, 2), np.int64))


@kernel
def seconds(
    tables: Tables, terms: Terms, mapping: Mapping16, traffic: Floats, accesses: NDArray[np.int64], tape: Tape
) -> float:
    """Seconds of a valid mapping int16 [N, 2]; `traffic` and `accesses` [L] are scratch; fills `tape` if it has rows.

    See `hwsim.nnpi.latency.inference_seconds`, which it follows line by line.
    """
    into, via, levels = tables.into, tables.via, len(traffic)
    weight_bytes, activation_bytes, passes = tables.weight_bytes, tables.activation_bytes, tables.passes
    weight_factor, activation_factor = terms.weight_factor, terms.activation_factor
    bandwidth, access_s, residual_s = terms.bandwidth_Bps, terms.access_s, terms.residual_s
    taping = len(tape.duration_s) > 0
    # Weights pinned in the prefetch memory are held throughout; those in the slowest one make up the stream.
    free = float(tables.capacity_bytes[into])
    stream_end = 0.0
    for i in range(len(mapping)):
        if mapping[i, 0] == into:
            free -= weight_bytes[i]
        elif mapping[i, 0] == 0 and passes[i] > 0:
            stream_end += weight_bytes[i]
    total_s = 0.0
    position = 0.0
    fetched = 0.0
    for i in range(len(mapping)):
        traffic[:] = 0.0
        accesses[:] = 0
        weight, home = mapping[i, 0], mapping[i, 1]
        if home == into:
            free -= activation_bytes[i]
        before, begins = fetched, position
        # What was fetched for later ops and no longer fits beside the new activation is given up.
        kept = fetched = max(position, min(fetched, position + free))

        # The weight: what is prefetched of it is read from `into`, the rest from where it lies.
        buffered = 0.0
        if weight >= 0:
            from_home = float(tables.weight_read_bytes[i])
            if weight == 0 and passes[i] > 0:
                buffered = min(float(weight_bytes[i]), fetched - position)
                traffic[into] += buffered * tables.pass_bytes[i] * weight_factor[i]
                from_home -= buffered * tables.pass_bytes[i]
                position += weight_bytes[i]
                fetched = max(position, fetched)
            traffic[weight] += from_home * weight_factor[i]
            if tables.weight_read_bytes[i] > 0:
                accesses[weight] += tables.steps[i]
            total_s += residual_s[i, 0, weight]

        # Inputs and output. With `moves`, an op that only rearranges bytes moves no input out of its output's memory.
        stays = 0.0
        for e in range(tables.edge_start[i], tables.edge_start[i + 1]):
            producer = tables.edge_source[e]
            source = mapping[producer, 1]
            moved = tables.edge_bytes[e] * activation_factor[producer]
            if terms.moves and tables.rearranges[i] and source == home:
                stays += moved
            elif source >= 0:
                traffic[source] += moved
                accesses[source] += tables.edge_bytes[e] > 0
        if home >= 0:
            written = tables.written_bytes[i] * activation_factor[i]
            traffic[home] += max(written - stays, 0.0)
            accesses[home] += 1
            total_s += residual_s[i, 1, home]
            if terms.moves and tables.is_output[i] and home > 0:
                traffic[0] += written
        if terms.moves:
            traffic[0] += tables.external_bytes[i]
        if terms.cross:
            traffic[via] += traffic[0]

        longest = 0.0
        together = 0.0
        for m in range(levels):
            stream_s = traffic[m] / bandwidth[m] + accesses[m] * access_s[m]
            longest = max(longest, stream_s)
            together += stream_s
        transfer_s = longest + terms.shared * (together - longest)
        compute_s = terms.compute_s[i]
        duration_s = terms.launch_s + max(compute_s, transfer_s) + terms.serial * min(compute_s, transfer_s)
        total_s += duration_s

        # Meanwhile the DMA fetches later weights, as far as idle bandwidth, room and the stream allow.
        limit, limiting = NOTHING, 0
        if terms.prefetch and fetched < stream_end:
            idle = duration_s * bandwidth[0] - traffic[0]
            if terms.contention:
                at_into = duration_s * bandwidth[into] - traffic[into]
                if at_into < idle:
                    idle, limiting = at_into, into
                if terms.cross:
                    at_via = duration_s * bandwidth[via] - traffic[via]
                    if at_via < idle:
                        idle, limiting = at_via, via
            room = free - buffered - (fetched - position)
            ahead = min(idle, room, stream_end - fetched)
            if ahead > 0.0:
                limit = IDLE if ahead == idle else (FULL if ahead == room else END)
                fetched += ahead
        if taping:
            tape.traffic[i, :] = traffic
            tape.accesses[i, :] = accesses
            tape.duration_s[i] = duration_s
            tape.before[i] = before
            tape.kept[i] = kept
            tape.buffered[i] = buffered
            tape.position[i] = begins
            tape.free[i] = free
            tape.limit[i, 0] = limit
            tape.limit[i, 1] = limiting
        for k in range(tables.free_start[i], tables.free_start[i + 1]):
            dead = tables.free_op[k]
            if mapping[dead, 1] == into:
                free += activation_bytes[dead]
    return total_s


@kernel
def predictions(tables: Tables, terms: Terms, mapping: Mapping16) -> Floats:
    """Seconds float64 [B] of valid canonical mappings int16 [B, N, 2]."""
    levels = len(tables.capacity_bytes)
    tape: Tape = no_tape(levels)
    traffic = np.zeros(levels)
    accesses = np.zeros(levels, np.int64)
    out = np.empty(len(mapping))
    for b in range(len(mapping)):
        out[b] = seconds(tables, terms, mapping[b], traffic, accesses, tape)
    return out


@kernel
def _backwards(tables: Tables, terms: Terms, mapping: Mapping16, tape: Tape, slope: Floats) -> None:
    """Fill `slope` float64 [2 L + 3 + 3 N]: d seconds / d log of each term, in the order that `gradients` says."""
    into, via, levels, ops = tables.into, tables.via, tape.traffic.shape[1], len(mapping)
    at_launch = 2 * levels
    at_serial, at_shared, at_compute = at_launch + 1, at_launch + 2, at_launch + 3
    at_weight, at_activation = at_compute + ops, at_compute + 2 * ops
    by_traffic = np.zeros(levels)
    slope[:] = 0.0
    by_fetched = 0.0  # d seconds / d bytes fetched when this op ends
    for i in range(ops - 1, -1, -1):
        weight, home = mapping[i, 0], mapping[i, 1]
        by_traffic[:] = 0.0
        by_duration, by_buffered = 1.0, 0.0

        # What the DMA fetched while the op ran.
        if tape.limit[i, 0] == IDLE:
            m = tape.limit[i, 1]
            by_duration += by_fetched * terms.bandwidth_Bps[m]
            by_traffic[m] -= by_fetched
            slope[m] += by_fetched * tape.duration_s[i] * terms.bandwidth_Bps[m]
        elif tape.limit[i, 0] == FULL:
            by_buffered -= by_fetched
            by_fetched = 0.0
        elif tape.limit[i, 0] == END:
            by_fetched = 0.0

        # The op's duration.
        longest, together, busiest = 0.0, 0.0, 0
        for m in range(levels):
            stream_s = tape.traffic[i, m] / terms.bandwidth_Bps[m] + tape.accesses[i, m] * terms.access_s[m]
            if stream_s > longest:
                longest, busiest = stream_s, m
            together += stream_s
        transfer_s = longest + terms.shared * (together - longest)
        compute_s = terms.compute_s[i]
        by_compute = by_duration * (1.0 if compute_s >= transfer_s else terms.serial)
        by_transfer = by_duration * (terms.serial if compute_s >= transfer_s else 1.0)
        slope[at_launch] += by_duration * terms.launch_s
        slope[at_serial] += by_duration * min(compute_s, transfer_s) * terms.serial
        slope[at_shared] += by_transfer * (together - longest) * terms.shared
        slope[at_compute + i] += by_compute * compute_s
        for m in range(levels):
            by_stream = by_transfer * (1.0 if m == busiest else terms.shared)
            by_traffic[m] += by_stream / terms.bandwidth_Bps[m]
            slope[m] -= by_stream * tape.traffic[i, m] / terms.bandwidth_Bps[m]
            slope[levels + m] += by_stream * tape.accesses[i, m] * terms.access_s[m]

        # The bytes it moved.
        if terms.cross:
            by_traffic[0] += by_traffic[via]
        written, stays = 0.0, 0.0
        if home >= 0:
            written = tables.written_bytes[i] * terms.activation_factor[i]
            if terms.moves and tables.is_output[i] and home > 0:
                slope[at_activation + i] += by_traffic[0] * written
        for e in range(tables.edge_start[i], tables.edge_start[i + 1]):
            producer = tables.edge_source[e]
            source = mapping[producer, 1]
            moved = tables.edge_bytes[e] * terms.activation_factor[producer]
            if terms.moves and tables.rearranges[i] and source == home:
                stays += moved
            elif source >= 0:
                slope[at_activation + producer] += by_traffic[source] * moved
        if written > stays:
            slope[at_activation + i] += by_traffic[home] * written
            if stays > 0.0:
                for e in range(tables.edge_start[i], tables.edge_start[i + 1]):
                    producer = tables.edge_source[e]
                    if mapping[producer, 1] == home:
                        moved = tables.edge_bytes[e] * terms.activation_factor[producer]
                        slope[at_activation + producer] -= by_traffic[home] * moved
        if weight >= 0:
            factor, passes = terms.weight_factor[i], tables.pass_bytes[i]
            from_home = tables.weight_read_bytes[i] - tape.buffered[i] * passes
            slope[at_weight + i] += (
                by_traffic[weight] * from_home + by_traffic[into] * tape.buffered[i] * passes
            ) * factor
            by_buffered += (by_traffic[into] - by_traffic[weight]) * passes * factor

            # What of its weight had been fetched.
            if weight == 0 and tables.passes[i] > 0:
                if tape.kept[i] <= tape.position[i] + tables.weight_bytes[i]:
                    by_fetched = 0.0
                if tape.kept[i] - tape.position[i] < tables.weight_bytes[i]:
                    by_fetched += by_buffered
        if tape.kept[i] != tape.before[i]:
            by_fetched = 0.0


@kernel
def gradients(tables: Tables, terms: Terms, mapping: Mapping16, tape: Tape) -> tuple[Floats, Floats]:
    """Seconds float64 [B] of valid canonical mappings int16 [B, N, 2], and their slopes float64 [B, 2 L + 3 + 3 N].

    A slope is d seconds / d log of: bandwidths [L], access latencies [L], launch, serial, shared, compute seconds [N],
    factors of weights [N] and of activations [N]. `tape` has N rows of scratch.
    """
    levels = len(tables.capacity_bytes)
    traffic = np.zeros(levels)
    accesses = np.zeros(levels, np.int64)
    out = np.empty(len(mapping))
    slopes = np.empty((len(mapping), 2 * levels + 3 + 3 * mapping.shape[1]))
    for b in range(len(mapping)):
        out[b] = seconds(tables, terms, mapping[b], traffic, accesses, tape)
        _backwards(tables, terms, mapping[b], tape, slopes[b])
    return out, slopes
