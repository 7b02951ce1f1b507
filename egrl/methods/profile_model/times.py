"""Kernels of a model of op times: what an op accesses where, what overlaps, and a state that goes from op to op.

Source: our own. The op model contains the roofline (Williams, Waterman, Patterson, CACM 2009) and the plain sum of all
times as its two ends; what lies between is learned. The state is a leaky bucket with learned coefficients.

Op i takes

    t_i = exp(delta_i) (overhead + sum_m exposed_m tau_m + exposed_L work_i
                        + max(max_m (1 - exposed_m) tau_m, (1 - exposed_L) work_i)),

where tau_m are the seconds of memory m: bytes of each role times a rate, a latency per access, and a share of the
bytes of other memories that cross it. The bucket holds bytes that were fetched ahead. Op i wants bytes of one role in
one memory; what the bucket has of them is charged to other memories at other rates. The bucket fills while an op
leaves time, is as large as a share of the free part of one memory, and never holds more than later ops want.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from egrl.methods.profile_model.accesses import Accesses
from hwsim.jit import inlined, kernel
from hwsim.memory_moves import Held, fill_free
from hwsim.problem import Floats, Mapping16


class Constants(NamedTuple):
    """A member of the family. Seconds are in units of the median op, bytes in those of the median tensor.

    Attributes:
        rate: float64 [R, L], seconds per byte of each role in each memory.
        latency: float64 [L], seconds per access.
        cross: float64 [L, L], seconds of the second memory for each byte in the first; 0 on the diagonal.
        exposed: float64 [L + 1] in 0..1, the share of the seconds of each memory, and of the work, that nothing hides.
        overhead: seconds per op.
        stay: float64 [G] in 0..1, for each kind of op the share of an input that is neither read nor written if the
            output lies in the same memory.
        work: float64 [N], seconds of the op's own work.
        traffic: float64 [A], a factor on the bytes of each access.
        delta: float64 [A, L], what an access in a memory adds to the logarithm of the op's time.
        role, memory: what is fetched ahead; role -1: nothing is.
        into: the memory in whose free part it is kept; -1: in none.
        share: in 0..1, the share of such a tensor that can be fetched ahead.
        gain: bytes per second that an op leaves.
        room: bytes that are kept at the least.
        free_share: in 0..1, the share of the free part of `into` that is used.
        loss: float64 [L], the share of each memory's seconds in which nothing can be fetched.
        charge: float64 [L], seconds of each memory for each byte that was fetched ahead.
    """

    rate: Floats
    latency: Floats
    cross: Floats
    exposed: Floats
    overhead: float
    stay: Floats
    work: Floats
    traffic: Floats
    delta: Floats
    role: int
    memory: int
    into: int
    share: float
    gain: float
    room: float
    free_share: float
    loss: Floats
    charge: Floats


@inlined
def quotient(a: float, b: float) -> float:
    """a / b in loops, where b is not 0 (`hwsim.jit.inlined`)."""
    return a / b


@inlined
def held_by(accesses: Accesses) -> Held:
    """What the tensors hold, and when."""
    return Held(accesses.tensor, accesses.first, accesses.last, accesses.capacity)


@inlined
def wanted_bytes(accesses: Accesses, constants: Constants, mapping: Mapping16, i: int) -> float:
    """Bytes of op i that can be fetched ahead."""
    wanted = 0.0
    for a in range(accesses.start[i], accesses.start[i + 1]):
        if (
            accesses.role[a] == constants.role
            and mapping[accesses.node[a], accesses.head[a]] == constants.memory
        ):
            wanted += constants.share * accesses.size[a]
    return wanted


@kernel
def bucket(
    accesses: Accesses, constants: Constants, mapping: Mapping16, free: Floats, wanted: Floats
) -> float:
    """Fill float64 [N]: bytes that are `free` for the bucket at each op, and `wanted` from it; return their sum."""
    if constants.into >= 0:
        fill_free(held_by(accesses), mapping, constants.into, free)
    for i in range(len(wanted)):
        wanted[i] = wanted_bytes(accesses, constants, mapping, i)
    return float(wanted.sum())


@inlined
def op_seconds(
    accesses: Accesses,
    constants: Constants,
    mapping: Mapping16,
    i: int,
    used: float,
    wanted: float,
    tau: Floats,
) -> float:
    """Seconds of op i, of whose `wanted` bytes `used` were fetched ahead; tau float64 [2 L] has its memories' seconds.

    The second half of `tau` is scratch: the bytes in each memory.
    """
    levels = len(constants.latency)
    ahead = constants.share * used / wanted if wanted > 0.0 else 0.0
    for m in range(levels):
        tau[m] = used * constants.charge[m]
        tau[levels + m] = 0.0
    out = accesses.output[i]
    home = mapping[i, accesses.head[out]] if out >= 0 else -1
    keep = constants.stay[accesses.group[i]]
    stays, delta = 0.0, 0.0
    for a in range(accesses.start[i], accesses.start[i + 1]):
        m = mapping[accesses.node[a], accesses.head[a]]
        if m < 0:
            continue
        role, left = accesses.role[a], accesses.size[a]
        if role == constants.role and m == constants.memory:
            left *= 1.0 - ahead
        # Inputs come before the output, so that all that stays is known when the output is written.
        if a == out:
            left = max(0.0, left - stays)
        elif m == home and accesses.node[a] != i:
            stays += keep * left
            left *= 1.0 - keep
        left *= constants.traffic[a]
        delta += constants.delta[a, m]
        tau[m] += left * constants.rate[role, m] + constants.latency[m]
        tau[levels + m] += left
    for m in range(levels):
        if tau[levels + m] > 0.0:
            for other in range(levels):
                tau[other] += constants.cross[m, other] * tau[levels + m]
    longest = (1.0 - constants.exposed[levels]) * constants.work[i]
    seconds = constants.overhead + constants.exposed[levels] * constants.work[i]
    for m in range(levels):
        longest = max(longest, (1.0 - constants.exposed[m]) * tau[m])
        seconds += constants.exposed[m] * tau[m]
    seconds += longest
    if delta != 0.0:
        seconds *= math.exp(delta)
    return seconds


@inlined
def fetched_bytes(constants: Constants, seconds: float, tau: Floats) -> float:
    """Bytes that can be fetched ahead during an op of so many seconds, whose memories are busy for `tau`."""
    idle = seconds
    for m in range(len(constants.loss)):
        idle -= constants.loss[m] * tau[m]
    return constants.gain * max(0.0, idle)


@kernel
def _predict(accesses: Accesses, constants: Constants, mapping: Mapping16, out: Floats) -> None:
    nodes = len(accesses.output)
    free, tau = np.zeros(nodes), np.zeros(2 * len(constants.latency))
    wanted = np.zeros(nodes)
    for b in range(len(mapping)):
        held, later = 0.0, bucket(accesses, constants, mapping[b], free, wanted)
        for i in range(nodes):
            room = max(0.0, constants.room + constants.free_share * free[i])
            held = min(held, room)
            used = min(held, wanted[i])
            out[b, i] = op_seconds(accesses, constants, mapping[b], i, used, wanted[i], tau)
            later -= wanted[i]
            ahead = fetched_bytes(constants, out[b, i], tau)
            # The op's own bytes keep their room until it ends.
            held = max(0.0, min(held - used + ahead, min(room - used, later)))


def predict(accesses: Accesses, constants: Constants, mapping: Mapping16) -> Floats:
    """Seconds of every op, float64 [B, N], of mappings int16 [B, N, H]."""
    out = np.empty(mapping.shape[:2])
    _predict(accesses, constants, np.ascontiguousarray(mapping), out)
    return out
