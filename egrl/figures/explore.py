"""egrl plot explore: the best cost and its proven bound over a grid of chip files (`egrl explore`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import MaxLen, MinLen
from typing_extensions import TypedDict

from egrl.core.typed_tables import Number, Positive, Printable, check_document
from egrl.figures.repetitions import Drawing
from egrl.runs.folder import EXPLORATION
from egrl.runs.text import scaled, shown
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import parse_object

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DOCUMENT", "draw", "read"]
DOCUMENT = EXPLORATION
KEYS = ("chip", "unit", "parameters", "workloads")


class _Parameter(TypedDict):
    label: Printable
    unit: Printable
    unit_size: Positive
    values: Annotated[list[Number], MinLen(1)]
    own: Number


class _Point(TypedDict):
    values: list[Number]
    cost: Number | None
    bound: Number | None
    gap: Number | None
    baseline: Number | None
    speedup: Number | None


class _Workload(TypedDict):
    workload: Printable
    rival: Printable
    points: list[_Point]
    words: list[Printable]


class _Exploration(TypedDict):
    """The keys of an explore.json that the figure and the page read."""

    chip: Printable
    unit: Printable
    parameters: Annotated[list[_Parameter], MinLen(1), MaxLen(2)]
    workloads: Annotated[list[_Workload], MinLen(1)]


def read(path: Path, problem: str = "") -> dict[str, Any]:
    """The explore.json of a folder. InputError where there is none."""
    where = path / DOCUMENT
    if not where.is_file():
        raise InputError(f"{path}: expected {DOCUMENT}, found none; `egrl explore … -o {path}` makes it")
    found = parse_object(read_text(where, "an exploration"), str(where), "exploration")
    if found.get("kind") != "exploration":
        raise InputError(f"{where}: expected an exploration, found another document")
    check_document(_Exploration, found, str(where))
    shape = [len(parameter["values"]) for parameter in found["parameters"]]
    for each in found["workloads"]:
        if len(each["points"]) != prod(shape) or any(len(p["values"]) != len(shape) for p in each["points"]):
            raise InputError(
                f"{where}: {each['workload']}: expected a point for each of {prod(shape)} chips, each of"
                f" {len(shape)} values, found others"
            )
    return found


def figure_of(made: Mapping[str, Any]) -> Figure:
    """The figure of an explore.json."""
    from analysis.explore import Axis, Surface, explore_figure

    parameters, unit = made["parameters"], made["unit"]
    axes = [
        Axis(
            f"{p['label']} ({p['unit']})" if p["unit"] else p["label"],
            np.array(p["values"], np.float64) / p["unit_size"],
            p["own"] / p["unit_size"],
        )
        for p in parameters
    ]
    shape = [len(p["values"]) for p in parameters]

    def array(points: Sequence[Mapping[str, Any]], name: str) -> Any:
        values = [np.nan if point[name] is None else scaled(point[name], unit) for point in points]
        return np.array(values, np.float64).reshape(shape)

    surfaces = [
        Surface(each["workload"], *(array(each["points"], name) for name in ("cost", "bound", "baseline")))
        for each in made["workloads"]
    ]
    baseline_name = made["workloads"][0]["rival"]
    return explore_figure(
        surfaces, axes, f"cost ({shown(unit)})", baseline_name, f"Best found and proven bound, {made['chip']}"
    )


def draw(runs: Sequence[dict[str, Any]]) -> Drawing:
    """egrl plot explore: the best cost and its proven bound over a grid of chip files (`egrl explore`).

    Of one parameter: the line is the best found, the band reaches down to the proven bound, the dashed line is the
    baseline's rule on each chip. Of two: a map of the best found with lines of equal cost. The dotted line or the
    star is the chip itself. One panel per workload.

    InputError where there are several.
    """
    if len(runs) != 1:
        raise InputError(f"plot explore: expected one folder of `egrl explore`, found {len(runs)}")
    numbers = {key: runs[0][key] for key in KEYS}
    return Drawing(figure_of(runs[0]), numbers)
