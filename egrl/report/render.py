"""Sections of data as HTML. Every name is escaped; a table that is cut says so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from egrl.report import frames
from egrl.report.numbers import number_text, text, unit_for
from hwsim.sections import Bars, Branch, Cell, Lines, MemoryMaps, Section, Table, Trees

MOST_ROWS = 2000
"""Rows of a table; of more, those that changed come first."""
SHORT = 8
"""Rows up to which a table needs no search field."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""What a page may load: nothing from anywhere."""


def page(title: str, headline: str, sentence: str, sections: Sequence[Section]) -> str:
    """The whole document, with its style and script in it."""
    style, script = (
        files("egrl.report").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    body = "".join(_section(number, section) for number, section in enumerate(sections))
    links = "".join(f'<a href="#s{n}">{escape(section.title)}</a>' for n, section in enumerate(sections))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f'<header><p class="what">{escape(title)}</p><h1>{escape(headline)}</h1>'
        f'<p class="sentence">{escape(sentence)}</p></header><nav>{links}</nav><main>{body}</main>'
        f"<script>{script}</script></body></html>\n"
    )


def _section(number: int, section: Section) -> str:
    says = f'<p class="says">{escape(section.says)}</p>' if section.says else ""
    return f'<section id="s{number}"><h2>{escape(section.title)}</h2>{says}{_body(section)}</section>\n'


def _body(section: Section) -> str:
    match section:
        case Table():
            return table(section)
        case Bars():
            return frames.bars(section)
        case Lines():
            return frames.lines(section)
        case MemoryMaps():
            return frames.maps(section)
        case Trees():
            trees = [
                f"<div><h4>{escape(label)}</h4><ul class=tree>{_branch(branch)}</ul></div>"
                for label, branch in section.trees.items()
            ]
            return f'<div class="side">{"".join(trees)}</div>'


def table(section: Table) -> str:
    """Rows that the script can search, sort and filter; without it they stand as they are."""
    rows = list(enumerate(section.rows))
    note = ""
    if len(rows) > MOST_ROWS:
        first = sorted(rows, key=lambda row: not (section.changed and section.changed[row[0]]))[:MOST_ROWS]
        note = f"Cut: {MOST_ROWS:,} of {len(rows):,} rows are shown" + (
            ", changed ones first." if section.changed else "."
        )
        rows = sorted(first)
    units = [_unit(section, column) for column in range(len(section.columns))]
    head = "".join(
        f'<th class="{"n" if _numeric(section, k) else "t"}"><button type="button">'
        f"{escape(name)}{f' ({unit[1]})' if unit[1] else ''}</button></th>"
        for k, ((name, _), unit) in enumerate(zip(section.columns, units, strict=True))
    )
    body = "".join(_row(section, number, row, units) for number, row in rows)
    tools = ""
    if len(rows) > SHORT:
        only = (
            '<label><input type="checkbox" class="only"> only what changed</label>' if section.changed else ""
        )
        tools = (
            f'<div class="tools"><input type="search" placeholder="search" aria-label="search {escape(section.title)}">'
            f'{only}<span class="count"></span></div>'
        )
    cut = f'<p class="note cut">{note}</p>' if note else ""
    return f'{tools}{cut}<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(section: Table, number: int, row: Sequence[Cell], units: Sequence[tuple[float, str]]) -> str:
    cells = []
    for value, (size, _) in zip(row, units, strict=True):
        if isinstance(value, int | float):
            shown = (
                "–"
                if isinstance(value, float) and not math.isfinite(value)
                else number_text(round(value / size, 4))
            )
            cells.append(f'<td class="n" data-v="{value!r}">{shown}</td>')
        else:
            command = ' class="command"' if isinstance(value, str) and value.startswith("egrl run ") else ""
            cells.append(f"<td{command}>{escape(text(value))}</td>")
    mark = ' class="changed"' if section.changed and section.changed[number] else ""
    return f"<tr{mark}>{''.join(cells)}</tr>"


def _numeric(section: Table, column: int) -> bool:
    return any(isinstance(row[column], int | float) for row in section.rows)


def _unit(section: Table, column: int) -> tuple[float, str]:
    """One unit for a whole column, so that its numbers can be compared."""
    unit = section.columns[column][1]
    values = sorted(abs(v) for row in section.rows if isinstance(v := row[column], int | float) and v)
    return unit_for(values[len(values) // 2], unit) if values and unit else (1.0, unit)


def _branch(branch: Branch) -> str:
    parts = "".join(_branch(part) for part in branch.parts)
    return f"<li>{escape(branch.text)}{f'<ul>{parts}</ul>' if parts else ''}</li>"
