"""Whole sets of workloads by a name: `mcm87`, and the parts of its split."""

from __future__ import annotations

from workloads.errors import InputError
from workloads.nearest import hint
from workloads.zoo.mcm87 import MCM87, SIZES, split

MCM87_NAME = "mcm87"


def is_set(name: str) -> bool:
    """Whether a name is that of a set, or looks like a part of one."""
    return name.partition(":")[0].lower() == MCM87_NAME


def members(name: str) -> tuple[str, ...]:
    """The names of a set: "mcm87", or "mcm87:PART" with PART one of training, validation and test, and with
    ":seed=N" behind it those of another draw than the published one (seed 0).

    Raises:
        InputError: no such set.
    """
    parts = name.lower().split(":")[1:]
    if not is_set(name) or len(parts) > 2 or (parts and parts[0] not in SIZES):
        known = [MCM87_NAME, *(f"{MCM87_NAME}:{part}" for part in SIZES)]
        raise InputError(
            f"workloads {name!r}: expected one of the sets {', '.join(known)}, found none of them{hint(name, known)}"
        )
    if not parts:
        return tuple(MCM87)
    key, _, number = parts[1].partition("=") if len(parts) == 2 else ("seed", "=", "0")
    if key != "seed" or not (number.isascii() and number.isdecimal()) or len(number) > 9:
        raise InputError(f"workloads {name!r}: expected seed=N with N a whole number, found {parts[1]!r}")
    found: tuple[str, ...] = getattr(split(int(number)), parts[0])
    return found
