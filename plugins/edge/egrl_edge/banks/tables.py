"""A program on a chip as flat arrays, the only thing the kernels see.

Source of the cost model: a core that waits for its memory, as a microcontroller without DMA does. A run takes

    sum over the instructions of (launch + compute) + sum over the memories of bytes moved / bandwidth.

Deviations (*assumptions*): nothing overlaps; instructions whose opcode names a matrix product run on the chip's
multiply-accumulate grids at their full rate, all others on its vector units; constants, and whatever else an
instruction moves by itself, lie in the slowest memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.nnpi.chip import Chip
from workloads.programs.program import NO_ALIAS, Program

MATRIX = ("conv", "mm", "dot", "linear", "matmul")
"""Parts of the opcodes of matrix products."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Tables(NamedTuple):
    """N places, I instructions, L memories (slowest first).

    Attributes:
        size_bytes: int64 [N, L], room that a place takes of each memory: its size at the memory's alignment.
        first, last: int64 [N], the instructions between which it lives, closed.
        order: int64 [N], the places from the largest to the smallest.
        uses: int64 [N], how many buffers read or write a place; moved_bytes: float64 [N], what they move.
        fixed_bytes: float64 [L], what is moved whatever the mapping.
        held_bytes: int64 [I, L], what pinned tensors hold.
        capacity_bytes: int64 [L].
        inverse_bandwidth: float64 [L], seconds a byte.
        fixed_s: seconds of all launches, computations and fixed bytes.
    """

    size_bytes: Ints
    first: Ints
    last: Ints
    order: Ints
    uses: Ints
    moved_bytes: Floats
    fixed_bytes: Floats
    held_bytes: Ints
    capacity_bytes: Ints
    inverse_bandwidth: Floats
    fixed_s: float


@dataclass(frozen=True)
class Place:
    """A unit of placement: a tensor, or the tensors of one alias group, which share their memory.

    Attributes:
        name: its first tensor's.
        tensors: positions in the program.
        size_bytes: the largest of them.
        first, last: instructions, closed.
    """

    name: str
    tensors: tuple[int, ...]
    size_bytes: int
    first: int
    last: int


def places_of(program: Program) -> list[Place]:
    """The places of a program, in the order of their first tensors."""
    leader = list(range(len(program.tensors)))
    of_group: dict[int, int] = {}
    for buffer in program:
        if buffer.alias_id != NO_ALIAS:
            mine = leader[buffer.tensor]
            theirs = leader[of_group.setdefault(buffer.alias_id, mine)]
            low, high = min(mine, theirs), max(mine, theirs)
            leader = [low if each == high else each for each in leader]
    members: dict[int, list[int]] = {}
    for tensor, of in enumerate(leader):
        members.setdefault(of, []).append(tensor)
    found = []
    for of, tensors in members.items():
        ranges = [program.live_range(tensor) for tensor in tensors]
        size = max(program.tensors[tensor].size_bytes for tensor in tensors)
        name = program.tensors[of].name
        found.append(Place(name, tuple(tensors), size, min(r[0] for r in ranges), max(r[1] for r in ranges)))
    return found


def build_tables(
    program: Program,
    places: Sequence[Place],
    chip: Chip,
    align_bytes: Sequence[int],
    capacity_bytes: Sequence[int],
    pins: Mapping[int, int],
) -> Tables:
    """Flat arrays of a program on a chip.

    Args:
        program, places: what is placed, `places_of(program)`.
        chip: its bandwidths and engines.
        align_bytes, capacity_bytes: of each memory, slowest first.
        pins: number of a place -> number of the memory in which it must lie.
    """
    levels, steps = len(chip.memories), len(program.instructions)
    size = np.array([place.size_bytes for place in places], np.int64)
    align = np.array(align_bytes, np.int64)
    room = -(-size[:, None] // align) * align
    fixed, held = np.zeros(levels), np.zeros((steps, levels), np.int64)
    fixed[0] = sum(instruction.slow_bytes for instruction in program.instructions)
    moved, uses = np.zeros(len(places)), np.zeros(len(places), np.int64)
    of_tensor = {tensor: number for number, place in enumerate(places) for tensor in place.tensors}
    for buffer in program:
        moved[of_tensor[buffer.tensor]] += buffer.traffic_bytes
        uses[of_tensor[buffer.tensor]] += 1
    moved[size == 0] = 0
    for number, memory in pins.items():
        held[places[number].first : places[number].last + 1, memory] += room[number, memory]
        fixed[memory] += moved[number]
        room[number], moved[number] = 0, 0
    inverse = np.array([1.0 / memory.bandwidth_Bps for memory in chip.memories])
    launch_s = chip.overhead.launch_s if chip.effects.overhead else 0.0
    return Tables(
        size_bytes=np.ascontiguousarray(room),
        first=np.array([place.first for place in places], np.int64),
        last=np.array([place.last for place in places], np.int64),
        order=np.argsort(-size, kind="stable").astype(np.int64),
        uses=uses,
        moved_bytes=moved,
        held_bytes=held,
        fixed_bytes=fixed,
        capacity_bytes=np.array(capacity_bytes, np.int64),
        inverse_bandwidth=inverse,
        fixed_s=steps * launch_s + _compute_seconds(program, chip) + float(fixed @ inverse),
    )


def _compute_seconds(program: Program, chip: Chip) -> float:
    compute = chip.compute
    vector = compute.ices * compute.dsp_lanes * compute.clock_Hz
    grid = 2 * compute.ices * compute.mac_rows * compute.mac_cols * compute.mac_depth * compute.clock_Hz
    return sum(
        each.flops / (grid if any(part in each.opcode for part in MATRIX) else vector)
        for each in program.instructions
    )
