"""What runs measured on one board, network by network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egrl.methods.twin.data import MOST, averaged, thin
from egrl.problems import find_problem
from egrl.runs.past_run import PastRun
from hwsim.capabilities import HasFiles, HasParts
from hwsim.family import Family, HasFamily, Model
from hwsim.problem import Floats, Mapping16, Problem
from workloads.errors import InputError

MEASURED_FOR_IT = "calibration"
"""The folder of a run that has what calibrations measured."""
SAME_COST_TOLERANCE = 1e-4
"""Costs are the description's own up to so much: those of a family need not round sizes to whole bytes."""
MIN_MAPPINGS = 10
"""Different mappings that must have been measured in all."""


@dataclass(frozen=True)
class Network:
    """The measurements of one network.

    Attributes:
        name: the workload's.
        problem: it on the board as described.
        family: the problem's.
        mapping: int16 [M, N, H], different ones.
        cost: float64 [M], geometric means where one was measured several times.
        parts: float64 [M, Q], the time of each op, NaN where it is not known; None if no board has profiled one.
    """

    name: str
    problem: Problem
    family: Family
    mapping: Mapping16
    cost: Floats
    parts: Floats | None = None


def networks(runs: Sequence[PastRun]) -> list[Network]:
    """The measurements of some runs, those of one network together; of many, the best half and an even choice.

    InputError where a run's costs were not measured, its problem has no family, the boards are described differently,
    or too little was measured.
    """
    problems: dict[str | bytes, Problem] = {}
    rows: dict[str | bytes, list[_Rows]] = {}
    described = ""
    for run in runs:
        problem = run.problem
        if not isinstance(problem, HasFamily):
            raise InputError(
                f"{run.path}: expected a problem with a family of models (nnpi, mcm), found {problem.about.name!r}"
            )
        assert isinstance(problem, HasFiles)
        files = dict(problem.files())
        workload = files.pop(find_problem(run.options.problem).workload_file)
        described = described or str(files)
        if str(files) != described:
            raise InputError(
                f"{run.path}: expected runs with one chip file, found another than {runs[0].path} has"
            )
        problems.setdefault(workload, problem)
        for found in (run.evaluations(), run.evaluations(MEASURED_FOR_IT)):
            ran = np.isfinite(found.cost) & (found.cost > 0)
            if not run.options.evaluator and _own(problem.family, found.mapping[ran], found.cost[ran]):
                raise InputError(
                    f"{run.path}: expected a run whose costs were measured, by --evaluator or reported; this one's are"
                    " the chip file's own"
                )
            quantity = len(problem.parts) if isinstance(problem, HasParts) else 0
            parts = np.full((len(ran), quantity), np.nan)
            if found.parts.shape[1] == quantity:
                parts[:] = found.parts
            rows.setdefault(workload, []).append((found.mapping[ran], found.cost[ran], parts[ran]))
    made = [_network(problems[key], some, MOST // len(rows)) for key, some in rows.items()]
    count = sum(len(network.cost) for network in made)
    if count < MIN_MAPPINGS:
        raise InputError(
            f"RUN: expected at least {MIN_MAPPINGS} different mappings that were measured, found {count}"
        )
    return [network for network in made if len(network.cost)]


def _own(family: Family, mapping: Mapping16, cost: Floats) -> bool:
    """Whether costs [M] of mappings [M, N, H], if any, are what the description itself says: nothing to learn."""
    nominal = Model(family.nominal, np.zeros(len(family.parameters)))
    return len(cost) > 0 and bool(
        np.allclose(family.predict(nominal, mapping), cost, rtol=SAME_COST_TOLERANCE)
    )


_Rows = tuple[Mapping16, Floats, Floats]
"""Mappings [R, N, H], their costs [R], and their profiles [R, Q]."""


def _network(problem: Problem, rows: Sequence[_Rows], most: int) -> Network:
    assert isinstance(problem, HasFamily)
    mapping, cost, profiles = (np.concatenate(column) for column in zip(*rows, strict=True))
    log_cost = np.log(cost)
    flat = mapping.reshape(len(mapping), -1)
    _, first, number = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    cost = np.exp(np.bincount(number, log_cost) / np.bincount(number)) if len(flat) else np.zeros(0)
    parts = averaged(profiles, number, len(cost))
    if len(cost) > most:
        kept = thin(cost, most)
        first, cost, parts = first[kept], cost[kept], None if parts is None else parts[kept]
    return Network(problem.about.workload, problem, problem.family, mapping[first], cost, parts)
