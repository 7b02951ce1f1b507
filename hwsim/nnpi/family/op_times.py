"""Seconds of each op under a model of the family, and how they depend on the parameters.

Of a parameter that many ops have in common the slope is exact: it is carried forwards with the state of the DMA. Of a
parameter of a single op or tensor it is what the op itself and the readers of its output feel.

Deviation: that an op which takes longer lets the DMA fetch more for later ops is left out of the slopes of parameters
of single ops. So a step by these slopes is only nearly the one of Gauss and Newton; the seconds are exact.

Source: accumulation forwards (Griewank and Walther, Evaluating Derivatives, 2008), of the equations of
`hwsim.nnpi.family.cost`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.nnpi.family.cost import END, FULL, IDLE, Tape, Terms, seconds
from hwsim.nnpi.tables import Tables
from hwsim.problem import Floats, Mapping16


@kernel
def _add(into: Floats, factor: float, slope: Floats) -> None:
    """into += factor * slope, without a copy."""
    if factor != 0.0:
        for s in range(len(into)):
            into[s] += factor * slope[s]


@kernel
def _moved(
    tables: Tables, terms: Terms, mapping: Mapping16, i: int, shared: Floats, own: Floats, to: Floats
) -> None:
    """Slopes of the traffic of op i whose bytes do not depend on the DMA.

    `to` float64 [L, S] becomes that of each memory by the common parameters; `own` float64 [L, 2 + K] by the factors of
    the op's weight (left 0 here), of its activation, and of those that its K edges read.
    """
    levels, ops = len(tables.capacity_bytes), len(mapping)
    at_activation = 2 * levels + 3 + 2 * ops
    home = mapping[i, 1]
    written, stays = 0.0, 0.0
    if home >= 0:
        written = tables.written_bytes[i] * terms.activation_factor[i]
    first = tables.edge_start[i]
    for e in range(first, tables.edge_start[i + 1]):
        producer = tables.edge_source[e]
        source = mapping[producer, 1]
        moved = tables.edge_bytes[e] * terms.activation_factor[producer]
        if terms.moves and tables.rearranges[i] and source == home:
            stays += moved
        elif source >= 0:
            own[source, 2 + e - first] += moved
    if home >= 0 and written > stays:
        own[home, 1] += written
        if stays > 0.0:
            for e in range(first, tables.edge_start[i + 1]):
                if mapping[tables.edge_source[e], 1] == home:
                    own[home, 2 + e - first] -= (
                        tables.edge_bytes[e] * terms.activation_factor[tables.edge_source[e]]
                    )
    if home > 0 and terms.moves and tables.is_output[i]:
        own[0, 1] += written
    for m in range(levels):
        _add(to[m], own[m, 1], shared[at_activation + i])
        for e in range(first, tables.edge_start[i + 1]):
            _add(to[m], own[m, 2 + e - first], shared[at_activation + tables.edge_source[e]])


@kernel
def _weigh(
    tables: Tables,
    terms: Terms,
    weight: int,
    i: int,
    tape: Tape,
    shared: Floats,
    own: Floats,
    to: Floats,
    by_fetched: Floats,
    by_buffered: Floats,
) -> None:
    """Slopes of the bytes of op i's weight, which lies in the memory `weight`: added to `own` and `to` as in `_moved`.

    `by_fetched` float64 [S], d bytes fetched / d parameter, becomes what it is while the op runs; `by_buffered` [S]
    becomes d bytes of the weight in the buffer / d parameter.
    """
    into, at_weight = tables.into, 2 * tape.traffic.shape[1] + 3 + len(tape.duration_s)
    if tape.kept[i] != tape.before[i]:
        by_fetched[:] = 0.0
    by_buffered[:] = 0.0
    if weight < 0:
        return
    passes, factor = tables.pass_bytes[i], terms.weight_factor[i]
    if weight == 0 and tables.passes[i] > 0:
        if tape.kept[i] - tape.position[i] < tables.weight_bytes[i]:
            by_buffered[:] = by_fetched
        if tape.kept[i] <= tape.position[i] + tables.weight_bytes[i]:
            by_fetched[:] = 0.0
    own[into, 0] += tape.buffered[i] * passes * factor
    own[weight, 0] += (tables.weight_read_bytes[i] - tape.buffered[i] * passes) * factor
    _add(to[into], own[into, 0], shared[at_weight + i])
    if weight != into:
        _add(to[weight], own[weight, 0], shared[at_weight + i])
    _add(to[into], passes * factor, by_buffered)
    _add(to[weight], -passes * factor, by_buffered)


@kernel
def _fetch(
    terms: Terms,
    i: int,
    tape: Tape,
    shared: Floats,
    row: Floats,
    to: Floats,
    by_fetched: Floats,
    by_buffered: Floats,
) -> None:
    """Bring `by_fetched` float64 [S] to the end of op i, whose seconds have the slopes `row` [S]."""
    if tape.limit[i, 0] == IDLE:
        m = tape.limit[i, 1]
        _add(by_fetched, terms.bandwidth_Bps[m], row)
        _add(by_fetched, tape.duration_s[i] * terms.bandwidth_Bps[m], shared[m])
        _add(by_fetched, -1.0, to[m])
    elif tape.limit[i, 0] == FULL:
        by_fetched[:] = 0.0
        _add(by_fetched, -1.0, by_buffered)
    elif tape.limit[i, 0] == END:
        by_fetched[:] = 0.0


@kernel
def _streams(terms: Terms, tape: Tape, i: int) -> tuple[float, float, int]:
    """The transfers during op i: seconds of the longest, seconds of all, and the memory of the longest."""
    longest, together, busiest = 0.0, 0.0, 0
    for m in range(tape.traffic.shape[1]):
        stream_s = tape.traffic[i, m] / terms.bandwidth_Bps[m] + tape.accesses[i, m] * terms.access_s[m]
        if stream_s > longest:
            longest, busiest = stream_s, m
        together += stream_s
    return longest, together, busiest


@kernel
def _sweep(
    tables: Tables,
    terms: Terms,
    mapping: Mapping16,
    tape: Tape,
    shared: Floats,
    entry: NDArray[np.int64],
    common: Floats,
    alone: Floats,
) -> None:
    """Fill `common` float64 [N, S] and `alone` [X], d seconds of each op, of one mapping int16 [N, 2].

    `entry` int64 [N + 1] says where the entries of an op begin in `alone`: by the logarithms of its compute seconds, of
    its weight's factor, of its activation's, and of those that its edges read.
    """
    via, levels, ops = tables.via, tape.traffic.shape[1], len(mapping)
    at_compute = 2 * levels + 3
    directions = shared.shape[1]
    by_fetched = np.zeros(directions)  # d bytes fetched / d parameter
    by_buffered, by_transfer = np.zeros(directions), np.zeros(directions)
    to = np.zeros((levels, directions))
    for i in range(ops):
        edges = tables.edge_start[i + 1] - tables.edge_start[i]
        own = np.zeros((levels, 2 + edges))
        to[:] = 0.0
        _moved(tables, terms, mapping, i, shared, own, to)

        _weigh(tables, terms, mapping[i, 0], i, tape, shared, own, to, by_fetched, by_buffered)
        if terms.cross:
            own[via] += own[0]
            _add(to[via], 1.0, to[0].copy())

        # The op's duration.
        longest, together, busiest = _streams(terms, tape, i)
        transfer_s = longest + terms.shared * (together - longest)
        compute_s = terms.compute_s[i]
        computes = compute_s >= transfer_s
        of_compute = 1.0 if computes else terms.serial
        of_transfer = terms.serial if computes else 1.0
        by_transfer[:] = 0.0
        at = entry[i]
        alone[at] = of_compute * compute_s
        alone[at + 1 : entry[i + 1]] = 0.0
        for m in range(levels):
            share = 1.0 if m == busiest else terms.shared
            _add(by_transfer, share / terms.bandwidth_Bps[m], to[m])
            _add(by_transfer, -share * tape.traffic[i, m] / terms.bandwidth_Bps[m], shared[m])
            _add(by_transfer, share * tape.accesses[i, m] * terms.access_s[m], shared[levels + m])
            for k in range(2 + edges):
                alone[at + 1 + k] += of_transfer * share * own[m, k] / terms.bandwidth_Bps[m]
        _add(by_transfer, (together - longest) * terms.shared, shared[2 * levels + 2])
        row = common[i]
        row[:] = 0.0
        _add(row, terms.launch_s, shared[2 * levels])
        _add(row, of_compute * compute_s, shared[at_compute + i])
        _add(row, min(compute_s, transfer_s) * terms.serial, shared[2 * levels + 1])
        _add(row, of_transfer, by_transfer)

        _fetch(terms, i, tape, shared, row, to, by_fetched, by_buffered)


@kernel
def op_slopes(
    tables: Tables,
    terms: Terms,
    mapping: Mapping16,
    tape: Tape,
    shared: Floats,
    entry: NDArray[np.int64],
    out: tuple[Floats, Floats, Floats],
) -> None:
    """Fill seconds [B, N], `common` [B, N, S] and `alone` [B, X] of valid canonical mappings int16 [B, N, 2].

    `shared` float64 [R, S] says how the logarithm of each raw term depends on the common parameters; `entry` and
    `alone` are as in `_sweep`.
    """
    took_s, common, alone = out
    levels = len(tables.capacity_bytes)
    traffic, accesses = np.zeros(levels), np.zeros(levels, np.int64)
    for b in range(len(mapping)):
        seconds(tables, terms, mapping[b], traffic, accesses, tape)
        took_s[b] = tape.duration_s
        _sweep(tables, terms, mapping[b], tape, shared, entry, common[b], alone[b])
