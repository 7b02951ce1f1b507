"""What bounds the ops of one run's inferences: under the baseline (the compiler's mapping, say) and under the best.

Two bars are the latencies of the compiler's map and the best, shared out over causes: a memory, the multiply array
(`mac`), the vector unit (`dsp`), the launch (`overhead`), a measurement (`measured`). An op counts wholly for the cause
that took longest. Below are up to eight ops that gained most and eight that lost most, from the compiler's time
(hollow) to the best's (filled).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.breakdown import Inference, breakdown, breakdown_figure
from egrl.figures.drawing import Drawing, plain
from egrl.figures.repetitions import fastest
from egrl.runs.past_run import PastRun
from hwsim.capabilities import explainer
from hwsim.explanation import OpTimes
from workloads.errors import InputError


def draw(runs: Sequence[PastRun]) -> Drawing:
    """Latency by what bound the ops, and the ops that changed most; of several runs, the fastest's.

    InputError where the runs are not of one problem, none has a valid mapping, or the problem explains no costs.
    """
    shown = fastest(runs)
    problem = shown.run.problem
    explain = explainer(problem, OpTimes)
    if explain is None:
        raise InputError(
            f"plot breakdown: expected a problem that explains its costs, found {problem.about.name!r}"
        )
    explained = {name: explain(mapping).ops for name, mapping in shown.mappings().items()}
    before, after = (
        Inference(
            shown.label(name), np.array([op.duration_s for op in ops]), tuple(op.bound_by for op in ops)
        )
        for name, ops in explained.items()
    )
    names = [op.name for op in explained["compiler"]]
    memories = tuple(dict.fromkeys(label for head in problem.space.labels for label in head))
    found = breakdown(before, after, memories)
    figure = breakdown_figure(before, after, names, memories, shown.title)
    numbers = {
        **shown.numbers,
        "ops": names,
        "causes": found.causes,
        **{
            name: {"seconds_by_cause": seconds, "duration_s": run.duration_s, "bound_by": run.bound_by}
            for name, run, seconds in zip(
                explained, (before, after), (found.before_s, found.after_s), strict=True
            )
        },
        "change_s": found.change_s,
    }
    return Drawing(figure, plain(numbers), shown.remarks)
