"""A workload on a chip as flat arrays, the only thing the kernels see.

Source: the tile count is the NNP-I's 32 x 32 x 4 grid an ICE (WikiChip, Spring Hill) taken at its word.

Deviations (*assumptions*): the tiles of one op are spread over the ICEs whole, a partly filled tile costs
as much as a full one, and the vector work of an op overlaps with its multiply-accumulates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.nnpi.chip import Chip, Compute
from hwsim.pins import Pins
from workloads.errors import InputError
from workloads.workload import Gemm, Op, Workload, last_consumer

MOST_BYTES = 2**62
"""Sums of sizes stay below, so that int64 arithmetic never overflows."""
REARRANGING = frozenset({"reshape", "concat", "split"})
"""Kinds of op that only rearrange bytes, so that what already lies in the right memory need not move."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Tables(NamedTuple):
    """N ops, E edges, L memories (slowest first). Bytes are at the chip's element widths.

    Attributes:
        weight_bytes, activation_bytes: int64 [N], held; 0 = dead decision.
        weight_read_bytes, written_bytes, external_bytes: int64 [N], moved an inference: the chip's traffic factors on
            all but the last.
        steps: int64 [N], how often an inference reads the weight or rows of it.
        passes: int64 [N], how many whole times an inference reads the weight; 0 if only rows are gathered.
        pass_bytes: float64 [N], bytes that those passes move for each byte of the weight: passes * traffic factor.
        is_output, rearranges: bool [N].
        edge_start: int64 [N + 1]; the inputs of op i are edges edge_start[i] .. edge_start[i + 1] - 1.
        edge_source, edge_bytes: int64 [E]; bytes with the producer's traffic factor.
        last_use: int64 [N], last op that reads the activation (the op itself where none does).
        free_start, free_op: int64 [N + 1] and [<= N]: activations that die with op i, as edge_start does it.
        mac_s, dsp_s: float64 [N]; compute_s: float64 [N], their maximum, or the measured time instead.
        measured: bool [N].
        capacity_bytes: int64 [L], without what is reserved; bandwidth_Bps, inverse_bandwidth: float64 [L].
        access_s: float64 [L], to start a transfer of one tensor.
        launch_s, sigma: 0 if the effect is off.
        serial, shared: shares of an op that wait, see `hwsim.nnpi.chip.Waiting`.
        unit_start, unit_op, unit_head, unit_memory: int64 [U + 1], [T], [T], [U], where there are pins: the tensors in
            the order in which room is found for them, in units that lie together, and the memory of each unit, or -1.
            T is 0 where there are none.
        into, via: positions of memories.
        cross, prefetch, contention, moves: switches.
    """

    weight_bytes: Ints
    activation_bytes: Ints
    weight_read_bytes: Ints
    written_bytes: Ints
    external_bytes: Ints
    steps: Ints
    passes: Ints
    pass_bytes: Floats
    is_output: Bools
    rearranges: Bools
    edge_start: Ints
    edge_source: Ints
    edge_bytes: Ints
    last_use: Ints
    free_start: Ints
    free_op: Ints
    mac_s: Floats
    dsp_s: Floats
    compute_s: Floats
    measured: Bools
    capacity_bytes: Ints
    bandwidth_Bps: Floats
    inverse_bandwidth: Floats
    access_s: Floats
    launch_s: float
    sigma: float
    serial: float
    shared: float
    unit_start: Ints
    unit_op: Ints
    unit_head: Ints
    unit_memory: Ints
    into: int
    via: int
    cross: bool
    prefetch: bool
    contention: bool
    moves: bool


def mac_seconds(gemm: Gemm, compute: Compute) -> float:
    """Seconds of the multiply-accumulate grids: whole tiles, dealt out to the ICEs."""
    tiles = gemm.groups * _up(gemm.rows, compute.mac_rows) * _up(gemm.cols, compute.mac_cols)
    return _up(tiles, compute.ices) * _up(gemm.reduction, compute.mac_depth) / compute.clock_Hz


def dsp_seconds(vector_ops: int, compute: Compute) -> float:
    """Seconds of the vector units of all ICEs together."""
    return vector_ops / (compute.ices * compute.dsp_lanes * compute.clock_Hz)


def build_tables(workload: Workload, chip: Chip, pins: Pins | None = None) -> Tables:
    """Flat arrays of a workload on a chip, with its tensors pinned.

    Raises:
        InputError: the slowest memory cannot hold everything (the all-slowest mapping would not run), no op takes time
            whatever the mapping (a mapping could cost nothing: no speedup would be defined), or pins have no room.
    """
    weight_scale = _scale(chip.element_bytes.weight, workload.element_bytes.weight)
    activation_scale = _scale(chip.element_bytes.activation, workload.element_bytes.activation)
    held = _rescale([op.weight_bytes for op in workload], weight_scale)
    read = [op.weight_read_bytes if op.weight_bytes else 0 for op in workload]
    steps = [op.steps if op.weight_bytes else 1 for op in workload]
    passes = _rescale(read, weight_scale) // np.maximum(held, 1) * np.array(steps)
    of_traffic = [chip.factors.traffic.get(op.kind, 1.0) for op in workload]
    edges = workload.edges()
    last_use = last_consumer(workload)
    activation = _rescale([op.output_bytes for op in workload], activation_scale)
    dying = np.array([i for i in np.argsort(last_use, kind="stable") if activation[i] > 0], np.int64)
    bounds = np.arange(len(workload) + 1)
    mac_s, dsp_s = _engine_seconds(workload, chip)
    tables = Tables(
        weight_bytes=held,
        activation_bytes=activation,
        weight_read_bytes=_rescale(read, weight_scale, of_traffic, steps),
        written_bytes=_rescale([op.output_bytes for op in workload], activation_scale, of_traffic),
        external_bytes=_rescale([op.external_bytes for op in workload], activation_scale),
        steps=np.array(steps, np.int64),
        passes=passes,
        pass_bytes=np.multiply(passes, of_traffic, dtype=np.float64),
        is_output=np.array([op.is_output for op in workload], np.bool_),
        rearranges=np.array([op.kind in REARRANGING for op in workload], np.bool_),
        edge_start=np.searchsorted([consumer for _, consumer, _ in edges], bounds).astype(np.int64),
        edge_source=np.array([source for source, _, _ in edges], np.int64),
        edge_bytes=_rescale(
            [size for _, _, size in edges], activation_scale, [of_traffic[source] for source, _, _ in edges]
        ),
        last_use=last_use,
        free_start=np.searchsorted(last_use[dying], bounds).astype(np.int64),
        free_op=dying,
        mac_s=mac_s,
        dsp_s=dsp_s,
        compute_s=np.array([_compute(op, m, d) for op, m, d in zip(workload, mac_s, dsp_s, strict=True)]),
        measured=np.array([op.latency_s is not None for op in workload], np.bool_),
        **_of_chip(chip, pins),
        **_units(pins, np.stack([held, activation], axis=1)),
    )
    _check_costs(tables, workload, chip)
    _check_pinned(tables, workload, chip)
    return tables


def _of_chip(chip: Chip, pins: Pins | None) -> dict[str, Any]:
    """The fields of `Tables` that no workload changes."""
    bandwidth = np.array([memory.bandwidth_Bps for memory in chip.memories], np.float64)
    names, effects = chip.memory_names, chip.effects
    return {
        "capacity_bytes": _capacities(chip, pins),
        "bandwidth_Bps": bandwidth,
        "inverse_bandwidth": 1.0 / bandwidth,
        "access_s": np.array([memory.access_s for memory in chip.memories], np.float64),
        "launch_s": chip.overhead.launch_s if effects.overhead else 0.0,
        "sigma": chip.noise.sigma if effects.noise else 0.0,
        "serial": chip.waiting.serial,
        "shared": chip.waiting.shared,
        "into": names.index(chip.prefetch.into),
        "via": names.index(chip.prefetch.via),
        **{name: getattr(effects, name) for name in ("cross", "prefetch", "contention", "moves")},
    }


def _capacities(chip: Chip, pins: Pins | None) -> Ints:
    """Bytes int64 [L] that tensors may take: what is available, less what pins keep free."""
    free = {} if pins is None else pins.free_bytes
    left = [memory.available_bytes - free.get(memory.name, 0) for memory in chip.memories]
    for memory, size in zip(chip.memories, left, strict=True):
        if size < 0:
            raise InputError(
                f"pin {memory.name}.free={free[memory.name]}: expected at most the {memory.available_bytes} bytes that"
                f" {memory.name} of {chip.name} has for tensors"
            )
    return np.array(left, np.int64)


def _units(pins: Pins | None, sizes: Ints) -> dict[str, Any]:
    """The units of `Tables`, of sizes int64 [N, 2]: those with a memory of their own first, then in execution order."""
    units: list[tuple[int, list[int]]] = []
    if pins is not None and (pins.together or (pins.fixed >= 0).any()):
        members: dict[int, list[int]] = {}
        for tensor in np.flatnonzero(sizes).tolist():
            members.setdefault(int(pins.leader.flat[tensor]), []).append(tensor)
        units = [(int(pins.fixed.flat[unit[0]]), unit) for unit in members.values()]
        units.sort(key=lambda unit: unit[0] < 0)
    flat = np.array([tensor for _, unit in units for tensor in unit], np.int64)
    return {
        "unit_start": np.cumsum([0, *(len(unit) for _, unit in units)]).astype(np.int64),
        "unit_op": flat // 2,
        "unit_head": flat % 2,
        "unit_memory": np.array([memory for memory, _ in units], np.int64),
    }


def units(tables: Tables) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """What pins say: the memory of a unit, or -1, and its tensors as (op, head); those without a pin are left out."""
    for number, memory in enumerate(tables.unit_memory.tolist()):
        here = slice(tables.unit_start[number], tables.unit_start[number + 1])
        tensors = list(zip(tables.unit_op[here].tolist(), tables.unit_head[here].tolist(), strict=True))
        if memory >= 0 or len(tensors) > 1:
            yield memory, tensors


def decisions(tables: Tables) -> Ints:
    """int64 [K, 2], (op, head) of each tensor that a mapping is free to place: pins decide none of them."""
    free = np.stack([tables.weight_bytes, tables.activation_bytes], axis=1) > 0
    for memory, tensors in units(tables):
        for tensor in tensors if memory >= 0 else tensors[1:]:
            free[tensor] = False
    return np.argwhere(free)


def _check_pinned(tables: Tables, workload: Workload, chip: Chip) -> None:
    """InputError unless every memory has room for what is pinned there."""
    ops = len(workload)
    held = np.zeros((len(chip.memories), ops), np.int64)
    for memory, tensors in units(tables):
        for op, head in tensors if memory > 0 else ():
            if head == WEIGHT:
                held[memory] += tables.weight_bytes[op]
            else:
                held[memory, op : tables.last_use[op] + 1] += tables.activation_bytes[op]
    for memory, name in enumerate(chip.memory_names):
        step = int(held[memory].argmax())
        if memory and held[memory, step] > tables.capacity_bytes[memory]:
            raise InputError(
                f"pins: expected tensors that {name} of {chip.name} has room for,"
                f" {tables.capacity_bytes[memory]} bytes, found {held[memory, step]} bytes pinned there while"
                f" {workload.ops[step].name!r} runs"
            )


def _check_costs(tables: Tables, workload: Workload, chip: Chip) -> None:
    """InputError unless the all-slowest mapping runs and every mapping takes time."""
    demanded, available = slowest_demand_bytes(tables), chip.memories[0].available_bytes
    if demanded > available:
        raise InputError(
            f"workload {workload.name!r} on chip {chip.name!r}: expected {chip.memory_names[0]} to hold all, "
            f"found demanded {demanded} bytes, available {available} bytes"
        )
    if tables.launch_s + tables.compute_s.sum() == 0:
        raise InputError(
            f"workload {workload.name!r} on chip {chip.name!r}: expected an op with compute time or "
            "the overhead effect on, found neither"
        )


def slowest_demand_bytes(tables: Tables) -> int:
    """Bytes the slowest memory holds at its fullest step when everything lies there."""
    usage = np.cumsum(tables.activation_bytes)
    freed = np.zeros(len(usage), np.int64)
    np.add.at(freed, tables.last_use, tables.activation_bytes)
    before = np.concatenate([[0], np.cumsum(freed)[:-1]])
    return int(tables.weight_bytes.sum() + (usage - before).max(initial=0))


def _engine_seconds(workload: Workload, chip: Chip) -> tuple[Floats, Floats]:
    """Seconds float64 [N] of the multiply-accumulate grids, and of the vector units, the chip's factors counted."""
    factor = np.array([chip.factors.compute.get(op.kind, 1.0) for op in workload], np.float64)
    mac_s = [mac_seconds(op.gemm, chip.compute) if op.gemm else 0.0 for op in workload]
    dsp_s = [dsp_seconds(op.vector_ops, chip.compute) for op in workload]
    return np.multiply(mac_s, factor), np.multiply(dsp_s, factor)


def _compute(op: Op, mac_s: float, dsp_s: float) -> float:
    return max(mac_s, dsp_s) if op.latency_s is None else op.latency_s


def _scale(chip: float, workload: float) -> Fraction:
    return Fraction(chip) / Fraction(workload)


def _rescale(
    sizes: list[int], scale: Fraction, factors: list[float] | None = None, times: list[int] | None = None
) -> Ints:
    """Sizes at the chip's width times their factors, rounded up, so many times each. InputError if sums of them could
    overflow."""
    if factors is None:
        found = [_up_by(size, scale) for size in sizes]
    else:
        by = {factor: scale * Fraction(factor) for factor in set(factors)}
        found = [_up_by(size, by[factor]) for size, factor in zip(sizes, factors, strict=True)]
    if times is not None:
        found = [size * count for size, count in zip(found, times, strict=True)]
    if sum(found) >= MOST_BYTES:
        raise InputError(
            f"element_bytes: expected tensors of less than {MOST_BYTES:,} bytes in all at the chip's widths,"
            f" found {sum(found):,}"
        )
    return np.array(found, np.int64)


def _up_by(size: int, scale: Fraction) -> int:
    """A size times a scale, rounded up."""
    return -(-size * scale.numerator // scale.denominator)


def _up(value: int, step: int) -> int:
    return -(-value // step)


WEIGHT, ACTIVATION = 0, 1


@dataclass(frozen=True)
class Tensors:
    """The T tensors to place, int64 [T] each: WEIGHT or ACTIVATION (head) of an op, held in first..last (closed)."""

    op: Ints
    head: Ints
    size_bytes: Ints
    first: Ints
    last: Ints
    moved_bytes: Ints

    @property
    def density(self) -> NDArray[np.float64]:
        """Bytes moved per inference, for each byte held during one step, float64 [T]."""
        held = self.size_bytes.astype(np.float64) * (self.last - self.first + 1)
        return np.asarray(self.moved_bytes / held)


def tensors(tables: Tables) -> Tensors:
    """Every tensor that has a size, weights before activations of the same op."""
    ops = len(tables.weight_bytes)
    reads = np.zeros(ops, np.int64)
    np.add.at(reads, tables.edge_source, tables.edge_bytes)
    op, head = np.nonzero(np.stack([tables.weight_bytes, tables.activation_bytes], axis=1))
    is_weight = head == WEIGHT
    return Tensors(
        op,
        head,
        np.where(is_weight, tables.weight_bytes[op], tables.activation_bytes[op]),
        np.where(is_weight, 0, op),
        np.where(is_weight, ops - 1, tables.last_use[op]),
        np.where(is_weight, tables.weight_read_bytes[op], tables.written_bytes[op] + reads[op]),
    )
