"""The banks that a planner fills, and the memories of a chip that they are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from executorch.exir.banked_memory_planning import Bank, TargetMemoryMap

from hwsim.nnpi.chip import Chip, load_chip
from workloads.errors import InputError


@dataclass(frozen=True)
class Target:
    """Banks on a chip.

    Attributes:
        map: the banks, fastest first.
        chip: its memories, slowest first.
        memory: the number of each bank's memory, in the order of the map.
    """

    map: TargetMemoryMap
    chip: Chip
    memory: tuple[int, ...]


def target_of(target: Any, chip: Any) -> Target:
    """The banks and the chip that are meant.

    Raises:
        InputError: a map without a chip, or banks that the chip does not have.
    """
    if not isinstance(target, TargetMemoryMap):
        target, chip = banks_of(target), target
    elif chip is None:
        raise InputError(
            "chip: expected the chip whose bandwidths the banks have (a name, a file or a Chip) beside a"
            " TargetMemoryMap, found none"
        )
    found = _chip(chip)
    names = found.memory_names
    for bank in target.banks:
        if bank.name not in names:
            raise InputError(
                f"target: expected banks of {found.name} ({', '.join(names)}), found {bank.name!r}"
            )
    return Target(target, found, tuple(names.index(bank.name) for bank in target.banks))


def banks_of(target: Any) -> TargetMemoryMap:
    """A map as it is; of a chip, a bank a memory, the fastest with mem_id 1."""
    if isinstance(target, TargetMemoryMap):
        return target
    memories = reversed(_chip(target).memories)
    return TargetMemoryMap(
        [Bank(memory.name, memory.capacity_bytes, number) for number, memory in enumerate(memories, 1)]
    )


def _chip(given: Any) -> Chip:
    if isinstance(given, Chip):
        return given
    if isinstance(given, str | os.PathLike):
        return load_chip(os.fspath(given))
    raise InputError(f"chip: expected a name, a file or a Chip, found {given!r}")
