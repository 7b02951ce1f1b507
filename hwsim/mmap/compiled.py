"""The placement that a program's compiler chose, as a layout, and the compiler's cycles in place of the prices.

A placement says what happens to each buffer and when copies run, not at which address it lies: addresses are packed
here (`hwsim/allocation/`), buffers of an alias group at one. Copies overlap, as those of the production heuristic do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hwsim.allocation.buffers import Buffer
from hwsim.allocation.pack import pack
from hwsim.mmap.layout import Layout
from hwsim.mmap.rules.state import COPY, DROP
from workloads.programs.compiled import Compiled
from workloads.programs.program import NO_ALIAS, Program

PACK_SECONDS = 20.0
"""Time limit of the search for addresses, which ends sooner where there is room."""


@dataclass
class _Stay:
    """A tensor in one place of fast memory, steps `first` to `last`, and the buffers that find it there."""

    first: int
    last: int
    buffers: list[int]


def compiled_layout(
    program: Program,
    compiled: Compiled,
    capacity_bytes: int,
    granule_bytes: int,
    seconds: float = PACK_SECONDS,
) -> Layout:
    """The layout of a compiler's placement; addresses are too high where no packing is found within `seconds`."""
    placed, tensors, count = compiled.buffers, program.tensors, len(program)
    sized = np.array([tensors[use.tensor].size_bytes > 0 for use in program.buffers], np.bool_)
    action = np.where(sized, [each.action for each in placed], -1).astype(np.int8)
    first, last = np.full((2, count), -1, np.int32)
    stays = _stays(program, compiled, action, first, last)
    offset = np.full(count, -1, np.int64)
    blocks = _blocks(program, stays)
    rooms = [
        Buffer(
            program.buffer_name(block[0].buffers[0]),
            max(tensors[program.buffers[stay.buffers[0]].tensor].size_bytes for stay in block),
            min(stay.first for stay in block),
            max(stay.last for stay in block) + 1,
        )
        for block in blocks
    ]
    packed = pack(rooms, capacity_bytes, granule_bytes, seconds)
    for block, address in zip(blocks, packed.offsets, strict=True):
        for stay in block:
            offset[stay.buffers] = address
    windows = np.array([(each.copy_first, each.copy_last) for each in placed], np.int32).reshape(-1, 2)
    begin, end = (np.where(action == COPY, windows[:, k], -1).astype(np.int32) for k in (0, 1))
    return Layout(action, offset, first, last, begin, end, np.zeros(len(program.instructions)))


def _stays(
    program: Program, compiled: Compiled, action: np.ndarray, first: np.ndarray, last: np.ndarray
) -> list[_Stay]:
    """How long each tensor stays where; the intervals of buffers are written to `first` and `last`."""
    stays: list[_Stay] = []
    at: dict[int, _Stay] = {}
    for number, (use, placed) in enumerate(zip(program.buffers, compiled.buffers, strict=True)):
        now = use.instruction
        if action[number] <= DROP:
            continue
        known = at.get(use.tensor)
        if not use.is_output and action[number] != COPY and known is not None:
            known.buffers.append(number)
            if now > known.last:
                first[number], last[number] = known.last + 1, now
                known.last = now
            continue
        begin, end = now, now
        if use.is_output:
            end = placed.copy_last if action[number] == COPY else program.live_range(use.tensor)[1]
        elif action[number] == COPY:
            begin = placed.copy_first
        first[number], last[number] = begin, end
        stays.append(_Stay(begin, max(begin, end), [number]))
        # Where a tensor lies twice for a while, later uses find the one that stays longer.
        if known is None or stays[-1].last >= known.last:
            at[use.tensor] = stays[-1]
    return stays


def _blocks(program: Program, stays: list[_Stay]) -> list[list[_Stay]]:
    """The stays that share an address: those that an alias group ties together, directly or through others."""
    leader = list(range(len(stays)))

    def find(k: int) -> int:
        while leader[k] != k:
            k = leader[k]
        return k

    of_group: dict[int, int] = {}
    for k, stay in enumerate(stays):
        for number in stay.buffers:
            group = program.buffers[number].alias_id
            if group != NO_ALIAS:
                leader[find(k)] = find(of_group.setdefault(group, k))
    blocks: dict[int, list[_Stay]] = {}
    for k, stay in enumerate(stays):
        blocks.setdefault(find(k), []).append(stay)
    return list(blocks.values())


def priced_by_compiler(program: Program, clock_Hz: float, peak_flops: float) -> Program:
    """The program with arithmetic that takes as long as the compiler's cycles, where it states any.

    A roofline is no shorter than its arithmetic: an instruction whose buffers lie where the compiler put them takes its
    cycles, or the time of its traffic if that is longer.
    """
    if program.compiled is None:
        return program
    flops = peak_flops / clock_Hz
    rows = zip(program.instructions, program.compiled.instructions, strict=True)
    priced = [replace(each, flops=round(said.cycles * flops)) if said.cycles else each for each, said in rows]
    return replace(program, instructions=tuple(priced))
