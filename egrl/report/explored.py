"""A page of an exploration: what more of each parameter is worth, curves of the best found over the bound, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from egrl.report import render
from egrl.runs.text import SECONDS, cost_text
from hwsim.sections import Cell, Line, Lines, Section, Table

MOST_CURVES = 6
"""Values of a second parameter that have a curve of their own, evenly spread."""


def page_of_exploration(made: Mapping[str, Any]) -> str:
    """The HTML document of an explore.json."""
    names = ", ".join(each["workload"] for each in made["workloads"])
    sentences = [f"{text[:1].upper()}{text[1:]}." for each in made["workloads"] for text in each["words"]]
    several = len(made["workloads"]) > 1
    sections: list[Section] = []
    for each in made["workloads"]:
        title = f"{each['workload']}: " if several else ""
        sections += [_curves(made, each, title), _table(made, each, title)]
    varied = " and ".join(p["label"] for p in made["parameters"])
    about = f"{names} on {made['chip']}: what more {varied} would buy"
    return render.page(about, _headline(made), " ".join(dict.fromkeys(sentences)), sections)


def _headline(made: Mapping[str, Any]) -> str:
    """The costs at the two ends of the grid, of the first workload."""
    costs = [point["cost"] for point in made["workloads"][0]["points"] if point["cost"] is not None]
    ends = [cost_text(cost, made["unit"]) for cost in (*costs[:1], *costs[-1:])]
    return " to ".join(dict.fromkeys(ends)) or "nothing found"


def _name(parameter: Mapping[str, Any]) -> str:
    return f"{parameter['label']} ({parameter['unit']})" if parameter["unit"] else str(parameter["label"])


def _scaled(parameter: Mapping[str, Any], value: float) -> float:
    return float(f"{value / parameter['unit_size']:.6g}")


def _curves(made: Mapping[str, Any], each: Mapping[str, Any], title: str) -> Lines:
    """Found, bound and rule over one parameter; of two, the best found for some values of the second."""
    first, *second = made["parameters"]
    points = [point for point in each["points"] if point["cost"] is not None]
    unit = SECONDS if made["unit"] == SECONDS else ""

    def line(label: str, key: str, chosen: Sequence[Mapping[str, Any]]) -> Line:
        known = [point for point in chosen if point[key] is not None]
        return Line(label, [_scaled(first, p["values"][0]) for p in known], [float(p[key]) for p in known])

    if not second:
        lines = [line("best found", "cost", points), line("proven bound", "bound", points)]
        lines.append(line(each["rival"], "baseline", points))
        says = "No mapping costs less than the bound."
    else:
        (other,) = second
        values = other["values"]
        last = min(MOST_CURVES, len(values)) - 1
        spread = dict.fromkeys(values[round(k * (len(values) - 1) / max(last, 1))] for k in range(last + 1))
        lines = [
            line(
                f"{_scaled(other, v):.6g} {other['unit']}".rstrip(),
                "cost",
                [p for p in points if p["values"][1] == v],
            )
            for v in spread
        ]
        says = f"The best found; one curve per {other['label']}."
    return Lines(f"{title}Best found", says, _name(first), "cost", lines, {}, ("", unit))


def _table(made: Mapping[str, Any], each: Mapping[str, Any], title: str) -> Table:
    columns = [
        *((_name(p), "") for p in made["parameters"]), ("found", ""), ("bound", ""), ("gap in %", ""),
        (f"speedup over {each['rival']}", ""),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for point in each["points"]:
        values = [_scaled(p, v) for p, v in zip(made["parameters"], point["values"], strict=True)]
        gap = None if point["gap"] is None else round(100 * point["gap"], 4)
        # As texts, with as many digits as distinguish found from bound.
        costs = [None if point[k] is None else cost_text(point[k], made["unit"]) for k in ("cost", "bound")]
        rows.append([*values, *costs, gap, point["speedup"]])
    return Table(f"{title}All points", f"{len(rows)} chips.", columns, rows)
