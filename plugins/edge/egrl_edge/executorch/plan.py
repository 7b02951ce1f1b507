"""A memory plan: where each tensor of a graph lies, from when to when, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hwsim.allocation.judge import judge
from hwsim.problem import Violation


@dataclass(frozen=True)
class Bank:
    """A bank as a plan knows it."""

    name: str
    mem_id: int
    size_bytes: int
    align_bytes: int


@dataclass(frozen=True)
class Row:
    """A tensor in its place. Its size is rounded up to the bank's alignment, its life is nodes of the graph, closed."""

    name: str
    size_bytes: int
    first: int
    last: int
    mem_id: int
    offset_bytes: int


@dataclass(frozen=True)
class Cost:
    """The modelled cost of a placement: seconds per run, and bytes moved through each memory of the chip."""

    seconds: float
    moved_bytes: dict[str, int]


@dataclass(frozen=True)
class Plan:
    """A plan for one graph.

    Attributes:
        banks, rows: what lies where.
        by: the method whose placement it is, or "BankedGreedy" where that was better.
        cost, greedy: of this plan, and of BankedGreedy's; None where there is none.
        bound_s: no placement takes less time; 0 where nothing is proved.
        seconds: what planning took.
    """

    banks: tuple[Bank, ...]
    rows: tuple[Row, ...]
    by: str
    cost: Cost | None = None
    greedy: Cost | None = None
    bound_s: float = 0.0
    seconds: float = 0.0

    def used_bytes(self, bank: Bank) -> int:
        """Bytes of a bank up to the end of its highest tensor."""
        return max(
            (row.offset_bytes + row.size_bytes for row in self.rows if row.mem_id == bank.mem_id), default=0
        )

    def violations(self) -> list[Violation]:
        """Violations: two live tensors that share a byte, a bank that is exceeded, an offset that is not aligned."""
        found: list[Violation] = []
        for bank in self.banks:
            rows = [row for row in self.rows if row.mem_id == bank.mem_id]
            buffers = [(row.name, row.size_bytes, row.first, row.last + 1) for row in rows]
            offsets = [row.offset_bytes for row in rows]
            broken = judge(buffers, offsets, bank.size_bytes, bank.align_bytes)
            found += [replace(each, where=f"{each.where} in {bank.name}") for each in broken]
        return found


def objects_of(rows: Sequence[Row]) -> dict[str, int]:
    """A number for each tensor, the same for two whose addresses in a bank overlap, directly or through others."""
    numbers: dict[str, int] = {}
    end, number = -1, -1
    for row in sorted(rows, key=lambda row: (row.mem_id, row.offset_bytes)):
        bank = row.mem_id << 64
        if bank + row.offset_bytes >= end:
            number += 1
        end = max(end, bank + row.offset_bytes + row.size_bytes)
        numbers[row.name] = number
    return numbers
