"""A plan: which values of a training step are kept, what that costs, and its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hwsim.problem import Mapping16, Problem
from hwsim.training.problem import TrainingProblem
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import describe, parse_document
from workloads.text import size_text

KIND, VERSION = "pytorch-plan", 1
MOST = 1 << 62
"""No number of a plan is as large, in bytes or seconds."""


@dataclass(frozen=True)
class Plan:
    """What is kept of one joint graph, and what that is expected to take.

    Attributes:
        name: of the network.
        graph: `TrainingStep.graph` of the joint graph; a plan fits no other.
        keep: names of the values that are kept from the forward to the backward pass.
        limit_bytes: the memory that was asked for.
        peak_bytes: of the step with this plan, parameters, inputs and what is reserved included.
        seconds: of all ops of the step, run one by one.
        all_peak_bytes, all_seconds: the same if every value is kept.
        bound_seconds: no plan within what `margin` leaves of the limit takes less, by the same times; 0 if nothing was
            proved.
        margin: share of `limit_bytes` that the plan had to leave free, for what is not known of the compiled step.
    """

    name: str
    graph: str
    keep: tuple[str, ...]
    limit_bytes: int
    peak_bytes: int
    seconds: float
    all_peak_bytes: int
    all_seconds: float
    bound_seconds: float = 0.0
    margin: float = 0.0

    def __str__(self) -> str:
        if self.peak_bytes >= self.all_peak_bytes:
            return (
                f"{self.name}: peak {size_text(self.all_peak_bytes)}, within the limit with every value kept"
            )
        more = self.seconds / self.all_seconds - 1 if self.all_seconds else 0.0
        text = f"{self.name}: peak {size_text(self.all_peak_bytes)} -> {size_text(self.peak_bytes)}, step {more:+.1%}"
        if self.bound_seconds:
            gap = self.seconds / self.bound_seconds - 1
            text += f", within {gap:.1%} of the best possible" if gap > 0.0005 else ", the best possible"
        return text

    def checked(self, graph: str) -> Plan:
        """The plan, if it was made for the graph with that digest; otherwise InputError."""
        if graph != self.graph:
            raise InputError(
                f"the plan of {self.name}: expected the graph {self.graph[:12]} that it was made for, found"
                f" {graph[:12]}: another network, batch, backend or version of PyTorch"
            )
        return self


def plan_of(
    problem: TrainingProblem, mapping: Mapping16, bound_seconds: float = 0.0, margin: float = 0.0
) -> Plan:
    """The plan that a mapping int16 [N, 1] of a training problem is, with what it is expected to take.

    The limit of the problem is what `margin` left of the limit that was asked for.
    """
    step = problem.step
    return Plan(
        step.name,
        step.graph,
        tuple(step.values[number].name for number in problem.saved(mapping)),
        round(problem.limit_bytes / (1 - margin)),
        int(problem.peak_bytes(mapping[None])[0]),
        problem.model_cost(mapping),
        problem.keep_all[1],
        problem.keep_all[0],
        bound_seconds,
        margin,
    )


def dumps(plans: Sequence[Plan]) -> str:
    """The JSON of the plans of one model, one per graph."""
    document = {"kind": KIND, "version": VERSION, "plans": [asdict(plan) for plan in plans]}
    return json.dumps(document, indent=1) + "\n"


def of_run(problem: Problem, mapping: Mapping16) -> str:
    """The JSON of the plan that a mapping int16 [N, 1] is. InputError if the problem is not `training`."""
    if not isinstance(problem, TrainingProblem):
        raise InputError(f"--to pytorch: expected a run of the problem training, found {problem.about.name}")
    if not problem.step.graph:
        raise InputError(
            f"--to pytorch: expected a run of what `egrl import STEP.py` made, found one of {problem.step.name},"
            " which was not captured from a graph"
        )
    return dumps([plan_of(problem, mapping)])


def read(path: str) -> list[Plan]:
    """The plans of a file. InputError in one line if it is none."""
    document = parse_document(read_text(path, "a plan (.json)"), path, KIND, VERSION)
    rows = document.get("plans")
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path}: plans: expected a list of plans, found {type(rows).__name__}")
    return [_plan(row, f"{path}: plans[{number}]") for number, row in enumerate(rows)]


_TYPES: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "graph": str,
    "keep": list,
    "limit_bytes": int,
    "peak_bytes": int,
    "seconds": (int, float),
    "all_peak_bytes": int,
    "all_seconds": (int, float),
    "bound_seconds": (int, float),
    "margin": (int, float),
}


def _plan(row: Any, where: str) -> Plan:
    if not isinstance(row, dict) or set(row) != set(_TYPES):
        raise InputError(f"{where}: expected an object with {', '.join(_TYPES)}, found another")
    for key, kind in _TYPES.items():
        if not isinstance(row[key], kind) or isinstance(row[key], bool):
            raise InputError(f"{where}.{key}: expected another type, found {type(row[key]).__name__}")
        if not isinstance(row[key], str | list) and not 0 <= row[key] < MOST:
            raise InputError(f"{where}.{key}: expected a number from 0 to 2^62, found {describe(row[key])}")
        if isinstance(row[key], str) and not row[key].isprintable():
            raise InputError(f"{where}.{key}: expected printable text, found {describe(row[key])}")
    if not all(isinstance(name, str) for name in row["keep"]):
        raise InputError(f"{where}.keep: expected names, found something else")
    return Plan(**{**row, "keep": tuple(row["keep"])})
