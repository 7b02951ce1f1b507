"""A program on a chip as flat arrays, the only thing the kernels see.

N buffers, T steps (instructions), U tensors, G alias groups. Room is counted in granules, time in steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.chip import Chip
from hwsim.mmap.cost import find_varied, roofline_s
from hwsim.problem import Floats
from workloads.errors import InputError
from workloads.programs.program import NO_ALIAS, Program

Steps = NDArray[np.int32]
Bools = NDArray[np.bool_]
Records = NDArray[np.void]


BUFFER = np.dtype(
    [
        ("tensor", "i4"),
        ("step", "i4"),
        ("granules", "i4"),
        ("group", "i4"),
        ("last", "i4"),
        ("following", "i4"),
        ("size_bytes", "i8"),
        ("read_bytes", "i8"),
        ("write_bytes", "i8"),
        ("demand_s", "f8"),
        ("is_output", "?"),
        ("leaves", "?"),
    ],
    align=True,
)
"""A buffer.

tensor, step: positions of its tensor and instruction; granules: room, 0 = dead (no decision), capacity + 1 = too large.
group: number of its alias group, -1 = none; last: last step of its tensor's live range.
following: the next decision after it, N = none; size_bytes: its size.
read_bytes, write_bytes: traffic that its place changes; demand_s: seconds of a copy.
is_output: whether its instruction writes it; leaves: whether its tensor must lie in HBM at the end.
"""
STEP = np.dtype([("compute_s", "f8"), ("supply_s", "f8"), ("traffic_bytes", "i8")], align=True)
"""An instruction.

compute_s: seconds of its arithmetic; supply_s: what it gives to copies, its seconds with all buffers in fast memory.
traffic_bytes: all its traffic.
"""
GROUP = np.dtype([("last", "i4"), ("oversized", "?")], align=True)
"""An alias group: its last decision; whether a member can never fit."""


class Tables(NamedTuple):
    """Everything that does not change while a game is played.

    Few arrays of records, because each array that is passed costs the kernels time at every call.

    Attributes:
        buffer: `BUFFER` [N]; step: `STEP` [T]; group: `GROUP` [G].
        ready: int32 [U], first step at which a copy from HBM may begin if nothing places the tensor's output.
        first: the first decision.
        hbm_Bps, read_Bps, write_Bps: bandwidths.
        capacity: granules of fast memory.
        none_s, all_s: seconds of the program with nothing and with everything in fast memory.
        literal_copies, drop_backup: switches of the rules.
    """

    buffer: Records
    step: Records
    group: Records
    ready: Steps
    first: int
    hbm_Bps: float
    read_Bps: float
    write_Bps: float
    capacity: int
    none_s: float
    all_s: float
    literal_copies: bool
    drop_backup: bool

    @property
    def most_s(self) -> float:
        """What a return is divided by: the most that fast memory could save; 1 if that is nothing."""
        return self.none_s - self.all_s if self.none_s > self.all_s else 1.0


def build_tables(
    program: Program, chip: Chip, literal_copies: bool = False, drop_backup: bool = True
) -> Tables:
    """Flat arrays of a program on a chip.

    Raises:
        InputError: no buffer has a size (nothing to decide), the program takes no time on this chip even from HBM (no
            speedup would be defined), or a buffer is out of place: an output of a tensor that is produced at another
            step, an input before its tensor is produced, or buffers that are not in the order of their instructions.
    """
    _check_order(program)
    rates = (chip.hbm.bandwidth_Bps, chip.cmem.read_Bps, chip.cmem.write_Bps)
    capacity = chip.cmem.capacity_bytes // chip.cmem.granule_bytes
    buffer = _buffers(program, chip, capacity)
    live = buffer["granules"] > 0
    numbers = np.append(np.flatnonzero(live), len(live)).astype(np.int32)
    following = numbers[np.searchsorted(numbers, np.arange(len(live) + 1))]
    buffer["following"] = following[1:]
    step, slow = _steps(program, chip, buffer)
    if not live.any() or not sum(slow) > 0:
        found = "none that takes any" if live.any() else "buffers without a size only"
        raise InputError(
            f"program {program.name!r} on chip {chip.name!r}: expected buffers to place and instructions that take"
            f" time, found {found}"
        )
    return Tables(
        buffer=buffer,
        step=step,
        group=_group_table(buffer, capacity),
        ready=np.array([tensor.produced + 1 for tensor in program.tensors], np.int32),
        first=int(following[0]),
        hbm_Bps=rates[0],
        read_Bps=rates[1],
        write_Bps=rates[2],
        capacity=capacity,
        none_s=_sum(slow),
        all_s=_sum(step["supply_s"].tolist()),
        literal_copies=literal_copies,
        drop_backup=drop_backup,
    )


def _buffers(program: Program, chip: Chip, capacity: int) -> Records:
    """`BUFFER` [N], all but `following`."""
    uses, tensors, granule = program.buffers, program.tensors, chip.cmem.granule_bytes
    counted = find_varied(program)
    buffer = np.zeros(len(uses), BUFFER)
    buffer["tensor"] = [use.tensor for use in uses]
    buffer["step"] = [use.instruction for use in uses]
    buffer["size_bytes"] = [tensors[use.tensor].size_bytes for use in uses]
    buffer["granules"] = np.minimum(-(-buffer["size_bytes"] // granule), capacity + 1)
    buffer["group"] = _groups(program)
    buffer["last"] = [program.live_range(use.tensor)[1] for use in uses]
    buffer["is_output"] = [use.is_output for use in uses]
    buffer["leaves"] = [tensors[use.tensor].leaves for use in uses]
    traffic = np.where(counted, [use.traffic_bytes for use in uses], 0)
    buffer["read_bytes"] = np.where(buffer["is_output"], 0, traffic)
    buffer["write_bytes"] = np.where(buffer["is_output"], traffic, 0)
    buffer["demand_s"] = buffer["size_bytes"] / chip.hbm.bandwidth_Bps
    return buffer


def _group_table(buffer: Records, capacity: int) -> Records:
    """`GROUP` [G]; the last decision of each alias group wins, since they come in order."""
    group = np.zeros(int(buffer["group"].max(initial=-1)) + 1, GROUP)
    for number in np.flatnonzero((buffer["granules"] > 0) & (buffer["group"] >= 0)):
        own = group[buffer[number]["group"]]
        own["last"] = number
        own["oversized"] |= buffer[number]["granules"] > capacity
    return group


def _steps(program: Program, chip: Chip, buffer: Records) -> tuple[Records, list[float]]:
    """`STEP` [T], and the seconds of each instruction with all of its buffers in HBM."""
    rates = (chip.hbm.bandwidth_Bps, chip.cmem.read_Bps, chip.cmem.write_Bps)
    step = np.zeros(len(program.instructions), STEP)
    step["compute_s"] = [each.flops / chip.compute.peak_flops for each in program.instructions]
    step["traffic_bytes"] = [each.slow_bytes for each in program.instructions]
    read, write = np.zeros(len(step), np.int64), np.zeros(len(step), np.int64)
    traffic = np.array([use.traffic_bytes for use in program.buffers], np.int64)
    for total, part in (
        (step["traffic_bytes"], traffic),
        (read, buffer["read_bytes"]),
        (write, buffer["write_bytes"]),
    ):
        np.add.at(total, buffer["step"], part)
    slow = [roofline_s(each["compute_s"], each["traffic_bytes"], 0, 0, *rates) for each in step]
    for each, read_bytes, write_bytes in zip(step, read.tolist(), write.tolist(), strict=True):
        each["supply_s"] = roofline_s(
            each["compute_s"], each["traffic_bytes"], read_bytes, write_bytes, *rates
        )
    return step, slow


def _sum(seconds: list[float]) -> float:
    """Added from the first to the last, as the kernels add up, so that equal layouts cost the same to the last bit."""
    total = 0.0
    for each in seconds:
        total += each
    return total


def _groups(program: Program) -> Steps:
    """int32 [N], number of each buffer's alias group in the order of ids, -1 = none."""
    ids = sorted({use.alias_id for use in program.buffers} - {NO_ALIAS})
    number = {alias: position for position, alias in enumerate(ids)}
    return np.array([number.get(use.alias_id, -1) for use in program.buffers], np.int32)


def _check_order(program: Program) -> None:
    """Raises InputError for a buffer that is out of place."""
    before = -1
    for number, use in enumerate(program.buffers):
        produced = program.tensors[use.tensor].produced
        if use.instruction < before or (
            produced != use.instruction if use.is_output else produced >= use.instruction
        ):
            expected = f"step {produced}" if use.is_output else f"a step after {produced}"
            raise InputError(
                f"program {program.name!r}: buffer {program.buffer_name(number)}: expected {expected}, and buffers in"
                f" the order of their instructions, found step {use.instruction} after step {before}"
            )
        before = use.instruction


@kernel
def instruction_s(tables: Tables, step: int, read_bytes: int, write_bytes: int) -> float:
    """Seconds of an instruction that moves these bytes from and to fast memory."""
    row = tables.step[step]
    return roofline_s(
        row.compute_s,
        row.traffic_bytes,
        read_bytes,
        write_bytes,
        tables.hbm_Bps,
        tables.read_Bps,
        tables.write_Bps,
    )


@kernel
def savings_s(tables: Tables) -> Floats:
    """float64 [N], what each buffer saves its instruction when nothing else of it lies in fast memory."""
    saved = np.empty(len(tables.buffer))
    # Each alone, so that what several save together may be less than the sum.
    for b in range(len(saved)):
        buffer = tables.buffer[b]
        saved[b] = instruction_s(tables, buffer.step, 0, 0)
        saved[b] -= instruction_s(tables, buffer.step, buffer.read_bytes, buffer.write_bytes)
    return saved


@kernel
def begins_s(tables: Tables) -> Floats:
    """float64 [T + 1], when each instruction begins, and the last one ends, with everything in HBM."""
    # Added from the first to the last, as `program_s` adds, so that equal layouts cost the same to the last bit.
    begin = np.zeros(len(tables.step) + 1)
    for t in range(len(tables.step)):
        begin[t + 1] = begin[t] + instruction_s(tables, t, 0, 0)
    return begin
