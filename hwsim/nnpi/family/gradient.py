"""The gradient of an inference's latency under a model of the family, by one sweep backwards.

Source: reverse accumulation (Griewank and Walther, Evaluating Derivatives, 2008), written out by hand. The only
continuous state between ops is how far the DMA has fetched, so the sweep carries one number.
"""

from __future__ import annotations

import numpy as np

from hwsim.jit import kernel
from hwsim.nnpi.family.cost import END, FULL, IDLE, Tape, Terms, seconds
from hwsim.nnpi.tables import Tables
from hwsim.problem import Floats, Mapping16


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
