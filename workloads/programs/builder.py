"""Programs put together step by step: uses make buffers, and times follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from workloads.programs.check import check
from workloads.programs.program import NO_ALIAS, Buffer, Instruction, Program, Tensor


class ProgramBuilder:
    """Collects tensors and instructions in schedule order; `build` gives the checked program.

    A tensor of no bytes gets no buffers: nothing can place it.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._sizes: list[int] = []
        self._produced: list[int] = []
        self._last: list[int] = []
        self._results: set[int] = set()
        self._instructions: list[Instruction] = []
        self._buffers: list[Buffer] = []
        self._groups = 0

    @property
    def time(self) -> int:
        """Logical time of the next instruction."""
        return len(self._instructions)

    def tensor(self, name: str, size_bytes: int) -> int:
        """The position of a new tensor, there from the start until an instruction says that it writes it."""
        self._names.append(name)
        self._sizes.append(size_bytes)
        self._produced.append(-1)
        self._last.append(0)
        return len(self._names) - 1

    def instruction(
        self,
        name: str,
        opcode: str,
        flops: int,
        reads: Mapping[int, int],
        writes: Mapping[int, int],
        slow_bytes: int = 0,
        in_place: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Append an instruction that moves so many bytes of each tensor; each pair (read, written) of `in_place` is a
        value and the one that takes its place."""
        at = self.time
        self._instructions.append(Instruction(name, opcode, flops, slow_bytes))
        group: dict[tuple[int, bool], int] = {}
        for old, new in in_place:
            if self._sizes[old] and self._sizes[new]:
                group[old, False] = group[new, True] = self._groups
                self._groups += 1
        for tensor, traffic in reads.items():
            self.use(tensor, at)
            self._append(tensor, at, False, traffic, group)
        for tensor, traffic in writes.items():
            self._produced[tensor] = at
            self.use(tensor, at)
            self._append(tensor, at, True, traffic, group)

    def _append(
        self, tensor: int, at: int, is_output: bool, traffic: int, group: Mapping[tuple[int, bool], int]
    ) -> None:
        if self._sizes[tensor]:
            alias = group.get((tensor, is_output), NO_ALIAS)
            self._buffers.append(Buffer(tensor, at, is_output, traffic, alias))

    def use(self, tensor: int, at: int) -> None:
        """Keep a tensor at least until logical time `at`."""
        self._last[tensor] = max(self._last[tensor], at)

    def result(self, tensor: int) -> None:
        """Mark a tensor that must be in slow memory at the end; what is there from the start is so already."""
        if self._produced[tensor] >= 0:
            self._results.add(tensor)

    def share(self, tensors: Sequence[int]) -> None:
        """Let all buffers of these tensors share one place, with those that share one with any of them already."""
        members = set(tensors)
        groups = {b.alias_id for b in self._buffers if b.tensor in members} - {NO_ALIAS}
        self._buffers = [
            replace(b, alias_id=self._groups) if b.tensor in members or b.alias_id in groups else b
            for b in self._buffers
        ]
        self._groups += 1

    def build(self, name: str, source: str = "", remarks: tuple[str, ...] = ()) -> Program:
        """The program. Raises InputError where it is not sound (sizes out of range, say)."""
        tensors = tuple(
            Tensor(self._names[i], self._sizes[i], self._produced[i], self._last[i], i in self._results)
            for i in range(len(self._names))
        )
        return check(Program(name, tuple(self._instructions), tensors, tuple(self._buffers), source, remarks))
