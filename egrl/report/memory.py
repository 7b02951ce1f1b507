"""Memory over time: where each tensor lies and for how long, under the baseline's mapping and the best."""

from __future__ import annotations

import numpy as np

from egrl.report.changes import BEST
from egrl.runs.allocation import PackedMemory, allocate
from hwsim.capabilities import HasLifetimes, HasOccupancy, explainer
from hwsim.explanation import OpTimes
from hwsim.problem import Mapping16, Problem
from hwsim.sections import Box, Line, Lines, MemoryMap, MemoryMaps, Section

ALIGN_BYTES, SECONDS, SEED = 64, 1.0, 0
"""Of the addresses: as `egrl allocate`, with less time for a memory that is hard to pack."""


def memory(problem: Problem, best: Mapping16) -> list[Section]:
    """Maps of the memories where tensors have lifetimes; else what memories hold, where the problem can say that."""
    mappings = {problem.about.baseline_name: problem.baseline.mapping, BEST: best}
    if isinstance(problem, HasLifetimes):
        maps = [each for label, mapping in mappings.items() for each in _maps(problem, label, mapping)]
        names = [name for name, _ in reversed(list(problem.memories()))]
        maps.sort(key=lambda each: names.index(each.memory))
        says = (
            "A box is a tensor in a memory: how long it is needed, and at which address. The addresses are those that"
            " egrl allocate finds in a second; empty memories are left out."
        )
        timed = explainer(problem, OpTimes) is not None
        shown = [each for each in maps if any(other.memory == each.memory and other.boxes for other in maps)]
        return [MemoryMaps("Memory over time", says, shown, "s" if timed else "", problem.about.step)]
    if isinstance(problem, HasOccupancy):
        return _held(problem, mappings)
    return []


def edges(problem: Problem, mapping: Mapping16, steps: int) -> list[float]:
    """[T + 1], when steps begin and the last ends: in seconds where the problem explains them, else their numbers."""
    if explain := explainer(problem, OpTimes):
        durations = [op.duration_s for op in explain(mapping).ops]
        return np.concatenate([[0.0], np.cumsum(durations)]).tolist()
    return [float(step) for step in range(steps + 1)]


def _maps(problem: Problem, label: str, mapping: Mapping16) -> list[MemoryMap]:
    begins = edges(problem, mapping, len(problem.space.nodes))
    return [
        MemoryMap(label, memory.name, memory.capacity_bytes, begins, _boxes(memory))
        for memory in allocate(problem, mapping, ALIGN_BYTES, SECONDS, SEED)
    ]


def _boxes(memory: PackedMemory) -> list[Box]:
    return [
        Box(f"{t.head} of {t.node}", t.head, t.first, t.last + 1, offset, t.size_bytes)
        for t, offset in zip(memory.tensors, memory.packing.offsets, strict=True)
    ]


def _held(problem: HasOccupancy, mappings: dict[str, Mapping16]) -> list[Section]:
    held = {label: problem.occupancy(mapping) for label, mapping in mappings.items()}
    first = next(iter(held.values()))
    return [
        Lines(
            f"Memory over time: {name}",
            "Bytes held at each step; the level is what the memory can hold.",
            "step",
            "bytes",
            [
                Line(label, range(len(found.by_head)), found.occupied_bytes[:, number].tolist())
                for label, found in held.items()
            ],
            {"capacity": float(first.capacity_bytes[number])},
            ("", "B"),
        )
        for number, name in enumerate(first.memories)
    ]
