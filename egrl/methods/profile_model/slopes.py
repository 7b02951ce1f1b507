"""The kernels of `times` once more, with the derivatives of each op's time by all constants.

Within an op derivatives go backwards, from its time to what it was made of; from op to op they go forwards with the
bucket (Griewank and Walther, Evaluating Derivatives, 2008, chapter 3). One pass replaces one prediction per parameter.
Where the times have a kink, the derivative is that of the side taken. There is no residual.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl.methods.profile_model.accesses import Accesses
from egrl.methods.profile_model.times import Constants, bucket, fetched_bytes, op_seconds, quotient
from hwsim.jit import inlined, kernel
from hwsim.problem import Floats, Mapping16

RATE, LATENCY, CROSS, EXPOSED, OVERHEAD, STAY, SHARE, GAIN, ROOM, FREE_SHARE, LOSS, CHARGE = range(12)
"""The groups of constants, in the order of `family.PRIOR`."""


@inlined
def _bytes(
    accesses: Accesses, constants: Constants, mapping: Mapping16, i: int, ahead: float, left: Floats
) -> float:
    """Bytes that stay where they are of op i; fill left float64 [most accesses of an op], bytes of each that do not
    lie fetched ahead."""
    out = accesses.output[i]
    home = mapping[i, accesses.head[out]] if out >= 0 else -1
    stays = 0.0
    for a in range(accesses.start[i], accesses.start[i + 1]):
        m, k = mapping[accesses.node[a], accesses.head[a]], a - accesses.start[i]
        left[k] = accesses.size[a]
        if accesses.role[a] == constants.role and m == constants.memory:
            left[k] *= 1.0 - ahead
        if m >= 0 and m == home and accesses.node[a] != i:
            stays += constants.stay[accesses.group[i]] * left[k]
    return stays


@inlined
def _backwards(
    accesses: Accesses,
    constants: Constants,
    mapping: Mapping16,
    i: int,
    used: float,
    fetchable: float,
    stays: float,
    left: Floats,
    busy: Floats,
    by_memory: Floats,
    at: NDArray[np.int64],
    out: Floats,
    factors: Floats,
) -> float:
    """Derivatives of a quantity of op i, given those `by_memory` float64 [L] by the seconds of each memory.

    They are added to `out` float64 [P], by constants, and written to `factors` float64 [Q], by the logarithms of the
    factors of its first accesses; the derivative by `used` is returned. Of its bytes `fetchable` could be fetched
    ahead; `stays` and `left` come from `_bytes`; `busy` float64 [L] has the bytes in each memory.
    """
    levels, group = len(constants.latency), accesses.group[i]
    output, keep = accesses.output[i], constants.stay[group]
    home = mapping[i, accesses.head[output]] if output >= 0 else -1
    by_used = 0.0
    for m in range(levels):
        by_used += by_memory[m] * constants.charge[m]
        out[at[CHARGE] + m] += by_memory[m] * used
        if busy[m] > 0.0:
            for other in range(levels):
                out[at[CROSS] + m * levels + other] += by_memory[other] * busy[m]
    by_stays = 0.0
    # The output first: what it says of the bytes that stay, inputs need.
    for a in range(accesses.start[i + 1] - 1, accesses.start[i] - 1, -1):
        m, role = mapping[accesses.node[a], accesses.head[a]], accesses.role[a]
        place = a - accesses.start[i]
        if m < 0:
            continue
        by_bytes = by_memory[m] * constants.rate[role, m]
        for other in range(levels):
            by_bytes += by_memory[other] * constants.cross[m, other]
        moved, by_left = left[place], by_bytes * constants.traffic[a]
        if a == output:
            moved = max(0.0, moved - stays)
            if moved > 0.0:
                by_stays = -by_left
            else:
                by_left = 0.0
        elif m == home and accesses.node[a] != i:
            out[at[STAY] + group] += moved * (by_stays - by_left)
            by_left = (1.0 - keep) * by_left + keep * by_stays
            moved *= 1.0 - keep
        moved *= constants.traffic[a]
        out[at[RATE] + role * levels + m] += by_memory[m] * moved
        out[at[LATENCY] + m] += by_memory[m]
        if place < len(factors):
            factors[place] = by_bytes * moved
        if role == constants.role and m == constants.memory:
            by_used -= by_left * accesses.size[a] / fetchable
    return by_used


@inlined
def _by_memory(
    constants: Constants, work: float, tau: Floats, at: NDArray[np.int64], by_memory: Floats, out: Floats
) -> float:
    """Fill derivatives of an op's time `by_memory` float64 [L], and `out` by what is exposed; return that by work."""
    exposed, levels = constants.exposed, len(by_memory)
    longest, slowest = (1.0 - exposed[levels]) * work, levels
    for m in range(levels):
        if (1.0 - exposed[m]) * tau[m] > longest:
            longest, slowest = (1.0 - exposed[m]) * tau[m], m
    for m in range(levels):
        by_memory[m] = 1.0 if m == slowest else exposed[m]
        out[at[EXPOSED] + m] = 0.0 if m == slowest else tau[m]
    out[at[EXPOSED] + levels] = 0.0 if slowest == levels else work
    out[at[OVERHEAD]] = 1.0
    return 1.0 if slowest == levels else float(exposed[levels])


@inlined
def _forwards(
    constants: Constants,
    at: NDArray[np.int64],
    used: float,
    ahead: float,
    held: float,
    room: float,
    free: float,
    later: float,
    d_used: Floats,
    d_ahead: Floats,
    d_held: Floats,
) -> float:
    """The bytes that the bucket holds after an op, and their derivatives float64 [P] in place of `d_held`."""
    most = min(room - used, later)
    if held - used + ahead <= most:
        for p in range(len(d_held)):
            d_held[p] += d_ahead[p] - d_used[p]
        return held - used + ahead
    if most > 0.0 and room - used < later:
        for p in range(len(d_held)):
            d_held[p] = -d_used[p]
        d_held[at[ROOM]] += 1.0
        d_held[at[FREE_SHARE]] += free
    else:
        d_held[:] = 0.0
        d_held[at[SHARE]] = max(0.0, later) / constants.share if most > 0.0 else 0.0
    return max(0.0, most)


@kernel
def _slopes(
    accesses: Accesses,
    constants: Constants,
    mapping: Mapping16,
    at: NDArray[np.int64],
    seconds: Floats,
    shared: Floats,
    own: Floats,
) -> None:
    """See `slopes`, of one mapping [N, H]: what goes from op to op carries its derivatives by all constants."""
    nodes, levels, size = len(accesses.output), len(constants.latency), shared.shape[1]
    free, tau, wanted = np.zeros(nodes), np.zeros(2 * levels), np.zeros(nodes)
    left, by_memory, none = np.zeros(np.diff(accesses.start).max()), np.zeros(levels), np.zeros(0)
    d_held, d_used, d_ahead = np.zeros(size), np.zeros(size), np.zeros(size)
    held, later = 0.0, bucket(accesses, constants, mapping, free, wanted)
    for i in range(nodes):
        slope, factors, busy = shared[i], own[i, 1:], tau[levels:]
        room = max(0.0, constants.room + constants.free_share * free[i])
        if held > room:
            held = room
            d_held[:] = 0.0
            d_held[at[ROOM]], d_held[at[FREE_SHARE]] = (1.0, free[i]) if room > 0.0 else (0.0, 0.0)
        used = min(held, wanted[i])
        t = seconds[i] = op_seconds(accesses, constants, mapping, i, used, wanted[i], tau)
        fetchable = quotient(wanted[i], constants.share) if wanted[i] > 0.0 else 1.0
        stays = _bytes(accesses, constants, mapping, i, used / fetchable, left)
        own[i, 0] = constants.work[i] * _by_memory(constants, constants.work[i], tau, at, by_memory, slope)
        by_used = _backwards(
            accesses, constants, mapping, i, used, fetchable, stays, left, busy, by_memory, at, slope, factors
        )
        if constants.role < 0:
            continue
        if held < wanted[i]:
            d_used[:] = d_held
        else:
            d_used[:] = 0.0
            d_used[at[SHARE]] = fetchable if wanted[i] > 0.0 else 0.0
        # The idle time, in which bytes are fetched, is the op's less some of its memories' seconds.
        d_ahead[:] = slope
        for m in range(levels):
            by_memory[m] = -constants.loss[m]
            d_ahead[at[LOSS] + m] -= tau[m]
        by_idle = by_used + _backwards(
            accesses, constants, mapping, i, used, fetchable, stays, left, busy, by_memory, at, d_ahead, none
        )
        ahead = fetched_bytes(constants, t, tau)
        gain = constants.gain if ahead > 0.0 else 0.0
        for p in range(size):
            slope[p] += by_used * d_used[p]
            d_ahead[p] = gain * (d_ahead[p] + by_idle * d_used[p])
        d_ahead[at[GAIN]] += quotient(ahead, constants.gain)
        later -= wanted[i]
        held = _forwards(constants, at, used, ahead, held, room, free[i], later, d_used, d_ahead, d_held)


@kernel
def _all_slopes(
    accesses: Accesses,
    constants: Constants,
    mapping: Mapping16,
    at: NDArray[np.int64],
    seconds: Floats,
    shared: Floats,
    own: Floats,
) -> None:
    for b in range(len(mapping)):
        _slopes(accesses, constants, mapping[b], at, seconds[b], shared[b], own[b])


def slopes(
    accesses: Accesses,
    constants: Constants,
    mapping: Mapping16,
    at: NDArray[np.int64],
    size: int,
    factors: int,
) -> tuple[Floats, Floats, Floats]:
    """Seconds of every op of mappings int16 [B, N, H], float64 [B, N], and derivatives of their logarithms.

    These are by the P constants that ops share, float64 [B, N, P], of which group g begins at `at[g]`; and by the
    logarithms of the op's own work and of its first `factors` accesses' factors, float64 [B, N, 1 + factors].
    """
    seconds = np.empty(mapping.shape[:2])
    shared, own = np.zeros((*seconds.shape, size)), np.zeros((*seconds.shape, 1 + factors))
    _all_slopes(accesses, constants, np.ascontiguousarray(mapping), at, seconds, shared, own)
    return seconds, shared / seconds[:, :, None], own / seconds[:, :, None]
