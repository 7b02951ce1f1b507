"""Sections of data as HTML, by the templates beside this file. Every name is escaped; a table that is cut says so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from egrl.report import frames
from hwsim.sections import Bars, Cell, Lines, MemoryMaps, Section, Table
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
    environment.globals.update(
        with_unit=with_unit, WIDTH=frames.WIDTH, HEIGHT=frames.HEIGHT, HUES=frames.HUES
    )
    environment.filters.update(number=_rounded, f=format)
    return environment


def _view(section: Section) -> Any:
    """Values for the template of a section, in addition to the section."""
    match section:
        case Table():
            return table(section)
        case Bars():
            return frames.bars(section)
        case Lines():
            return frames.lines(section)
        case MemoryMaps():
            return frames.maps(section)
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
