"""egrl plot explore: the best cost and its proven bound over a grid of chip files (`egrl explore`).

Of one parameter: the line is the best found, the band reaches down to the proven bound, the dashed line is the
baseline's rule on each chip. Of two: a map of the best found with lines of equal cost. The dotted line or the star is
the chip itself. One panel per workload.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.figures.drawing import Drawing
from egrl.runs.folder import EXPLORATION
from egrl.runs.units import scaled, shown
from workloads.errors import InputError
from workloads.files import read_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DOCUMENT", "draw", "read"]
DOCUMENT = EXPLORATION
KEYS = ("chip", "unit", "parameters", "workloads")


def read(path: Path, problem: str = "") -> dict[str, Any]:
    """The explore.json of a folder. InputError where there is none."""
    where = path / DOCUMENT
    if not where.is_file():
        raise InputError(f"{path}: expected {DOCUMENT}, found none; `egrl explore … -o {path}` makes it")
    try:
        found = json.loads(read_text(str(where), "an exploration"))
    except ValueError as error:
        raise InputError(f"{where}: expected JSON: {error}") from error
    if not isinstance(found, dict) or found.get("kind") != "exploration" or not set(KEYS) <= set(found):
        raise InputError(f"{where}: expected an exploration, found another document")
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
    rival = made["workloads"][0]["rival"]
    return explore_figure(
        surfaces, axes, f"cost ({shown(unit)})", rival, f"Best found and proven bound, {made['chip']}"
    )


def draw(runs: Sequence[dict[str, Any]]) -> Drawing:
    """One exploration. InputError where there are several."""
    if len(runs) != 1:
        raise InputError(f"plot explore: expected one folder of `egrl explore`, found {len(runs)}")
    numbers = {key: runs[0][key] for key in KEYS}
    return Drawing(figure_of(runs[0]), numbers)
