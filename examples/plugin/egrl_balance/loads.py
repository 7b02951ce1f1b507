"""A figure: how long each core works."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from egrl.figures.repetitions import Drawing, plain
from egrl.runs.past_run import PastRun
from workloads.errors import InputError


def draw(runs: Sequence[PastRun]) -> Drawing:
    """How long each core works under the best mapping of a run of balance."""
    problem = runs[0].problem
    if problem.about.name != "balance" or len(runs) != 1:
        raise InputError(f"plot: expected one run of balance, found {len(runs)} of {problem.about.name}")
    seconds = problem.loads(runs[0].best_mapping()[None])[0]
    figure = Figure()
    axes = figure.add_subplot()
    axes.bar(problem.space.labels[0], seconds)
    axes.set_ylabel("seconds of work")
    return Drawing(figure, plain({"seconds": seconds}))
