"""Addresses for the tensors of a mapping: each memory packed by itself, as JSON, CSV and text."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from egrl.core.mapping_file import Addresses
from hwsim.allocation.buffers import Buffer, Packing
from hwsim.allocation.judge import judge
from hwsim.allocation.pack import pack
from hwsim.capabilities import HasLifetimes, Lifetime
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.text import csv_cell

FILE = "allocation"
"""Stem of what `egrl allocate` leaves in a run folder."""
COLUMNS = (
    "op",
    "head",
    "memory",
    "size_bytes",
    "first_op",
    "last_op",
    "first_step",
    "last_step",
    "offset_bytes",
)
"""Of a tensor; its lifetime is closed: it is still held while its last op runs."""


@dataclass(frozen=True)
class PackedMemory:
    """One memory and the tensors in it.

    Attributes:
        name, capacity_bytes: the memory's.
        tensors: what lies in it, in the order of nodes and heads.
        packing: their offsets, in the same order.
        seconds: what it took.
    """

    name: str
    capacity_bytes: int
    tensors: tuple[Lifetime, ...]
    packing: Packing
    seconds: float

    @property
    def over_bytes(self) -> int:
        """By how many bytes the highest tensor sticks out; 0 where all fit."""
        return max(0, self.packing.height_bytes - self.capacity_bytes)

    @property
    def sticking_out(self) -> list[str]:
        """The tensors that end above the capacity."""
        return [
            f"{tensor.head} of {tensor.node}"
            for tensor, offset in zip(self.tensors, self.packing.offsets, strict=True)
            if offset + tensor.size_bytes > self.capacity_bytes
        ]


def allocate(
    problem: Problem,
    mapping: Mapping16,
    align_bytes: int,
    time_limit_s: float,
    seed: int,
    fixed: Addresses | None = None,
    where: str = "",
) -> list[PackedMemory]:
    """Each memory of a problem under one mapping [N, H] as it stands, packed within `time_limit_s`, slowest first.

    `fixed` are addresses that tensors must have, from the file `where`.

    Raises:
        InputError: the problem cannot say where its tensors live and when, or addresses in `fixed` are not possible.
    """
    if not isinstance(problem, HasLifetimes):
        raise InputError(
            f"allocate: expected a problem with lifetimes of tensors, found {problem.about.name!r}"
        )
    lifetimes = problem.lifetimes(mapping)
    given = fixed or {}
    _check_memories(given, lifetimes, [name for name, _ in problem.memories()], where)
    packed = []
    for number, (name, capacity) in enumerate(problem.memories()):
        tensors = tuple(tensor for tensor in lifetimes if tensor.memory == number)
        buffers = [
            Buffer(
                f"{tensor.head} of {tensor.node}",
                tensor.size_bytes,
                tensor.first,
                tensor.last + 1,
                given.get((tensor.node, tensor.head), (None, ""))[0],
            )
            for tensor in tensors
        ]
        _check_fixed(buffers, name, capacity, align_bytes, where)
        begun = time.monotonic()
        packing = pack(buffers, capacity, align_bytes, time_limit_s, seed)
        seconds = time.monotonic() - begun
        room = max(capacity, packing.height_bytes)
        broken = judge(_lives(buffers), packing.offsets, room, align_bytes)
        moved = any(b.fixed not in (None, offset) for b, offset in zip(buffers, packing.offsets, strict=True))
        if moved or broken or (packing.verdict == "packed") != (packing.height_bytes <= capacity):
            raise RuntimeError(f"{name}: the judge refuses the packing: {'; '.join(map(str, broken[:3]))}")
        packed.append(PackedMemory(name, capacity, tensors, packing, seconds))
    return packed


def _lives(buffers: Sequence[Buffer]) -> list[tuple[str, int, int, int]]:
    return [(b.name, b.size_bytes, b.first, b.end) for b in buffers]


def _check_memories(
    fixed: Addresses, lifetimes: Sequence[Lifetime], memories: Sequence[str], where: str
) -> None:
    """InputError where an address is that of a tensor which does not exist, or lies in another memory."""
    lies_in = {(tensor.node, tensor.head): memories[tensor.memory] for tensor in lifetimes}
    for (node, head), (_, memory) in fixed.items():
        found = lies_in.get((node, head), "")
        if not found:
            raise InputError(
                f"{where}: {head} of {node}: expected a tensor that the mapping places, found none"
            )
        if memory not in ("", found):
            raise InputError(
                f"{where}: {head} of {node}: expected an address in {found}, where the mapping has it, found one in"
                f" {memory}"
            )


def _check_fixed(
    buffers: Sequence[Buffer], memory: str, capacity_bytes: int, align_bytes: int, where: str
) -> None:
    """InputError where given addresses share bytes, end above the memory or are not aligned."""
    given = [buffer for buffer in buffers if buffer.fixed is not None]
    broken = judge(_lives(given), [buffer.fixed or 0 for buffer in given], capacity_bytes, align_bytes)
    if broken:
        first, more = broken[0], f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise InputError(
            f"{where}: expected addresses in {memory} that can be kept at --align {align_bytes}, found {first}{more}"
        )


def document(
    problem: Problem, mapping: str, memories: Sequence[PackedMemory], align_bytes: int
) -> dict[str, Any]:
    """What `allocation.json` has; `mapping` names where the mapping came from."""
    return {
        "kind": "allocation",
        "version": 1,
        "problem": problem.about.name,
        "workload": problem.about.workload,
        "chip": problem.about.chip,
        "mapping": mapping,
        "align_bytes": align_bytes,
        "packed": all(memory.packing.verdict == "packed" for memory in memories),
        "memories": [
            {
                "memory": memory.name,
                "capacity_bytes": memory.capacity_bytes,
                "tensors": len(memory.tensors),
                "fullest_bytes": memory.packing.fullest_bytes,
                "height_bytes": memory.packing.height_bytes,
                "packed": memory.packing.verdict == "packed",
                "verdict": memory.packing.verdict,
                "over_bytes": memory.over_bytes,
                "sticking_out": memory.sticking_out,
            }
            for memory in memories
        ],
        "tensors": rows(problem, memories),
    }


def rows(problem: Problem, memories: Sequence[PackedMemory]) -> list[dict[str, Any]]:
    """A row of COLUMNS a tensor, by op and head, under the names of the workload's own file."""
    order = {name: number for number, name in enumerate(problem.space.nodes)}
    placed = [
        (order[tensor.node], problem.space.heads.index(tensor.head), tensor, memory.name, offset)
        for memory in memories
        for tensor, offset in zip(memory.tensors, memory.packing.offsets, strict=True)
    ]
    return [
        dict(
            zip(
                COLUMNS,
                (
                    tensor.node,
                    tensor.head,
                    memory,
                    tensor.size_bytes,
                    problem.space.nodes[tensor.first],
                    problem.space.nodes[tensor.last],
                    tensor.first,
                    tensor.last,
                    offset,
                ),
                strict=True,
            )
        )
        for _, _, tensor, memory, offset in sorted(placed, key=lambda place: place[:2])
    ]


def csv_of(report: dict[str, Any]) -> str:
    """The tensors of a document as CSV, the names of the columns first."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: csv_cell(value) for key, value in row.items()} for row in report["tensors"])
    return stream.getvalue()
