"""Dimensions that a model leaves open, and what the user says they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workloads.errors import InputError
from workloads.workload import MAX_DIMENSION


class OpenDimensions(InputError):
    """A model leaves dimensions open that nothing sets.

    Attributes:
        found: the message, without what to do.
        flags: what sets them in a command that has --dim, once NUMBER is replaced.
    """

    def __init__(self, found: str, flags: str) -> None:
        super().__init__(f"{found}; add {flags}")
        self.found, self.flags = found, flags


def parse(given: Iterable[str]) -> dict[str, int]:
    """Name -> size, of texts NAME=NUMBER.

    Raises:
        InputError: another form, a size below 0 or too large, or a name given twice.
    """
    found: dict[str, int] = {}
    for text in given:
        name, equals, size = text.rpartition("=")
        if not equals or not name or not size.isascii() or not size.isdigit() or len(size) > 10:
            raise InputError(f"--dim {text}: expected NAME=NUMBER")
        if int(size) >= MAX_DIMENSION:
            raise InputError(f"--dim {text}: expected a number below {MAX_DIMENSION}")
        if name in found:
            raise InputError(f"--dim {text}: expected each dimension once, found {name} twice")
        found[name] = int(size)
    return found


UNNAMED = frozenset({"", "?", "*", "-1", "None"})
"""What exporters call a dimension that has no name: several of these need not be of one size."""


class Dimensions:
    """What is given, what the model asked for, and what of that is missing."""

    def __init__(self, given: Mapping[str, int]) -> None:
        self.given = dict(given)
        self.asked: dict[str, str] = {}
        self.places: set[str] = set()
        self.missing: dict[str, str] = {}

    def size(self, name: str, where: str, place: str = "") -> int | None:
        """The size of an open dimension of tensor `where`; None, and noted, where it was not given.

        `place` is another name of it, for this axis alone; the only one where the model gives it none.
        """
        name = place if place and name in UNNAMED else name
        self.places.add(place)
        self.asked.setdefault(name, where)
        size = self.given.get(place, self.known(name))
        if size is None:
            self.missing.setdefault(name, where)
        return size

    def known(self, name: str) -> int | None:
        """The size of every dimension that the model calls `name`; None where it was not given."""
        return None if name in UNNAMED else self.given.get(name)

    def check(self, file: str) -> None:
        """Raises OpenDimensions naming those that are missing, InputError naming one that the model does not have."""
        missing = list(self.missing)
        if missing:
            places = ", ".join(f"{name!r} (of {self.missing[name]})" for name in missing[:5])
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            flags = " ".join(f"--dim {name}=NUMBER" for name in missing[:5])
            raise OpenDimensions(
                f"{file}: expected a size for every dimension, found open: {places}{more}", flags
            )
        extra = next((name for name in self.given if name not in self.asked.keys() | self.places), None)
        if extra is not None:
            names = ", ".join(sorted(self.asked)) or "it has none: leave --dim out"
            raise InputError(f"--dim {extra}: expected one of the open dimensions of {file} ({names})")
