"""All mappings of a problem that is small enough to try them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import assume

from hwsim.nnpi.chip import Chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.problem import Floats, Mapping16, Problem
from workloads.errors import InputError
from workloads.workload import Workload

MOST_MAPS = 5_000


def small(workload: Workload, chip: Chip) -> NnpiProblem:
    """The problem, if all its mappings can be tried."""
    try:
        found = NnpiProblem(workload, replace(chip, effects=replace(chip.effects, noise=False)))
    except InputError:
        assume(False)
        raise
    assume(found.space.most_choices ** int(found.space.live.sum()) <= MOST_MAPS)
    return found


def every_mapping(problem: Problem) -> tuple[Mapping16, Floats]:
    """All mappings that run as they stand, and their costs."""
    live = np.argwhere(problem.space.live)
    rows = list(itertools.product(*(range(problem.space.num_choices[n, h]) for n, h in live)))
    maps = np.repeat(problem.space.initial[None], len(rows), axis=0)
    for at, (n, h) in enumerate(live):
        maps[:, n, h] = [row[at] for row in rows]
    valid = np.array([not problem.judge(each) for each in maps])
    maps = maps[valid]
    return maps, problem.evaluate(maps, np.zeros(len(maps), np.uint64)).cost
