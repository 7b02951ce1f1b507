"""Layouts of the MMapGame: where the buffers of the best mapping lie in fast memory, beside another run's or the
production heuristic's own (MMapGame paper, Figures 1 and 8).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egrl.figures.repetitions import Drawing, comparable, labels
from egrl.runs.past_run import PastRun
from egrl_muzero.mmap.memory_map import (
    MemoryMap,
    allocations,
    map_use,
    memory_map_figure,
    most_visits,
    visits,
)
from egrl_muzero.mmap.parts import tensor_colours
from hwsim.mmap.game import ACTIONS
from hwsim.mmap.layout import Layout
from hwsim.mmap.problem import MmapProblem
from workloads.errors import InputError
from workloads.text import size_text

MOST = 2


def draw(runs: Sequence[PastRun]) -> Drawing:
    """Layouts of the MMapGame: where the buffers of the best mapping lie in fast memory, beside another run's or the
    production heuristic's own (MMapGame paper, Figures 1 and 8).

    Where the MMapGame put the buffers, of two runs, or of one beside the production heuristic: steps to the right,
    offsets upwards, one box per allocation, one colour per tensor. Hatched is the window of a copy in (left) or out
    (right). The strip below shows the time left for copies and the time they take. T, in black, is the tensor that
    comes to fast memory (CMEM) most often.

    Numbers: `highlighted` is T; `come_again` counts tensors that come to CMEM more than once; a `run` of null is the
    heuristic.

    InputError where there are more than two runs, they are not of one problem, or one has no valid mapping.
    """
    _check(runs)
    given = comparable(runs)
    played = [_game(run) for run in runs]  # their rules may differ
    problem = played[0]
    layouts = [each.layout(run.best_mapping()) for each, run in zip(played, runs, strict=True)]
    speedups = [float(run.summary["best"]["speedup"]) for run in runs]
    maps = [
        _map(each, layout, f"{run.path.name} ({label}): {speedup:.4f}x {problem.about.baseline_name}")
        for each, run, label, layout, speedup in zip(
            played, runs, labels(given), layouts, speedups, strict=True
        )
    ]
    names: list[str | None] = [str(run.path) for run in runs]
    if len(runs) == 1:
        names, speedups, layouts = [*names, None], [*speedups, 1.0], [*layouts, problem.baseline_layout]
        maps.append(_map(problem, problem.baseline_layout, problem.about.baseline_name))
    tensor = most_visits(maps)
    name = "" if tensor is None else problem.program.tensors[tensor].name
    title = f"{problem.about.workload} on {problem.about.chip}: {size_text(maps[0].capacity_bytes)} of CMEM"
    most_visited = None if tensor is None else (tensor, _shortened(name))
    figure = memory_map_figure(maps, tensor_colours(len(problem.program.tensors)), title, most_visited)
    numbers = {
        "workload": problem.about.workload,
        "chip": problem.about.chip,
        "capacity_bytes": maps[0].capacity_bytes,
        "steps": len(maps[0].supply_s),
        "highlighted": None
        if tensor is None
        else {
            "tensor": name,
            "size_bytes": problem.program.tensors[tensor].size_bytes,
            "visits": [visits(shown, tensor) for shown in maps],
            "allocations": [allocations(shown, tensor) for shown in maps],
        },
        "layouts": [
            {"run": run, "speedup": speedup, **_numbers(problem, shown, layout)}
            for run, speedup, shown, layout in zip(names, speedups, maps, layouts, strict=True)
        ],
    }
    remarks = [f"{shown.label}: nothing lies in fast memory" for shown in maps if not len(shown.tensor)]
    return Drawing(figure, numbers, remarks)


def _check(runs: Sequence[PastRun]) -> None:
    others = [run.options.problem for run in runs if run.options.problem != "mmap"]
    if len(runs) > MOST or others:
        raise InputError(
            "plot mmap-layouts: expected one run of the MMapGame or two to compare, found"
            f" {f'one of {others[0]!r}' if others else len(runs)}"
        )


def _game(run: PastRun) -> MmapProblem:
    assert isinstance(run.problem, MmapProblem)
    return run.problem


def _map(problem: MmapProblem, layout: Layout, label: str) -> MemoryMap:
    """The buffers that have an interval of their own, as boxes."""
    tables = problem.tables
    shown = np.flatnonzero(layout.first >= 0)
    carried = layout.copy_first[shown] >= 0
    return MemoryMap(
        label,
        tables.capacity * problem.game.granule_bytes,
        tables.buffer["tensor"][shown].astype(np.int64),
        layout.first[shown].astype(np.int64),
        layout.last[shown].astype(np.int64) + 1,
        layout.offset_bytes[shown],
        tables.buffer["size_bytes"][shown],
        layout.copy_first[shown].astype(np.int64),
        np.where(carried, layout.copy_last[shown] + 1, -1).astype(np.int64),
        tables.step["supply_s"].copy(),
        layout.copy_use_s,
    )


def _numbers(problem: MmapProblem, shown: MemoryMap, layout: Layout) -> dict[str, object]:
    use = map_use(shown)
    there = np.unique(shown.tensor)
    return {
        "buffers": {name: int((layout.action == number).sum()) for number, name in enumerate(ACTIONS)},
        "boxes": len(shown.tensor),
        "tensors": len(there),
        "come_again": sum(visits(shown, tensor) > 1 for tensor in there),
        "separate_allocations": sum(len(allocations(shown, tensor)) for tensor in there),
        "copies": use.copies,
        "copied_bytes": use.copied_bytes,
        "copy_share": use.copy_share,
        "height_bytes": use.height_bytes,
        "mean_share": use.mean_share,
        "held_bytes": use.held_bytes,
        "supply_s": shown.supply_s,
        "copy_use_s": shown.used_s,
    }


def _shortened(name: str, most: int = 28) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
