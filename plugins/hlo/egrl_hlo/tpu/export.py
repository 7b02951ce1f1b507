"""egrl export RUN --to xla: the best mapping of a run as options of the TPU compiler."""

from __future__ import annotations

import json

from egrl.runs.past_run import PastRun
from egrl_hlo.placement import NAME
from egrl_hlo.tpu.overrides import options, overrides
from hwsim.mmap.problem import MmapProblem
from workloads.errors import InputError

KIND, VERSION = "xla-options", 1


def export(run: PastRun) -> str:
    """JSON with the fewest overrides of XLA's order that lead to the run's best mapping, and the compiler options.

    InputError if the run is not of a program that XLA has placed, or not over XLA's placement.
    """
    problem = run.problem
    if not isinstance(problem, MmapProblem) or problem.program.compiled is None:
        raise InputError(
            "--to xla: expected a run of problem mmap on a text of XLA's for a TPU, found one of"
            f" {problem.about.name} on {problem.about.workload}"
        )
    if problem.baseline.name != NAME:
        raise InputError(
            "--to xla: expected a run over XLA's placement (--baseline xla), found one over"
            f" {problem.about.baseline_name}"
        )
    best = run.best_mapping()
    before, after = problem.baseline.mapping[:, 0].tolist(), best[:, 0].tolist()
    found = overrides(problem.program, before, after)
    document = {
        "kind": KIND,
        "version": VERSION,
        "workload": problem.about.workload,
        "chip": problem.about.chip,
        "compiler_options": options(found),
        "overrides": [
            {
                "instruction": each.instruction,
                "tuple_index": None if each.leaf < 0 else each.leaf,
                "order": "first" if each.first else "last",
                "traffic_bytes": each.traffic_bytes,
            }
            for each in found
        ],
    }
    return json.dumps(document, indent=1) + "\n"
