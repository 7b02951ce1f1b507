"""Memory map shifts of runs: from the compiler's map to the best mapping of each.

A row is a memory of the compiler's map, with how much it held; its cells say which share of that the best mapping
puts into each memory. A diagonal of 100% is the compiler's own map. A hatched row held nothing. Tensors are counted
above, bytes below. Figure 6, top, of the EGRL paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.shift import shift_figure, shifts
from egrl.figures.drawing import Drawing, plain
from egrl.figures.repetitions import check_places, together
from egrl.runs.past_run import PastRun


def draw(runs: Sequence[PastRun]) -> Drawing:
    """Where the tensors of each of the compiler's memories lie in the best mappings, all runs together.

    InputError where the runs are not of one problem, or one has no valid mapping.
    """
    kept, remarks = together(runs)
    problem = kept[0].problem
    check_places("shift", problem)
    best = np.stack([run.best_mapping() for run in kept])
    found = shifts(
        problem.baseline.mapping, best, problem.space.size_bytes, problem.space.heads, problem.space.labels
    )
    baseline_name = problem.about.baseline_name
    of = "the best mapping" if len(kept) == 1 else f"the best mappings of {len(kept)} runs"
    title = f"{problem.about.workload} on {problem.about.chip}\nfrom {baseline_name}'s map to {of}"
    numbers = {
        "workload": problem.about.workload,
        "chip": problem.about.chip,
        "runs": [str(run.path) for run in kept],
        "heads": [
            {
                "head": shift.head,
                "memories": shift.memories,
                "tensors": shift.tensors,
                "bytes": shift.sizes,
                "by_count": shift.by_count,
                "by_bytes": shift.by_bytes,
            }
            for shift in found
        ],
    }
    return Drawing(shift_figure(found, title, baseline_name), plain(numbers), remarks)
