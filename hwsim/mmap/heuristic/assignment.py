"""The production heuristic: what XLA's memory space assignment would do with a program, simplified.

Source: openxla/xla, `xla/service/memory_space_assignment/` (older and in one file: tensorflow 2.x,
`tensorflow/compiler/xla/service/memory_space_assignment.cc`). The paper names it as its baseline (section 5.1) and
does not describe it; the ratios are those of XLA's own tests, which has no defaults for them.

Values (tensors) are placed one after the other, the one first whose place matters most for its size. Each use of a
value finds it where it lies, or it is prefetched, or the use reads from HBM. A value that was written into fast memory
and cannot stay there is evicted after it was written. Values tied by alias groups are placed together: all of them, or
the block is tried again.

Deviations:

- A program is flat (a loop is one instruction); XLA goes into the bodies of loops and calls. Control flow has no
  cost here.
- Times come from the roofline of `hwsim.mmap.cost` with everything in HBM, whatever has been placed.
- Boundedness leaves out what copies would cost other values.
- A window of a copy takes its first step into account and may be as short as its copy: XLA's intervals are open.
- An eviction's window begins with the step after the producer and is not tried step by step where its preferred end
  fails.
- A use that would not be quicker from fast memory is not prefetched: the copy could only slow others down.
- Where an alias group cannot be placed in two tries, its values are tried without it; XLA leaves all of them in HBM.
- No repacking, no copies between places in fast memory, no sliced or cross-program prefetches, no scoped allocations.
- At most 100 steps before the preferred one are tried for a prefetch (XLA limits them likewise in later versions).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwsim.mmap.heuristic.place import Placer, Ratios
from hwsim.mmap.layout import Layout
from hwsim.mmap.savings import begins_s, savings_s
from hwsim.mmap.tables import Tables
from hwsim.problem import Floats
from workloads.programs.program import Program


@dataclass(frozen=True)
class HeuristicConfig:
    """Settings of the heuristic; the ratios are of the time that a copy may overlap with to the time that it takes.

    Attributes:
        min_ratio, preferred_ratio, max_ratio: least, wanted and greatest; `max_ratio` also limits how long a value is
            kept without a copy, as a multiple of the time in which all of fast memory could be copied.
        retries: tries of a value after its first one; each doubles the time that an eviction is given.
    """

    min_ratio: float = 0.8
    preferred_ratio: float = 1.5
    max_ratio: float = 10.0
    retries: int = 1


def heuristic_layout(
    program: Program, tables: Tables, granule_bytes: int, config: HeuristicConfig | None = None
) -> Layout:
    """The heuristic's layout of a program.

    Copies overlap in it, which the judge accepts with `pools=True`; `copy_use_s` is all zeros, since nothing is
    taken of the game's supply. Its `action` is also the proposal with which the game comes near to it.
    """
    settings = config or HeuristicConfig()
    saved = savings_s(tables)
    ratios = Ratios(settings.min_ratio, settings.preferred_ratio, settings.max_ratio)
    longest_s = settings.max_ratio * tables.capacity * granule_bytes / tables.hbm_Bps
    placer = Placer(program, tables, begins_s(tables), saved, ratios, longest_s)
    for block in _blocks(tables, _order(program, tables, saved)):
        placer.place(block, settings.retries)
    return placer.layout(granule_bytes)


def _order(program: Program, tables: Tables, saved: Floats) -> list[int]:
    """The tensors that fit, those first whose place matters most: boundedness, size, duration, latest use, start."""
    benefit = np.zeros(len(program.tensors))
    np.add.at(benefit, tables.buffer["tensor"], saved)
    fits = {
        int(b["tensor"])
        for b in tables.buffer[["tensor", "granules"]]
        if 0 < b["granules"] <= tables.capacity
    }

    def key(tensor: int) -> tuple[float, int, int, int, int, int]:
        size, (first, last) = program.tensors[tensor].size_bytes, program.live_range(tensor)
        return -float(benefit[tensor]) / size**0.5, -size, first - last, last, first, tensor

    return sorted(fits, key=key)


def _blocks(tables: Tables, order: list[int]) -> list[list[int]]:
    """Tensors that alias groups tie together, in the order of their first one; within a block by number."""
    root: dict[int, int] = {}

    def find(tensor: int) -> int:
        """The representative of a tensor's block (union-find with path halving)."""
        while root.setdefault(tensor, tensor) != tensor:
            root[tensor] = root[root[tensor]]
            tensor = root[tensor]
        return tensor

    member: dict[int, int] = {}
    for buffer in tables.buffer[["tensor", "group", "granules"]]:
        tensor, group = int(buffer["tensor"]), int(buffer["group"])
        if group >= 0 and buffer["granules"] > 0:
            root[find(tensor)] = find(member.setdefault(group, tensor))
    blocks: dict[int, list[int]] = {}
    for tensor in order:
        blocks.setdefault(find(tensor), []).append(tensor)
    return [sorted(block) for block in blocks.values()]
