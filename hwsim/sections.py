"""A mapping beside the baseline, as data for a page; the code that draws it decides on the looks.

Every section has a `title`, and a sentence `says` about what it shows. Units are "s" (seconds), "B" (bytes) or ""
(none).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from hwsim.problem import Mapping16

Cell = str | int | float | None
"""A cell of a table; None is an empty one."""


@dataclass(frozen=True)
class Table:
    """Rows under columns.

    Attributes:
        columns: name and unit of each.
        rows: one cell per column.
        changed: one flag per row, True if the baseline differs there; empty if that is not known.
    """

    title: str
    says: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Cell]]
    changed: Sequence[bool] = ()


@dataclass(frozen=True)
class Bars:
    """Bars: one per name in every series.

    Attributes:
        names: one per number of a series.
        series: numbers by the label of the series.
        unit: of the numbers.
        limit: no number may exceed it; None: there is no limit.
    """

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
        name: of the tensor.
        kind: one of a few, for the colour.
        first: the first step at which it is held.
        end: the first step at which it no longer is.
        offset_bytes: where it begins in the memory.
        size_bytes: its size.
        copied: the steps during which it is copied in or out, half-open; None if it is not copied.
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
        label: of the mapping: the baseline's name, or "the best".
        memory: its name.
        capacity_bytes: bytes that it can hold.
        edges: [T + 1], when each step begins and the last one ends, in the unit of the section.
        boxes: the tensors in it.
    """

    label: str
    memory: str
    capacity_bytes: int
    edges: Sequence[float]
    boxes: Sequence[Box]


@dataclass(frozen=True)
class MemoryMaps:
    """Maps of one or several memories, one for each label.

    Attributes:
        maps: of each memory in turn.
        unit: of the edges: "s", or "" if they are numbers of steps.
        step: what a step is called.
    """

    title: str
    says: str
    maps: Sequence[MemoryMap]
    unit: str = ""
    step: str = "step"


@dataclass(frozen=True)
class Branch:
    """A part of a plan, with the parts that it consists of."""

    text: str
    parts: Sequence[Branch] = ()


@dataclass(frozen=True)
class Trees:
    """One plan per label, as a tree."""

    title: str
    says: str
    trees: Mapping[str, Branch]


@dataclass(frozen=True)
class Line:
    """A curve.

    Attributes:
        label: for the legend.
        x: positions.
        y: values.
        dots: True for points instead of a curve.
        low: lower ends of intervals around the values; empty for none.
        high: their upper ends.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    dots: bool = False
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Lines:
    """Curves and points over one axis.

    Attributes:
        x: what the horizontal axis shows.
        y: what the vertical axis shows.
        lines: the curves.
        levels: horizontal lines: heights by label.
        units: of the two axes.
    """

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
    """A problem with more to show of a mapping than its choices; a page has these instead of a map of its memories."""

    def sections(self, mapping: Mapping16) -> Sequence[Section]:
        """The sections of one mapping [N, H] beside the baseline. Raises ValueError as `evaluate` does."""
