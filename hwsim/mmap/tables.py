"""A program on a chip as flat arrays, the only thing the kernels see.

N buffers, T steps (instructions), U tensors, G alias groups. Room is counted in granules, time in steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.mmap.chip import Chip
from hwsim.mmap.cost import roofline_s, varied
from workloads.errors import InputError
from workloads.program import NO_ALIAS, Program

Ints = NDArray[np.int64]
Steps = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Tables(NamedTuple):
    """Everything that does not change while a game is played.

    Attributes:
        tensor, step: int32 [N], position of the buffer's tensor and of its instruction.
        is_output, leaves: bool [N]; `leaves`: its tensor must lie in HBM at the end.
        granules: int32 [N], room in whole granules; 0 = dead, no decision; `capacity` + 1 where it cannot fit.
        size_bytes: int64 [N].
        group: int32 [N], number of its alias group, -1 = none.
        last: int32 [N], last step of its tensor's live range.
        fast_read_bytes, fast_write_bytes: int64 [N], traffic that its place changes (0 where it does not count).
        demand_s: float64 [N], seconds of a copy.
        next_live: int32 [N + 1], first buffer at or after this one that is a decision; N where there is none.
        compute_s: float64 [T]; traffic_bytes: int64 [T], all traffic of the instruction.
        supply_s: float64 [T], seconds for copies: its time with all buffers in fast memory.
        ready: int32 [U], first step at which a copy from HBM may begin if nothing places the tensor's output.
        group_last: int32 [G], last decision of the group; oversized: bool [G], a member can never fit.
        hbm_Bps, read_Bps, write_Bps: bandwidths.
        capacity: granules of fast memory.
        none_s, all_s: seconds of the program with nothing and with everything in fast memory.
        literal_copies, drop_backup: switches of the rules.
    """

    tensor: Steps
    step: Steps
    is_output: Bools
    leaves: Bools
    granules: Steps
    size_bytes: Ints
    group: Steps
    last: Steps
    fast_read_bytes: Ints
    fast_write_bytes: Ints
    demand_s: Floats
    next_live: Steps
    compute_s: Floats
    traffic_bytes: Ints
    supply_s: Floats
    ready: Steps
    group_last: Steps
    oversized: Bools
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
        """What a return is divided by: the most that fast memory could save; 1 where that is nothing."""
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
    uses, tensors = program.buffers, program.tensors
    _check_order(program)
    counted = varied(program)
    size = np.array([tensors[use.tensor].size_bytes for use in uses], np.int64)
    step = np.array([use.instruction for use in uses], np.int32)
    traffic = np.array([use.traffic_bytes for use in uses], np.int64)
    is_output = np.array([use.is_output for use in uses], np.bool_)
    read, write = np.where(counted & ~is_output, traffic, 0), np.where(counted & is_output, traffic, 0)
    capacity = chip.cmem.capacity_bytes // chip.cmem.granule_bytes
    granules = np.minimum(-(-size // chip.cmem.granule_bytes), capacity + 1)
    live = size > 0
    group, groups = _groups(program)
    group_last = np.full(groups, -1, np.int32)
    oversized = np.zeros(groups, np.bool_)
    for number in np.flatnonzero(live & (group >= 0)):
        group_last[group[number]] = number
        oversized[group[number]] |= granules[number] > capacity
    rates = (chip.hbm.bandwidth_Bps, chip.cmem.read_Bps, chip.cmem.write_Bps)
    compute_s = np.array([each.flops / chip.compute.peak_flops for each in program.instructions], np.float64)
    moved, moved_read, moved_write = (
        np.zeros(len(compute_s), np.int64)
        + np.array([each.slow_bytes for each in program.instructions], np.int64),
        np.zeros(len(compute_s), np.int64),
        np.zeros(len(compute_s), np.int64),
    )
    for total, part in ((moved, traffic), (moved_read, read), (moved_write, write)):
        np.add.at(total, step, part)
    supply = np.array(
        [
            roofline_s(compute_s[i], moved[i], moved_read[i], moved_write[i], *rates)
            for i in range(len(compute_s))
        ],
        np.float64,
    )
    slow = [roofline_s(compute_s[i], moved[i], 0, 0, *rates) for i in range(len(compute_s))]
    if not live.any() or not sum(slow) > 0:
        found = "buffers without a size only" if not live.any() else "none of either"
        raise InputError(
            f"program {program.name!r} on chip {chip.name!r}: expected buffers to place and instructions that take"
            f" time, found {found}"
        )
    return Tables(
        tensor=np.array([use.tensor for use in uses], np.int32),
        step=step,
        is_output=is_output,
        leaves=np.array([tensors[use.tensor].leaves for use in uses], np.bool_),
        granules=granules.astype(np.int32),
        size_bytes=size,
        group=group,
        last=np.array([program.live_range(use.tensor)[1] for use in uses], np.int32),
        fast_read_bytes=read,
        fast_write_bytes=write,
        demand_s=size / chip.hbm.bandwidth_Bps,
        next_live=_next_live(live),
        compute_s=compute_s,
        traffic_bytes=moved,
        supply_s=supply,
        ready=np.array([tensor.produced + 1 for tensor in tensors], np.int32),
        group_last=group_last,
        oversized=oversized,
        hbm_Bps=rates[0],
        read_Bps=rates[1],
        write_Bps=rates[2],
        capacity=capacity,
        none_s=_sum(slow),
        all_s=_sum(supply.tolist()),
        literal_copies=literal_copies,
        drop_backup=drop_backup,
    )


def _sum(seconds: list[float]) -> float:
    """From the first to the last, as the kernels add up, so that equal layouts cost the same to the last bit."""
    total = 0.0
    for each in seconds:
        total += each
    return total


def _groups(program: Program) -> tuple[Steps, int]:
    """int32 [N] number of each buffer's alias group (-1: none), counted in the order of ids; how many there are."""
    ids = sorted({use.alias_id for use in program.buffers} - {NO_ALIAS})
    number = {alias: position for position, alias in enumerate(ids)}
    return np.array([number.get(use.alias_id, -1) for use in program.buffers], np.int32), len(ids)


def _next_live(live: Bools) -> Steps:
    following = np.full(len(live) + 1, len(live), np.int32)
    for number in range(len(live) - 1, -1, -1):
        following[number] = number if live[number] else following[number + 1]
    return following


def _check_order(program: Program) -> None:
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
