"""The content of the chip's memories during an inference: under the baseline and under the best mapping.

How full each memory is over the time of an inference: the baseline (the compiler's mapping, say) at the left, the best
at the right. A weight is there all along, an activation from its op to its last consumer. No valid map crosses the
dashed line. Nearly empty memories have a scale of their own. Fragmentation and prefetched data are not shown.

Of a network split over a module's chips one column per chip shows the time that chip and link are busy, the weights,
and the peak on the device model, as shares of the period and of the SRAM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from analysis.breakdown import micro
from analysis.utilisation import Schedule, utilisation, utilisation_figure
from egrl.figures.drawing import Drawing, plain
from egrl.figures.partition import draw_shares
from egrl.figures.repetitions import fastest
from egrl.runs.past_run import PastRun
from hwsim.capabilities import HasOccupancy, Occupancy, explainer
from hwsim.explanation import OpTimes, Partition
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError

TIME = "time since the inference began (µs)"
"""The label of the x axis if the problem knows how long its steps take."""
OP = "op"
"""The step whose time an explanation states."""


def draw(runs: Sequence[PastRun]) -> Drawing:
    """Memories over time, one column per mapping, or what is used of chips and links; of several runs, the fastest's.

    InputError where the runs are not of one problem, none has a valid mapping, or the problem has no occupancy.
    """
    shown = fastest(runs)
    problem = shown.run.problem
    if explainer(problem, Partition):
        return draw_shares(shown, problem)
    if not isinstance(problem, HasOccupancy):
        raise InputError(
            f"plot utilisation: expected a problem that reports the use of its memories, found {problem.about.name!r}"
        )
    mappings = shown.mappings()
    held = {name: problem.occupancy(mapping) for name, mapping in mappings.items()}
    schedules = [
        _schedule(problem, mapping, held[name], shown.label(name)) for name, mapping in mappings.items()
    ]
    first = held["compiler"]
    unit = f"{problem.about.step}, in execution order" if _ends_s(problem, mappings["best"]) is None else TIME
    figure = utilisation_figure(
        schedules, first.memories, problem.space.heads, first.capacity_bytes, shown.title, unit
    )
    numbers = {
        **shown.numbers,
        "memories": first.memories,
        "capacity_bytes": first.capacity_bytes,
        "heads": problem.space.heads,
        "x": unit,
        **{
            name: {
                **asdict(utilisation(schedule, first.capacity_bytes)),
                "by_head_bytes": schedule.by_head_bytes,
                "edges": schedule.edges,
            }
            for name, schedule in zip(held, schedules, strict=True)
        },
    }
    return Drawing(figure, plain(numbers), shown.remarks)


def _schedule(problem: Problem, mapping: Mapping16, held: Occupancy, name: str) -> Schedule:
    """In microseconds where the problem can say how long its steps take, else in steps."""
    ends_s = _ends_s(problem, mapping)
    if ends_s is None:
        return Schedule(name, np.arange(len(held.by_head) + 1, dtype=np.float64), held.by_head)
    edges_us = np.concatenate([[0.0], ends_s]) * 1e6
    return Schedule(f"{name}, {micro(float(ends_s[-1]))} µs", edges_us, held.by_head)


def _ends_s(problem: Problem, mapping: Mapping16) -> NDArray[np.float64] | None:
    """When each step ends, float64 [T], where steps are the ops that the problem explains; else None."""
    explain = explainer(problem, OpTimes)
    if explain is None or problem.about.step != OP:
        return None
    return np.cumsum([op.duration_s for op in explain(mapping).ops])
