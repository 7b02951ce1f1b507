"""What a problem shows of a mapping beside its baseline, as data: whoever draws it decides how it looks.

Numbers that have a unit are in it: "s" seconds, "B" bytes, "" none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from hwsim.problem import Mapping16

Cell = str | int | float | None
"""Of a table; None where there is nothing to say."""


@dataclass(frozen=True)
class Table:
    """Rows under columns, each a name and a unit. `says` is a sentence of what it shows.

    Rows with `changed` stand for something that the baseline does otherwise; empty: nothing is said of that.
    """

    title: str
    says: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Cell]]
    changed: Sequence[bool] = ()


@dataclass(frozen=True)
class Bars:
    """Series of numbers, a label each, of the same names; `limit` is what none may exceed."""

    title: str
    says: str
    names: Sequence[str]
    series: Mapping[str, Sequence[float]]
    unit: str = ""
    limit: float | None = None


@dataclass(frozen=True)
class Box:
    """A tensor in a memory.

    Attributes:
        name, kind: whose it is; which of few kinds, for a colour.
        first, end: steps, half-open.
        offset_bytes, size_bytes: where it lies.
        copied: steps between which it is brought in or out, half-open; None where it is not.
    """

    name: str
    kind: str
    first: int
    end: int
    offset_bytes: int
    size_bytes: int
    copied: tuple[int, int] | None = None


@dataclass(frozen=True)
class MemoryMap:
    """One memory under one mapping.

    Attributes:
        label: whose mapping: the rival's, or the best.
        memory, capacity_bytes: the memory's.
        edges: [T + 1], where steps begin and the last one ends.
        boxes: what lies in it.
    """

    label: str
    memory: str
    capacity_bytes: int
    edges: Sequence[float]
    boxes: Sequence[Box]


@dataclass(frozen=True)
class MemoryMaps:
    """Maps of one memory or several; of each memory all labels. Edges are in `unit`, "s", or "" for `step` numbers."""

    title: str
    says: str
    maps: Sequence[MemoryMap]
    unit: str = ""
    step: str = "step"


@dataclass(frozen=True)
class Branch:
    """A part of a plan, and the parts that it is made of."""

    text: str
    parts: Sequence[Branch] = ()


@dataclass(frozen=True)
class Trees:
    """A plan a label, as a tree."""

    title: str
    says: str
    trees: Mapping[str, Branch]


@dataclass(frozen=True)
class Line:
    """A curve, or with `dots` points; `low` and `high` are intervals around its values."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    dots: bool = False
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Lines:
    """Curves and points over one axis; `levels` are horizontal lines by what they are called."""

    title: str
    says: str
    x: str
    y: str
    lines: Sequence[Line]
    levels: Mapping[str, float] = field(default_factory=dict)
    units: tuple[str, str] = ("", "")


Section = Table | Bars | MemoryMaps | Trees | Lines


@runtime_checkable
class HasSections(Protocol):
    """A problem that shows people more of a mapping than its choices, beside its baseline."""

    def sections(self, mapping: Mapping16) -> Sequence[Section]:
        """What is to be shown of one mapping [N, H], as data; ValueError as of `evaluate`."""
