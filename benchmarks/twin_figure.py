"""The figure of `benchmarks.twin`: speedup against requests to the board, and what can be reached at all.

python -m benchmarks.twin_figure FILE.jsonl -o FIGURE.png
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from analysis.style import COLOURS, LINES, MARKERS, legend_below, panel_grid, save
from benchmarks.foreign.boards import FAMILIAR, FOREIGN
from benchmarks.twin import MARKS

GROUPS = (("the chip file's constants are wrong", FAMILIAR), ("boards of another structure", FOREIGN))
LEVELS = {"reachable": "reachable", "rules": "the rules, measured", "exact": "the chip file's own optimum"}
"""Methods that are one number a board: horizontal lines."""

Line = dict[str, Any]


def mean(lines: Sequence[Line], mark: int) -> float | None:
    """Geometric mean of the speedups after so many requests; None unless every board has it."""
    found = [line["marks"].get(str(mark)) for line in lines]
    return float(np.exp(np.mean(np.log(found)))) if found and all(found) else None


def draw(lines: Sequence[Line], groups: Sequence[tuple[str, Sequence[str]]] = GROUPS) -> Figure:
    """A panel a group of boards, and one of those that all methods saw; the lines are what `benchmarks.twin` writes."""
    shown = [(title, [line for line in lines if line["kind"] in kinds]) for title, kinds in groups]
    shown = [(title, own) for title, own in shown if own]
    methods = sorted({line["method"] for line in lines} - set(LEVELS))  # one look in every panel
    common = _all_methods(lines)
    if common and any(len(_everywhere(own)) < len(own) for _, own in shown):
        shown.append(("all rivals", common))
    figure, grid = panel_grid(len(shown), 3, 3.6, "requests to the board", "speedup over the compiler")
    for axes, (title, own) in zip(grid, shown, strict=True):
        boards = len({_board(line) for line in own})
        axes.set_title(f"{title}: {boards} simulated boards", fontsize=9)
        _panel(axes, _everywhere(own), methods)
    limits = np.array([axes.get_ylim() for axes in grid])
    for axes in grid:
        axes.set_ylim(limits[:, 0].min(), limits[:, 1].max())
    handles = {h.get_label(): h for axes in grid for h in axes.get_legend_handles_labels()[0]}
    legend_below(figure, list(handles.values()), 3.0)
    return figure


def _everywhere(lines: Sequence[Line]) -> list[Line]:
    """The lines of methods that were run on every board: means over different boards say nothing beside each other."""
    boards = len({_board(line) for line in lines})
    count = Counter(line["method"] for line in lines)
    return [line for line in lines if count[line["method"]] == boards]


def _all_methods(lines: Sequence[Line]) -> list[Line]:
    """The lines of the boards that every method was run on."""
    methods = {line["method"] for line in lines}
    seen: dict[tuple[str, str, int], set[str]] = {}
    for line in lines:
        seen.setdefault(_board(line), set()).add(line["method"])
    return [line for line in lines if seen[_board(line)] == methods]


def _board(line: Line) -> tuple[str, str, int]:
    return line["workload"], line["kind"], line["board"]


def _panel(axes: Axes, lines: Sequence[Line], methods: Sequence[str]) -> None:
    for number, method in enumerate(methods):
        own = [line for line in lines if line["method"] == method]
        if not own:
            continue
        marks = {mark: found for mark in MARKS if (found := mean(own, mark)) is not None}
        axes.plot(
            list(marks),
            list(marks.values()),
            color=COLOURS[number],
            linestyle=LINES[number],
            marker=MARKERS[number],
            label=method,
        )
    for number, (method, label) in enumerate(LEVELS.items()):
        own = [line for line in lines if line["method"] == method]
        value = mean(own, MARKS[-1]) or mean(own, MARKS[0])
        if value is not None:
            axes.axhline(
                value, color=COLOURS[-1 - number], linestyle=LINES[-1 - number], linewidth=1, label=label
            )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(MARKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticklabels([f"{mark:,}" for mark in MARKS], fontsize=8)
    axes.grid(alpha=0.3)


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.file.read_text().splitlines()]
    save(draw(lines), options.out)


if __name__ == "__main__":
    main()
