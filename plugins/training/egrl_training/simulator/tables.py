"""A training step as kernels read it: ops that do work, and the storages that they read and make.

Ops that only make views do no work and are left out. Whoever reads a view reads the storage. Parameters and inputs are
there during the whole step, and nobody needs to look for them: their bytes are in `fixed_bytes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.device import LEAST_COPY_S
from egrl_training.steps.step import OWNER, PHASES, TrainingStep

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
FORWARD, EITHER, BACKWARD = range(len(PHASES))


class Tables(NamedTuple):
    """K ops, S storages, N decisions.

    Attributes:
        op: int64 [K], positions in `TrainingStep.ops`.
        phase: int8 [K], the number of one of `PHASES`.
        seconds: float64 [K].
        again_s: float64 [K], seconds of a run after the first.
        scratch_bytes: int64 [K].
        input_first: int64 [K + 1], where an op's storages begin in `inputs`, each once.
        inputs: int64, storages that ops read; parameters and inputs are left out.
        output_first: int64 [K + 1], where an op's storages begin in `outputs`.
        outputs: int64, storages that ops make.
        storage: int64 [S], positions in `TrainingStep.values`.
        size_bytes: int64 [S].
        maker: int64 [S], the op that makes a storage; -1 if it is given.
        decision: int64 [S], the number of its decision; -1 if it has none.
        is_output: bool [S], True for what the forward pass returns, if an op makes it.
        is_gradient: bool [S], True for what the backward pass returns.
        gradients: int64, the storages that the backward pass returns and that an op or the caller makes.
        tangents: int64, the storages of tangents.
        turn: number of ops before the first one of the backward pass.
        fixed_bytes: bytes that are there during the whole step, those outside the step included.
        to_host_s: float64 [S], seconds of a copy to the host, 0 for what must stay on the device; empty without a host.
        from_host_s: the same, of a copy back.
    """

    op: Ints
    phase: NDArray[np.int8]
    seconds: Floats
    again_s: Floats
    scratch_bytes: Ints
    input_first: Ints
    inputs: Ints
    output_first: Ints
    outputs: Ints
    storage: Ints
    size_bytes: Ints
    maker: Ints
    decision: Ints
    is_output: Bools
    is_gradient: Bools
    gradients: Ints
    tangents: Ints
    turn: int
    fixed_bytes: int
    to_host_s: Floats
    from_host_s: Floats


def build_tables(
    step: TrainingStep,
    reserved_bytes: int,
    factors: Mapping[str, float] | None = None,
    again: Mapping[str, float] | None = None,
    host_Bps: tuple[float, float] = (0.0, 0.0),
    least_copy_s: float = LEAST_COPY_S,
) -> Tables:
    """The tables of a step.

    `reserved_bytes` are what is in memory beside it. `factors` are on the seconds of ops by kind, `again` further ones
    on those of a run after the first; kinds that they do not name have 1. `host_Bps` are bytes per second to the host
    and back, both 0 if nothing is kept there; what is copied in less than `least_copy_s` is not either.
    """
    storage = np.array([n for n, value in enumerate(step.values) if value.view_of == OWNER], np.int64)
    place = np.full(len(step.values), -1, np.int64)
    place[storage] = np.arange(len(storage))
    of = place[step.owner]  # the storage of each value
    role = [step.values[n].role for n in storage]
    always = np.array([each in ("parameter", "input") for each in role])
    works = [n for n, op in enumerate(step.ops) if not _only_views(step, op.outputs)]
    size = np.array([step.values[n].size_bytes for n in storage], np.int64)
    maker = np.full(len(storage), -1, np.int64)
    for k, n in enumerate(works):
        maker[of[list(step.ops[n].outputs)]] = k
    decision = np.full(len(storage), -1, np.int64)
    decision[of[list(step.candidates)]] = np.arange(len(step.candidates))
    ops = [step.ops[n] for n in works]
    input_first, inputs = _lists([_once(of, op.inputs, ~always) for op in ops])
    output_first, outputs = _lists([_once(of, op.outputs, ~always) for op in ops])
    seconds = np.array([op.seconds * (factors or {}).get(op.kind, 1.0) for op in ops])
    phase = np.array([PHASES.index(op.phase) for op in ops], np.int8)
    returned = _once(of, step.gradients, ~always)
    is_gradient = np.zeros(len(storage), np.bool_)
    is_gradient[returned] = True
    is_output = np.zeros(len(storage), np.bool_)
    is_output[_once(of, step.outputs, maker >= 0)] = True
    return Tables(
        np.array(works, np.int64),
        phase,
        seconds,
        seconds * np.array([(again or {}).get(op.kind, 1.0) for op in ops]),
        np.array([op.scratch_bytes for op in ops], np.int64),
        input_first,
        inputs,
        output_first,
        outputs,
        storage,
        size,
        maker,
        decision,
        is_output,
        is_gradient,
        np.array(returned, np.int64),
        np.array([s for s, each in enumerate(role) if each == "tangent"], np.int64),
        int((phase != BACKWARD).sum()),
        int(size[always].sum()) + reserved_bytes,
        *_copies(size, host_Bps, (decision < 0) | is_output | is_gradient, least_copy_s),
    )


def _copies(
    size_bytes: Ints, host_Bps: tuple[float, float], stays: Bools, least_copy_s: float
) -> Sequence[Floats]:
    """float64 [S] each: `Tables.to_host_s` and `Tables.from_host_s`, of storages with these bytes."""
    if min(host_Bps) <= 0:
        return np.empty(0), np.empty(0)
    seconds = [size_bytes / rate for rate in host_Bps]
    return [np.where(stays | (np.minimum(*seconds) < least_copy_s), 0.0, one) for one in seconds]


def _only_views(step: TrainingStep, outputs: Sequence[int]) -> bool:
    return bool(outputs) and all(step.values[n].view_of != OWNER for n in outputs)


def _once(of: Ints, values: Sequence[int], among: Bools) -> list[int]:
    """The storages of values, each once, in order, that are `among` those."""
    return [s for s in dict.fromkeys(int(of[n]) for n in values) if among[s]]


def _lists(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    first = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)]).astype(np.int64)
    return first, np.array([number for row in rows for number in row], np.int64)
