"""One point of a grid: a chip file becomes a problem, which is solved from a neighbour's mapping.

The functions take and give what can be pickled: they run in this process, in others, or on other machines.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from egrl.problems import build_problem
from hwsim.capabilities import HasModel
from hwsim.problem import Mapping16, Problem, Status
from workloads.errors import InputError

TOLERANCE = 1e-6
"""A mapping that is cheaper than a bound by a larger share proves that the bound is wrong."""


@dataclass(frozen=True)
class Subject:
    """The subject of an exploration without the chip: a workload (a name or a file), a problem and its settings."""

    workload: str
    problem: str
    settings: tuple[str, ...]

    def build(self, chip_text: str) -> Problem:
        """The problem on a chip file with that text. InputError where it is no chip that can hold the workload."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "chip.toml"
            path.write_text(chip_text, encoding="utf-8")
            try:
                return self.on(str(path))
            except InputError as error:
                raise InputError(str(error).replace(f"{path}: ", "")) from error

    def on(self, chip: str) -> Problem:
        """The problem on a chip by name or file; "": the problem's default. InputError as `build`."""
        return build_problem(self.problem, self.workload, chip, self.settings)


@dataclass(frozen=True)
class Task:
    """A point to solve.

    Attributes:
        subject, chip_text: the problem.
        starts: mappings int16 [N, H]; the solve begins with the one that costs least there.
        seed: of the solve.
        time_limit_s: of the solve.
    """

    subject: Subject
    chip_text: str
    starts: tuple[Mapping16, ...]
    seed: int
    time_limit_s: float


@dataclass(frozen=True)
class Point:
    """The results of a point.

    Attributes:
        cost, bound: of the best mapping found, and of all mappings; NaN where the chip cannot be.
        mapping: int16 [N, H]; None where the chip cannot be.
        baseline: cost of the problem's baseline there.
        proof: what proves the bound.
        complete: False if the time limit ended the solve.
        failure: why the chip cannot be; "" where it can.
    """

    cost: float
    bound: float
    mapping: Mapping16 | None
    baseline: float
    proof: str
    complete: bool = True
    failure: str = ""

    @staticmethod
    def impossible(reason: str) -> Point:
        """A point without a mapping."""
        return Point(math.nan, math.nan, None, math.nan, "", True, reason)


def solve_point(task: Task) -> Point:
    """The best mapping and the bound that a solve of the point gives."""
    try:
        problem = task.subject.build(task.chip_text)
    except InputError as error:
        return Point.impossible(str(error))
    assert isinstance(problem, HasModel)
    starts = [problem.baseline.mapping, *task.starts]
    costs = [_cost(problem, mapping) for mapping in starts]
    start = starts[costs.index(min(costs))]
    found = problem.solve(task.time_limit_s, task.seed, start)
    if not math.isfinite(found.cost):
        return Point.impossible("no mapping was found that fits")
    return Point(
        found.cost, found.bound.cost, found.mapping, problem.baseline.cost, found.bound.proof, found.complete
    )


@dataclass(frozen=True)
class Trial:
    """Mappings int16 [N, H] of other points, to be tried on a point that was solved."""

    subject: Subject
    chip_text: str
    mappings: tuple[Mapping16, ...]
    point: Point


def try_mappings(trial: Trial) -> Point:
    """The point with the cheapest of its own and the other mappings.

    Raises:
        InputError: its mapping costs something else, or one breaks its bound: it was read from a file that lies, or the
            solver is wrong.
    """
    point = trial.point
    problem = trial.subject.build(trial.chip_text)
    assert isinstance(problem, HasModel)
    assert point.mapping is not None
    costs = [_cost(problem, point.mapping), problem.baseline.cost]
    for what, said, real in zip(("cost", "baseline"), (point.cost, point.baseline), costs, strict=True):
        if not math.isclose(said, real, rel_tol=TOLERANCE):
            raise InputError(f"points/: {what}: expected {real}, which the model says, found {said}")
    costs = [_cost(problem, mapping) for mapping in trial.mappings]
    least = min(costs, default=math.inf)
    if least < point.cost:
        judged = problem.evaluate(trial.mappings[costs.index(least)][None], np.zeros(1, np.uint64))
        if judged.status[0] == Status.OK:
            mapping = judged.repaired[0]
            point = Point(
                least, point.bound, mapping, point.baseline, point.proof, point.complete, point.failure
            )
    if point.cost < point.bound * (1 - TOLERANCE):
        raise InputError(
            f"points/: bound: expected one below every cost, found {point.bound} above {point.cost}"
        )
    return point


def _cost(problem: Problem, mapping: Mapping16) -> float:
    """The cost of a mapping there; infinite if it is no mapping of the problem."""
    assert isinstance(problem, HasModel)
    try:
        problem.space.check(mapping[None], np.zeros(1, np.uint64))
    except ValueError:
        return math.inf
    return problem.model_cost(mapping)
