"""Pictures as plain SVG: marks in a frame whose axes are HTML, so that words keep their size when it is zoomed.

The plot is stretched to its frame (`preserveAspectRatio="none"`), x from 0 to 1000, y from 0 (top) to 300.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from egrl.report.numbers import number_text, text, ticks, unit_for
from hwsim.sections import Bars, Box, Line, Lines, MemoryMap, MemoryMaps

WIDTH, HEIGHT = 1000, 300
MOST_BOXES = 4000
"""Boxes of a map; of more, those that hold the most bytes for the longest are drawn."""
HUES = 6
"""Colours of the style sheet."""


def frame(marks: str, x: tuple[float, float, str, str], y: tuple[float, float, str, str], label: str) -> str:
    """Marks with axes: lowest, highest, unit and name of each."""
    y0, y1, named_y = _in_unit(*y)
    x0, x1, named_x = _in_unit(*x)
    beside = "".join(
        f'<i style="bottom:{100 * _share(at, y0, y1):.2f}%">{at:,.6g}</i>' for at in ticks(y0, y1)
    )
    along = "".join(f'<i style="left:{100 * _share(at, x0, x1):.2f}%">{at:,.6g}</i>' for at in ticks(x0, x1))
    return (
        f'<div class="frame" data-x0="{x0:.9g}" data-x1="{x1:.9g}">'
        f'<div class="name">{escape(named_y)}</div><div class="y">{beside}</div>'
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(label)}">{marks}</svg>'
        f'<div class="x">{along}</div><div class="of">{escape(named_x)}</div></div>'
    )


def _in_unit(low: float, high: float, unit: str, name: str) -> tuple[float, float, str]:
    """An axis in the unit that reads best, which its name says."""
    size, found = unit_for(max(abs(low), abs(high)), unit)
    return low / size, high / size, f"{name} ({found})" if found else name


def bars(section: Bars) -> str:
    """Bars beside each other, a colour a series, and the limit as a line."""
    series = list(section.series.items())
    most = max([*(v for _, values in series for v in values), section.limit or 0.0, 1e-30])
    size, unit = unit_for(most, section.unit)
    rows = []
    for number, name in enumerate(section.names):
        parts = []
        for hue, (label, values) in enumerate(series):
            share = 100 * max(values[number], 0.0) / most
            parts.append(
                f'<div class="bar"><b class="h{hue}" style="width:{share:.2f}%" title="{escape(label)}"></b>'
                f"<span>{number_text(round(values[number] / size, 4))}</span></div>"
            )
        if section.limit is not None:
            parts.append(
                f'<div class="limit" style="left:calc((100% - 5.5rem) * {section.limit / most:.4f})"></div>'
            )
        rows.append(
            f'<div class="group"><div class="who">{escape(name)}</div><div class="pair">{"".join(parts)}</div></div>'
        )
    limit = "" if section.limit is None else f" The line: {escape(text(section.limit, section.unit))}."
    note = f'<p class="note">In {unit}.{limit}</p>' if unit or limit else ""
    return f'{legend([label for label, _ in series])}<div class="bars">{"".join(rows)}</div>{note}'


def legend(labels: Sequence[str]) -> str:
    """What each colour stands for."""
    return (
        '<p class="legend">'
        + "".join(
            f'<span><b class="h{hue % HUES}"></b>{escape(label)}</span>' for hue, label in enumerate(labels)
        )
        + "</p>"
    )


def lines(section: Lines) -> str:
    """Curves, points and levels in one frame."""
    xs = [v for line in section.lines for v in line.x] or [0.0, 1.0]
    ys = [v for line in section.lines for v in (*line.y, *line.low, *line.high) if v == v]
    ys = [*ys, *section.levels.values()] or [0.0, 1.0]
    (x0, x1), (y0, y1) = _range(xs, 0.0), _range(ys, 0.04)
    marks = []
    for name, level in section.levels.items():
        at = _y(level, y0, y1)
        tip = f"{name}: {text(level, section.units[1])}"
        marks.append(
            f'<line class="level" x1="0" x2="{WIDTH}" y1="{at}" y2="{at}"><title>{escape(tip)}</title></line>'
        )
    for hue, line in enumerate(section.lines):
        marks.append(_line(line, hue % HUES, (x0, x1), (y0, y1), section.units))
    told = "; ".join(f"{name} {text(level, section.units[1])}" for name, level in section.levels.items())
    note = f'<p class="note">Dashed: {escape(told)}.</p>' if told else ""
    picture = frame(
        "".join(marks),
        (x0, x1, section.units[0], section.x),
        (y0, y1, section.units[1], section.y),
        section.title,
    )
    return f"{legend([line.label for line in section.lines])}{picture}{note}"


def _line(
    line: Line, hue: int, xs: tuple[float, float], ys: tuple[float, float], units: tuple[str, str]
) -> str:
    points = [(_x(x, *xs), _y(y, *ys), x, y) for x, y in zip(line.x, line.y, strict=True) if y == y]
    marks = []
    for number, (low, high) in enumerate(zip(line.low, line.high, strict=True)):
        if low != low:
            continue
        at = _x(line.x[number], *xs)
        marks.append(
            f'<line class="s{hue} interval" x1="{at}" x2="{at}" y1="{_y(low, *ys)}" y2="{_y(high, *ys)}"/>'
        )
    if not line.dots:
        path = " ".join(f"{x},{y}" for x, y, _, _ in points)
        marks.append(f'<polyline class="s{hue}" points="{path}"/>')
    for x, y, along, value in points:
        tip = f"{line.label}: {text(value, units[1])} at {text(along, units[0])}"
        kind = f"s{hue} dot" if line.dots else "dot quiet"
        marks.append(
            f'<line class="{kind}" x1="{x}" x2="{x}" y1="{y}" y2="{y}"><title>{escape(tip)}</title></line>'
        )
    return "".join(marks)


def maps(section: MemoryMaps) -> str:
    """Each memory a row, the maps of it side by side, all on one scale."""
    kinds = list(dict.fromkeys(box.kind for each in section.maps for box in each.boxes))
    end = max([float(each.edges[-1]) for each in section.maps], default=1.0)
    begin = min([float(each.edges[0]) for each in section.maps], default=0.0)
    x = (begin, end, section.unit, "time" if section.unit else section.step)
    found = [legend(kinds)]
    for memory in dict.fromkeys(each.memory for each in section.maps):
        row = [each for each in section.maps if each.memory == memory]
        height = max([box.offset_bytes + box.size_bytes for each in row for box in each.boxes], default=1)
        capacity = row[0].capacity_bytes
        high = float(capacity if height > capacity / 2 else height * 1.05)
        high = max(high, float(height))
        parts = []
        for each in row:
            shown, cut = _largest(each)
            marks = "".join(
                _box(each, box, kinds.index(box.kind) % HUES, (begin, end), high, section.unit)
                for box in shown
            )
            if capacity <= high:
                at = _y(capacity, 0.0, high)
                marks += f'<line class="level" x1="0" x2="{WIDTH}" y1="{at}" y2="{at}"><title>capacity</title></line>'
            note = f" The {len(shown):,} largest of {len(each.boxes):,} boxes are drawn." if cut else ""
            head = f"<h4>{escape(memory)}, {escape(each.label)}</h4>"
            told = f"{len(each.boxes):,} tensors of {escape(text(capacity, 'B'))} capacity.{note}"
            picture = frame(marks, x, (0.0, high, "B", "address"), f"{memory}, {each.label}")
            parts.append(f'<div>{head}{picture}<p class="note">{told}</p></div>')
        found.append(f'<div class="side">{"".join(parts)}</div>')
    return "".join(found)


def _largest(each: MemoryMap) -> tuple[list[Box], bool]:
    boxes = list(each.boxes)
    if len(boxes) <= MOST_BOXES:
        return boxes, False
    return sorted(boxes, key=lambda box: -box.size_bytes * (box.end - box.first))[:MOST_BOXES], True


def _box(each: MemoryMap, box: Box, hue: int, xs: tuple[float, float], high: float, unit: str) -> str:
    begins, ends = float(each.edges[box.first]), float(each.edges[box.end])
    left, right = _x(begins, *xs), _x(ends, *xs)
    top = _y(box.offset_bytes + box.size_bytes, 0.0, high)
    tall = max(round(_y(box.offset_bytes, 0.0, high) - top, 2), 0.5)
    when = f"steps {box.first:,} to {box.end - 1:,}"
    if unit:
        when += f", {text(begins, unit)} to {text(ends, unit)}"
    tip = (
        f"{box.name}: {text(box.size_bytes, 'B')} ({box.size_bytes:,} bytes) at {box.offset_bytes:,}; {when}"
    )
    if box.copied is not None:
        tip += f"; copied in steps {box.copied[0]:,} to {box.copied[1] - 1:,}"
    wide = max(round(right - left, 2), 0.3)
    place = f'x="{left}" y="{top}" width="{wide}" height="{tall}"'
    return f'<rect class="h{hue}" {place}><title>{escape(tip)}</title></rect>'


def _range(values: Sequence[float], room: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    more = (high - low) * room or (0.0 if high > low else abs(high) * 0.05 or 1.0)
    return (low - more, high + more) if room or high == low else (low, high)


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.0


def _x(value: float, low: float, high: float) -> float:
    return round(WIDTH * (value - low) / (high - low), 2) if high > low else 0.0


def _y(value: float, low: float, high: float) -> float:
    return round(HEIGHT * (1 - (value - low) / (high - low)), 2) if high > low else 0.0
