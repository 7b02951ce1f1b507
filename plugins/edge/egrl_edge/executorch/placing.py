"""From the tensors of a graph to a plan: a placement is searched for, and each bank is packed.

A placement counts what lives at a step; whether that has addresses is found out by packing. Where a bank does not pack,
it is given less room by what stuck out, and the placement is searched for again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from egrl.api import search
from egrl.methods import find_method
from egrl_edge.banks.cost import costs
from egrl_edge.banks.problem import Banks, BanksProblem
from egrl_edge.executorch.plan import Bank, Cost, Plan, Row
from egrl_edge.executorch.specs import Exported
from egrl_edge.executorch.target import Target
from hwsim.allocation.buffers import Buffer
from hwsim.allocation.pack import pack
from hwsim.problem import Mapping16
from workloads.errors import InputError

ROUNDS = 12
"""Placements that are searched for, each with less room than the one before."""
GREEDY = "BankedGreedy"
NAMED = 4
"""Tensors that an error names."""


@dataclass(frozen=True)
class Effort:
    """How a placement is searched for: by which method, for how long, from which seed.

    InputError where there is no such method, or a number is none that it may be.
    """

    method: str
    seconds: float
    seed: int

    def __post_init__(self) -> None:
        find_method(self.method)
        if not (isinstance(self.seconds, int | float) and 0 < self.seconds < math.inf):
            raise InputError(f"seconds: expected a number greater than 0, found {self.seconds!r}")
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise InputError(f"seed: expected a whole number of at least 0, found {self.seed!r}")


@dataclass(frozen=True)
class Question:
    """The placement problem: tensors, banks, the mem_id of pinned tensors, and BankedGreedy's own answer."""

    exported: Exported
    banks: tuple[Bank, ...]
    pins: Mapping[str, int]
    greedy: Mapping[str, tuple[int, int]] | None


class Placer:
    """One graph on one target."""

    def __init__(self, question: Question, target: Target, effort: Effort) -> None:
        self._question, self._target, self._effort = question, target, effort
        self._memory = {
            bank.mem_id: memory for bank, memory in zip(question.banks, target.memory, strict=True)
        }

    def plan(self) -> Plan:
        """The best plan that is found. InputError where none is."""
        room = {bank.mem_id: bank.size_bytes for bank in self._question.banks}
        try:
            first = self._problem(room)
        except InputError as error:
            if self._question.greedy is None:
                raise
            return Plan(self._question.banks, self._greedy_rows(), f"{GREEDY}; {error}")
        ours = self._search(first, room)
        if self._question.greedy is None:
            return ours
        theirs = self._cost(first, self._greedy_mapping(first))
        if ours.cost is None or theirs.seconds <= ours.cost.seconds:
            ours = replace(ours, rows=self._greedy_rows(), by=GREEDY, cost=theirs)
        return replace(ours, greedy=theirs)

    def _problem(self, room: Mapping[int, int]) -> BanksProblem:
        """The problem with so many bytes a bank, by mem_id. InputError where no placement fits."""
        capacity, align = [0] * len(self._target.chip.memories), [1] * len(self._target.chip.memories)
        for bank in self._question.banks:
            capacity[self._memory[bank.mem_id]] = max(room[bank.mem_id], 0)
            align[self._memory[bank.mem_id]] = bank.align_bytes
        pins = {name: self._memory[mem_id] for name, mem_id in self._question.pins.items()}
        banks = Banks(tuple(capacity), tuple(align), pins)
        return BanksProblem(self._question.exported.program, self._target.chip, banks=banks)

    def _search(self, first: BanksProblem, room: dict[int, int]) -> Plan:
        """A plan whose banks pack; without rows and cost where none is found though BankedGreedy has one."""
        problem, bound_s, short = first, 0.0, ""
        for turn in range(ROUNDS):
            mapping, bound = self._placement(problem)
            bound_s = bound if turn == 0 else bound_s
            rows, over = self._pack(problem, mapping)
            if not over:
                by = self._effort.method
                return Plan(self._question.banks, rows, by, self._cost(first, mapping), bound_s=bound_s)
            short = short or "; ".join(self._words(bank, bytes_, rows) for bank, bytes_ in over.items())
            room = {mem_id: free - over.get(mem_id, 0) for mem_id, free in room.items()}
            try:
                problem = self._problem(room)
            except InputError:
                break
        if self._question.greedy is not None:
            return Plan(self._question.banks, (), GREEDY, bound_s=bound_s)
        raise InputError(f"planner: a placement that packs is not found: {short}")

    def _placement(self, problem: BanksProblem) -> tuple[Mapping16, float]:
        """The best placement int16 [N, 1] of the search, and what it proves in seconds (0: nothing)."""
        if not problem.space.live.any():
            return problem.space.initial, problem.baseline.cost
        method, seconds = self._effort.method, self._effort.seconds
        if method == "exact":
            found = search(
                problem, method=method, seed=self._effort.seed, settings=[f"method.seconds={seconds}"]
            )
        else:
            found = search(problem, method=method, seed=self._effort.seed, seconds=seconds)
        mapping = problem.baseline.mapping if found.mapping is None else found.mapping
        return mapping, found.bound or 0.0

    def _pack(self, problem: BanksProblem, mapping: Mapping16) -> tuple[tuple[Row, ...], dict[int, int]]:
        """Rows, in the order of the tensors, and by mem_id how many bytes stick out of banks that do not pack."""
        exported, rows, over = self._question.exported, {}, {}
        memory = {
            place.name: int(choice) for place, choice in zip(problem.places, mapping[:, 0], strict=True)
        }
        memory |= {name: self._memory[mem_id] for name, mem_id in self._question.pins.items()}
        for bank in self._question.banks:
            here, align = self._memory[bank.mem_id], bank.align_bytes
            empty = here == self._memory[self._question.banks[0].mem_id]
            buffers = []
            for tensor, (first, last) in zip(exported.program.tensors, exported.lives, strict=True):
                if memory[tensor.name] == here or (tensor.size_bytes == 0 and empty):
                    size = -(-tensor.size_bytes // align) * align
                    buffers.append(Buffer(tensor.name, size, first, last + 1))
            packing = pack(buffers, max(bank.size_bytes, 0), align, self._effort.seconds, self._effort.seed)
            if packing.height_bytes > bank.size_bytes:
                over[bank.mem_id] = packing.height_bytes - bank.size_bytes
            for buffer, offset in zip(buffers, packing.offsets, strict=True):
                rows[buffer.name] = Row(
                    buffer.name, buffer.size_bytes, buffer.first, buffer.end - 1, bank.mem_id, offset
                )
        return tuple(rows[tensor.name] for tensor in exported.program.tensors), over

    def _words(self, mem_id: int, over: int, rows: Sequence[Row]) -> str:
        bank = next(bank for bank in self._question.banks if bank.mem_id == mem_id)
        out = [
            row
            for row in rows
            if row.mem_id == mem_id and row.offset_bytes + row.size_bytes > bank.size_bytes
        ]
        names = ", ".join(f"{row.name} ({row.size_bytes})" for row in out[:NAMED])
        return f"{bank.name} of {bank.size_bytes} bytes is short by {over}, {names} sticking out"

    def _cost(self, problem: BanksProblem, mapping: Mapping16) -> Cost:
        moved = problem.moved_bytes(mapping)
        names = self._target.chip.memory_names
        seconds = float(costs(problem.tables, mapping[None])[0])
        return Cost(seconds, {name: int(count) for name, count in zip(names, moved, strict=True)})

    def _greedy_mapping(self, problem: BanksProblem) -> Mapping16:
        assert self._question.greedy is not None
        choices = [self._memory[self._question.greedy[place.name][0]] for place in problem.places]
        return problem.space.canonical(np.array(choices, np.int16)[:, None])

    def _greedy_rows(self) -> tuple[Row, ...]:
        assert self._question.greedy is not None
        exported, rows = self._question.exported, []
        align = {bank.mem_id: bank.align_bytes for bank in self._question.banks}
        for tensor, (first, last) in zip(exported.program.tensors, exported.lives, strict=True):
            mem_id, offset = self._question.greedy[tensor.name]
            size = -(-tensor.size_bytes // align[mem_id]) * align[mem_id]
            rows.append(Row(tensor.name, size, first, last, mem_id, offset))
        return tuple(rows)


def with_constants(plan: Plan, exported: Exported, target: Target) -> Plan:
    """A plan that also holds, in what room its faster banks have left, the constants that are read the most a byte.

    `exported` has the constants as tensors, beside those of the plan. A constant stays in its place for good.
    """
    placed = {row.name for row in plan.rows}
    moved = [0] * len(exported.program.tensors)
    for buffer in exported.program:
        moved[buffer.tensor] += buffer.traffic_bytes
    wanted = [
        number
        for number, tensor in enumerate(exported.program.tensors)
        if tensor.name not in placed and tensor.size_bytes > 0
    ]
    wanted.sort(key=lambda number: -moved[number] / exported.program.tensors[number].size_bytes)
    rows, cost = list(plan.rows), plan.cost
    memories = target.chip.memories
    for bank, memory in zip(plan.banks, target.memory, strict=True):
        if memory == 0:  # where constants lie anyway
            continue
        end = plan.used_bytes(bank)
        for number in list(wanted):
            tensor = exported.program.tensors[number]
            size = -(-tensor.size_bytes // bank.align_bytes) * bank.align_bytes
            if end + size > bank.size_bytes:
                continue
            rows.append(Row(tensor.name, size, *exported.lives[number], bank.mem_id, end))
            end += size
            wanted.remove(number)
            if cost is not None:
                slow, fast = memories[0], memories[memory]
                saved = moved[number] * (1 / slow.bandwidth_Bps - 1 / fast.bandwidth_Bps)
                bytes_ = dict(cost.moved_bytes)
                bytes_[slow.name] -= moved[number]
                bytes_[fast.name] += moved[number]
                cost = Cost(cost.seconds - saved, bytes_)
    # What was proved is proved of tensors, with all constants in the slowest memory.
    return replace(plan, rows=tuple(rows), cost=cost, bound_s=0.0)
