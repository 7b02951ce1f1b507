"""A figure: the schedule of a run, step after step, by what takes the time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from egrl.figures.repetitions import Drawing, plain
from egrl.runs.past_run import PastRun
from mlsys2026.judge import replay
from mlsys2026.problem import Mlsys2026
from workloads.errors import InputError


def draw(runs: Sequence[PastRun]) -> Drawing:
    """The steps of the best schedule of a run of mlsys2026: how long each takes, and its ops."""
    if len(runs) != 1 or not isinstance(runs[0].problem, Mlsys2026):
        raise InputError(f"plot: expected one run of mlsys2026, found {len(runs)} of another kind or more")
    problem = runs[0].problem
    steps = problem.steps(runs[0].best_mapping())
    latencies = [float(each) for each in replay(problem.instance, steps).latencies]
    starts = [sum(latencies[:number]) for number in range(len(steps))]
    figure = Figure(figsize=(10, 1 + 0.22 * len(steps)), layout="constrained")
    axes = figure.add_subplot()
    colours = ["C1" if any(problem.instance.matmul[op] for op in step.ops) else "C0" for step in steps]
    axes.barh(range(len(steps)), latencies, left=starts, color=colours)
    for number, step in enumerate(steps):
        stays = " *" if step.retain else ""
        label = f" {len(step.ops)} ops, {' x '.join(map(str, step.granularity))}{stays}"
        late = starts[number] > 0.6 * sum(latencies)
        at = starts[number] if late else starts[number] + latencies[number]
        axes.text(at, number, label, va="center", ha="right" if late else "left", fontsize=7)
    axes.set_xlabel("time units (with matrix products: orange; *: the output stays in fast memory)")
    axes.set_ylabel("step")
    axes.invert_yaxis()
    numbers = {"starts": starts, "latencies": latencies, "ops": [list(step.ops) for step in steps]}
    return Drawing(figure, plain(numbers))
