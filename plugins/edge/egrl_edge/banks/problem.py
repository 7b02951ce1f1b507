"""Placing the tensors of a program in banks of memory, as a `hwsim.problem.Problem`.

Source: the memory map of ExecuTorch (`TargetMemoryMap`): banks with sizes, tensors with lives, pins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl_edge.banks.baseline import baseline
from egrl_edge.banks.cost import VERSION, costs, fit, moved_bytes
from egrl_edge.banks.judge import judge
from egrl_edge.banks.tables import build_tables, places_of
from hwsim.capabilities import Lifetime, Occupancy, Solution
from hwsim.mappings import choice_columns
from hwsim.nnpi.chip import Chip, chip_file
from hwsim.problem import (
    UNPROVED,
    About,
    Baseline,
    Bound,
    Evaluation,
    Floats,
    Keys,
    Mapping16,
    Observation,
    Violation,
)
from hwsim.space import Space
from workloads.errors import InputError
from workloads.programs.json_file import to_json
from workloads.programs.program import Program

OBSERVED = 1
"""The version of the features."""


@dataclass(frozen=True)
class BanksConfig:
    """Settings of the problem."""

    align_bytes: Annotated[
        int, Ge(1), Le(2**20), Doc("the size of each tensor is rounded up to a multiple of this many bytes")
    ] = 16


@dataclass(frozen=True)
class Banks:
    """What a compiler knows of the chip's memories beyond the chip file.

    Attributes:
        capacity_bytes: bytes that each memory can hold, slowest first; 0: no tensor may be placed there.
        align_bytes: for each memory, the multiple to which sizes are rounded up.
        pins: for each pinned tensor, the number of its memory.
    """

    capacity_bytes: tuple[int, ...]
    align_bytes: tuple[int, ...]
    pins: Mapping[str, int]


class BanksProblem:
    """Place each tensor of a program in one of the chip's memories, where it stays while it lives.

    mapping   int16 [N, 1]: the memory of each place (a tensor, or an alias group); 0 = slowest; -1 = pinned or empty
    cost      seconds of one run of the program, by `banks/tables.py`; constants are read from the slowest memory
    reward    (baseline cost / cost)^2; -1 if there is no room at all for a place
    valid     at every instruction, what lives in a memory fits in it

    Attributes:
        program: the program with the tensors to place.
    """

    def __init__(
        self, program: Program, chip: Chip, config: BanksConfig | None = None, banks: Banks | None = None
    ) -> None:
        """Build the tables and the baseline.

        Raises:
            InputError: no placement fits, none was found within the limits, or a pin names no tensor.
        """
        self.config = config or BanksConfig()
        self.program, self._chip = program, chip
        self._banks = banks or Banks(
            tuple(memory.available_bytes for memory in chip.memories),
            (self.config.align_bytes,) * len(chip.memories),
            {},
        )
        self.places = places_of(program)
        numbers = {place.name: number for number, place in enumerate(self.places)}
        missing = sorted(set(self._banks.pins) - set(numbers))
        if missing:
            raise InputError(
                f"pins: expected tensors of {program.name}, each the first of its place, found {missing[0]!r}"
            )
        pins = {numbers[name]: memory for name, memory in self._banks.pins.items()}
        self.tables = build_tables(
            program, self.places, chip, self._banks.align_bytes, self._banks.capacity_bytes, pins
        )
        self.about = About(
            "banks",
            program.name,
            chip.name,
            baseline_name="the largest-first rule",
            evaluated="placements",
            place="memory",
            step="instruction",
            uncounted="; ".join(program.remarks),
        )
        sizes = [0 if number in pins else place.size_bytes for number, place in enumerate(self.places)]
        self.space = Space(
            [place.name for place in self.places],
            ("bank",),
            np.full((len(sizes), 1), len(chip.memories), np.int16),
            [chip.memory_names],
            np.array(sizes, np.int64)[:, None],
        )
        self.baseline: Baseline = baseline(
            self.tables, self.places, chip.memory_names, f"{program.name} on {chip.name}"
        )

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Cost of placements int16 [B, N, 1], each made to fit by `egrl_edge.banks.cost.fit`. Keys are ignored.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        proposed = np.ascontiguousarray(self.space.canonical(mapping))
        fitted, moved = fit(self.tables, proposed)
        runs = moved >= 0
        share = np.where(runs, moved / max(int(self.tables.size_bytes.max(axis=1).sum()), 1), 1.0)
        judged = np.where(runs[:, None, None], fitted, proposed)
        return Evaluation.of_costs(costs(self.tables, judged), self.baseline.cost, runs, judged, share)

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Every constraint that one placement int16 [N, 1] breaks, by code that shares nothing with `evaluate`."""
        memories = [
            (name, room, align)
            for (name, room), align in zip(self.memories(), self._banks.align_bytes, strict=True)
        ]
        places = [(place.name, place.size_bytes, place.first, place.last) for place in self.places]
        return judge(places, memories, dict(self._banks.pins), [int(choice) for choice in mapping[:, 0]])

    def memories(self) -> Sequence[tuple[str, int]]:
        """Name and capacity in bytes of the memories, slowest first."""
        return tuple(zip(self._chip.memory_names, self._banks.capacity_bytes, strict=True))

    def lifetimes(self, mapping: Mapping16) -> list[Lifetime]:
        """The memory and the lifetime of each place under one placement int16 [N, 1], as it stands, in instructions.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping[None], np.zeros(1, np.uint64))
        return [
            Lifetime(place.name, "bank", int(choice), place.size_bytes, place.first, place.last)
            for place, choice in zip(self.places, self.space.canonical(mapping)[:, 0], strict=True)
            if choice >= 0
        ]

    def occupancy(self, mapping: Mapping16) -> Occupancy:
        """Bytes that live at each instruction under one placement int16 [N, 1] as it stands, pinned ones included."""
        names = self._chip.memory_names
        held = np.zeros((len(self.program.instructions), len(names), 1), np.int64)
        choices = self.space.canonical(mapping)[:, 0].tolist()
        for place, choice in zip(self.places, choices, strict=True):
            memory = choice if choice >= 0 else self._banks.pins.get(place.name)
            if memory is not None:
                held[place.first : place.last + 1, memory] += place.size_bytes
        return Occupancy(tuple(names), held, np.array(self._banks.capacity_bytes, np.int64))

    def moved_bytes(self, mapping: Mapping16) -> Floats:
        """float64 [L], bytes that one valid placement int16 [N, 1] moves through each memory, slowest first."""
        return moved_bytes(self.tables, self.space.canonical(mapping))

    def solve(self, time_limit_s: float, seed: int, start: Mapping16 | None = None) -> Solution:
        """The best placement by branch and bound, or the baseline's where none better was found.

        Neither `seed` nor `start` is used.
        """
        from egrl_edge.banks.solve import solve

        found = solve(self.tables, time_limit_s)
        best, cost = self.baseline.mapping, self.baseline.cost
        if found.mapping is not None and (reached := self.model_cost(found.mapping)) < cost:
            best, cost = found.mapping, reached
        bound = replace(found.bound, cost=min(found.bound.cost, cost))
        return Solution(best, cost, bound, found.bound.seconds < time_limit_s)

    def model_cost(self, mapping: Mapping16) -> float:
        """Seconds of what one placement int16 [N, 1] is made to fit; infinite if that cannot be."""
        fitted, moved = fit(self.tables, np.ascontiguousarray(self.space.canonical(mapping))[None])
        return float(costs(self.tables, fitted)[0]) if moved[0] >= 0 else float("inf")

    def bound(self, time_limit_s: float) -> Bound:
        """The bound that branch and bound proves within the time limit."""
        return self.solve(time_limit_s, 0).bound if time_limit_s > 0 else UNPROVED

    @cached_property
    def observation(self) -> Observation:
        """A node a place: its size and life as shares, its uses, and bytes moved for a byte held a step."""
        tables, steps = self.tables, len(self.program.instructions)
        size = self.space.size_bytes[:, 0].astype(np.float64)
        life = (tables.last - tables.first + 1).astype(np.float64)
        features = np.stack(
            [
                size / max(size.max(), 1.0),
                np.log1p(size) / 32,
                life / steps,
                tables.first / steps,
                np.log1p(tables.uses) / 8,
                np.log1p(tables.moved_bytes / np.maximum(size, 1.0)) / 8,
            ],
            axis=1,
        )
        columns = choice_columns(self.space.choice_rank, self.space.initial)
        x = np.concatenate([features, columns], axis=1).astype(np.float32)
        return Observation(x, self._edges(), OBSERVED)

    def _edges(self) -> NDArray[np.int64]:
        """int64 [2, E]: from what an instruction reads to what it writes."""
        of = {tensor: number for number, place in enumerate(self.places) for tensor in place.tensors}
        read: dict[int, set[int]] = {}
        edges: set[tuple[int, int]] = set()
        for buffer in self.program:
            if buffer.is_output:
                edges |= {(source, of[buffer.tensor]) for source in read.get(buffer.instruction, ())}
            else:
                read.setdefault(buffer.instruction, set()).add(of[buffer.tensor])
        return np.array(sorted(edges), np.int64).reshape(-1, 2).T.copy()

    def fingerprint(self) -> str:
        """Hex digest of the cost model's version, program, chip, banks and settings."""
        banks = asdict(replace(self._banks, pins=dict(self._banks.pins)))
        parts = {"version": VERSION, "config": asdict(self.config), "banks": banks, "files": self.files()}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def files(self) -> dict[str, str]:
        """The program and the chip as text."""
        return {"program.json": to_json(self.program), "chip.toml": chip_file(self._chip)}
