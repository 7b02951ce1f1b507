"""Sections of data as HTML, by the templates beside this file. Every name is escaped; a table that is cut says so.

Pictures of sections as data for the templates: where each mark stands in its frame, and what it says.

A plot is stretched to its frame (`preserveAspectRatio="none"`), x from 0 to 1000, y from 0 (top) to 300; axes are HTML,
so that words keep their size when a plot is zoomed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from hwsim.sections import Bars, Box, Cell, Line, Lines, MemoryMap, MemoryMaps, Section, Table
from workloads.text import number_text, unit_for, with_unit

MOST_ROWS = 2000
"""Rows of a table; of more, those that changed come first."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""The content security policy of a page: it may load nothing."""


def page(title: str, headline: str, sentence: str, sections: Sequence[Section]) -> str:
    """The whole document, with its style and script in it."""
    style, script = (
        files("egrl.report").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            title=title,
            headline=headline,
            sentence=sentence,
            sections=[(type(section).__name__, section, _view(section)) for section in sections],
            policy=POLICY,
            style=style,
            script=script,
        )
    )


def in_frame(document: str) -> str:
    """A document in a frame of its own, so that its styles and scripts stay apart from the page around it."""
    return _templates().get_template("frame.html.j2").render(document=document)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("egrl.report"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(with_unit=with_unit, WIDTH=WIDTH, HEIGHT=HEIGHT, HUES=HUES)
    environment.filters.update(number=_rounded, f=format)
    return environment


def _view(section: Section) -> Any:
    """Values for the template of a section, in addition to the section."""
    match section:
        case Table():
            return table(section)
        case Bars():
            return bars(section)
        case Lines():
            return lines(section)
        case MemoryMaps():
            return maps(section)
        case _:
            return None


def table(section: Table) -> dict[str, Any]:
    """The columns (name, unit, numeric) and the rows that are shown (changed, cells) of a table."""
    rows = list(enumerate(section.rows))
    if len(rows) > MOST_ROWS:
        rows = sorted(
            sorted(rows, key=lambda row: not (section.changed and section.changed[row[0]]))[:MOST_ROWS]
        )
    units = [_unit(section, column) for column in range(len(section.columns))]
    numeric = [any(isinstance(row[k], int | float) for row in section.rows) for k in range(len(units))]
    return {
        "columns": [
            (name, unit, n) for (name, _), (_, unit), n in zip(section.columns, units, numeric, strict=True)
        ],
        "rows": [
            (
                bool(section.changed) and section.changed[number],
                [_cell(value, size) for value, (size, _) in zip(row, units, strict=True)],
            )
            for number, row in rows
        ],
    }


def _cell(value: Cell, size: float) -> tuple[str, str | None]:
    """A cell as it is shown, and the number behind it, None where it is a text."""
    if isinstance(value, int | float):
        return _rounded(value / size) if math.isfinite(value) else "–", repr(value)
    return "–" if value is None else value, None


def _rounded(value: float) -> str:
    return number_text(round(value, 4))


def _unit(section: Table, column: int) -> tuple[float, str]:
    """One unit for all columns of a kind (times, bytes), so that their numbers can be compared."""
    unit = section.columns[column][1]
    alike = [k for k, (_, other) in enumerate(section.columns) if other == unit]
    values = sorted(
        abs(v) for row in section.rows for k in alike if isinstance(v := row[k], int | float) and v
    )
    return unit_for(values[len(values) // 2], unit) if values and unit else (1.0, "")  # 0 has no unit


WIDTH, HEIGHT = 1000, 300
MOST_BOXES = 4000
"""Boxes of a map; of more, those that hold the most bytes for the longest are drawn."""
HUES = 6
"""Colours of the style sheet."""


@dataclass(frozen=True)
class Axis:
    """An axis in the unit that reads best.

    Attributes:
        low, high: its ends, in that unit.
        name: what it shows, with the unit.
        ticks: round numbers along it, each with its place in percent.
    """

    low: float
    high: float
    name: str
    ticks: list[tuple[float, float]]

    @staticmethod
    def of(low: float, high: float, unit: str, name: str) -> Axis:
        """The axis from `low` to `high`, both in `unit` ("s", "B" or any other, which is kept)."""
        size, shown = unit_for(max(abs(low), abs(high)), unit)
        low, high = low / size, high / size
        share = (high - low) if high > low else float("inf")
        places = [(100 * (at - low) / share, at) for at in ticks(low, high)]
        return Axis(low, high, f"{name} ({shown})" if shown else name, places)


MOST_STEPS = 5
"""Between the marks of an axis."""


def ticks(low: float, high: float) -> list[float]:
    """At most `MOST_STEPS` + 1 round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / MOST_STEPS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def bars(section: Bars) -> dict[str, Any]:
    """Groups of bars, each bar with its width in percent and its number; where the limit stands, and the unit."""
    most = max([*(v for values in section.series.values() for v in values), section.limit or 0.0, 1e-30])
    size, unit = unit_for(most, section.unit)
    groups = [
        (
            name,
            [
                (label, 100 * max(values[number], 0.0) / most, values[number] / size)
                for label, values in section.series.items()
            ],
        )
        for number, name in enumerate(section.names)
    ]
    limit = None if section.limit is None else section.limit / most
    return {"groups": groups, "unit": unit, "limit": limit}


def lines(section: Lines) -> dict[str, Any]:
    """Axes, levels and, of each line, its points, its intervals and what they say."""
    xs = [v for line in section.lines for v in line.x] or [0.0, 1.0]
    ys = [v for line in section.lines for v in (*line.y, *line.low, *line.high) if v == v]
    ys = [*ys, *section.levels.values()] or [0.0, 1.0]
    along, up = _range(xs, 0.0), _range(ys, 0.04)
    levels = [
        (_y(level, *up), f"{name}: {with_unit(level, section.units[1])}")
        for name, level in section.levels.items()
    ]
    return {
        "x": Axis.of(*along, section.units[0], section.x),
        "y": Axis.of(*up, section.units[1], section.y),
        "levels": levels,
        "lines": [_line(line, along, up, section.units) for line in section.lines],
        "dashed": "; ".join(
            f"{name} {with_unit(level, section.units[1])}" for name, level in section.levels.items()
        ),
    }


def _line(
    line: Line, xs: tuple[float, float], ys: tuple[float, float], units: tuple[str, str]
) -> dict[str, Any]:
    return {
        "dots": line.dots,
        "points": [
            (_x(x, *xs), _y(y, *ys), f"{line.label}: {with_unit(y, units[1])} at {with_unit(x, units[0])}")
            for x, y in zip(line.x, line.y, strict=True)
            if y == y
        ],
        "intervals": [
            (_x(line.x[number], *xs), _y(low, *ys), _y(high, *ys))
            for number, (low, high) in enumerate(zip(line.low, line.high, strict=True))
            if low == low
        ],
    }


def maps(section: MemoryMaps) -> dict[str, Any]:
    """Each memory a row, the maps of it side by side, all on one scale."""
    kinds = sorted({box.kind for each in section.maps for box in each.boxes})
    end = max([float(each.edges[-1]) for each in section.maps], default=1.0)
    begin = min([float(each.edges[0]) for each in section.maps], default=0.0)
    rows = []
    for memory in dict.fromkeys(each.memory for each in section.maps):
        row = [each for each in section.maps if each.memory == memory]
        height = max([box.offset_bytes + box.size_bytes for each in row for box in each.boxes], default=1)
        capacity = row[0].capacity_bytes
        high = float(max(capacity if height > capacity / 2 else height * 1.05, height))
        rows.append(
            {
                "memory": memory,
                "capacity_bytes": capacity,
                "level": _y(capacity, 0.0, high) if capacity <= high else None,
                "y": Axis.of(0.0, high, "B", "address"),
                "maps": [
                    (
                        each,
                        [_box(each, box, kinds, (begin, end), high, section.unit) for box in _largest(each)],
                    )
                    for each in row
                ],
            }
        )
    x = Axis.of(begin, end, section.unit, "time" if section.unit else section.step)
    return {"kinds": kinds, "x": x, "rows": rows}


def _largest(each: MemoryMap) -> list[Box]:
    boxes = list(each.boxes)
    if len(boxes) <= MOST_BOXES:
        return boxes
    return sorted(boxes, key=lambda box: -box.size_bytes * (box.end - box.first))[:MOST_BOXES]


def _box(
    each: MemoryMap, box: Box, kinds: Sequence[str], xs: tuple[float, float], high: float, unit: str
) -> tuple[int, float, float, float, float, str]:
    """The colour of a box, its left edge, top, width and height, and what it says."""
    begins, ends = float(each.edges[box.first]), float(each.edges[box.end])
    left, right = _x(begins, *xs), _x(ends, *xs)
    top = _y(box.offset_bytes + box.size_bytes, 0.0, high)
    tall = max(round(_y(box.offset_bytes, 0.0, high) - top, 2), 0.5)
    when = f"steps {box.first:,} to {box.end - 1:,}"
    if unit:
        when += f", {with_unit(begins, unit)} to {with_unit(ends, unit)}"
    tip = f"{box.name}: {with_unit(box.size_bytes, 'B')} ({box.size_bytes:,} bytes) at {box.offset_bytes:,}; {when}"
    if box.copied is not None:
        tip += f"; copied in steps {box.copied[0]:,} to {box.copied[1] - 1:,}"
    return kinds.index(box.kind) % HUES, left, top, max(round(right - left, 2), 0.3), tall, tip


def _range(values: Sequence[float], room: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    more = (high - low) * room or (0.0 if high > low else abs(high) * 0.05 or 1.0)
    return (low - more, high + more) if room or high == low else (low, high)


def _x(value: float, low: float, high: float) -> float:
    return round(WIDTH * (value - low) / (high - low), 2) if high > low else 0.0


def _y(value: float, low: float, high: float) -> float:
    return round(HEIGHT * (1 - (value - low) / (high - low)), 2) if high > low else 0.0
