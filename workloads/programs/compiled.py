"""What the compiler of a program decided and estimated: where its buffers lie, and the cycles of its instructions.

It is no part of what the program does: a game may be played without it. Knows no chip.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from workloads.errors import Fault, wrong

DROP, COPY, NO_COPY = 0, 1, 2
NEVER = -1
MOST = 2**50
"""Exclusive bound of cycles and of bytes of one instruction."""


@dataclass(frozen=True)
class Estimate:
    """The cycles that the compiler expects an instruction to take (0: it states none), and the bytes of fast
    memory that it keeps for the instruction's inside."""

    cycles: int
    scratch_bytes: int


@dataclass(frozen=True)
class Placed:
    """Where a buffer lies: 0 in slow memory, 1 copied, 2 where its tensor lies or is written; and the first and last
    instruction beside which a copy runs (-1: none)."""

    action: int
    copy_first: int = NEVER
    copy_last: int = NEVER


@dataclass(frozen=True)
class Compiled:
    """A compiler's own placement of a program, by its name, such as "xla".

    Attributes:
        instructions: [T], in the program's order.
        buffers: [N], in the program's order.
    """

    name: str
    instructions: tuple[Estimate, ...]
    buffers: tuple[Placed, ...]

    @property
    def cycles(self) -> int:
        """Cycles of all instructions, without what they wait for copies."""
        return sum(each.cycles for each in self.instructions)

    @property
    def scratch_bytes(self) -> int:
        """The most that an instruction takes of fast memory for its inside."""
        return max((each.scratch_bytes for each in self.instructions), default=0)


TABLES: dict[str, type] = {"instructions": Estimate, "buffers": Placed}
COLUMNS = {table: {f.name: str(f.type) for f in fields(row)} for table, row in TABLES.items()}


def check(compiled: Compiled, instructions: int, buffers: int) -> None:
    """Fault where it does not fit a program of so many instructions and buffers."""
    if not compiled.name.isidentifier() or not compiled.name.isascii():
        raise wrong("compiled.name", "a word", compiled.name)
    for table, found, expected in (
        ("instructions", len(compiled.instructions), instructions),
        ("buffers", len(compiled.buffers), buffers),
    ):
        if found != expected:
            raise Fault(f"compiled.{table}: expected {expected}, found {found}")
    for i, each in enumerate(compiled.instructions):
        _within(f"compiled.instructions[{i}]", each, {"cycles": (0, MOST), "scratch_bytes": (0, MOST)})
    steps = (NEVER, instructions)
    for i, placed in enumerate(compiled.buffers):
        where = f"compiled.buffers[{i}]"
        _within(where, placed, {"action": (DROP, NO_COPY + 1), "copy_first": steps, "copy_last": steps})
        copied = placed.action == COPY
        if copied != (placed.copy_first != NEVER) or copied != (placed.copy_last != NEVER):
            raise Fault(f"{where}: expected a window of a copy, and of no other action, found {placed}")


def _within(where: str, row: Any, limits: dict[str, tuple[int, int]]) -> None:
    for name, (low, high) in limits.items():
        value = getattr(row, name)
        if type(value) is not int or not low <= value < high:
            raise wrong(f"{where}.{name}", f"an integer from {low} to {high - 1}", value)
