"""A plan: which values of a training step are kept, and where, what that costs, and its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from egrl_training.simulator.problem import TrainingProblem
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import describe, parse_document
from workloads.text import size_text

if TYPE_CHECKING:
    from egrl.runs.past_run import PastRun

KIND, VERSION = "pytorch-plan", 1
MOST = 1 << 62
"""No number of a plan is as large, in bytes or seconds."""


@dataclass(frozen=True)
class Offload:
    """A value that is kept in the memory of the host.

    Attributes:
        name: of the value.
        size_bytes: of its storage.
        leaves: the op of the forward pass before which it has left the device; "": the end of that pass.
        returns: the op of the backward pass before which its copy back is issued.
    """

    name: str
    size_bytes: int
    leaves: str
    returns: str


@dataclass(frozen=True)
class Plan:
    """What is kept of one joint graph, and what that is expected to take.

    Attributes:
        name: of the network.
        graph: `TrainingStep.graph` of the joint graph; a plan fits no other.
        keep: names of the values that are kept from the forward to the backward pass, on the device or the host.
        limit_bytes: the memory that was asked for.
        peak_bytes: of the step with this plan, parameters, inputs and what is reserved included.
        seconds: of all ops of the step, run one by one.
        all_peak_bytes, all_seconds: the same if every value is kept.
        bound_seconds: no plan within what `margin` leaves of the limit takes less, by the same times; 0 if nothing was
            proved.
        margin: share of `limit_bytes` that the plan had to leave free, for what is not known of the compiled step.
        offload: those of `keep` that are on the host meanwhile, in the order in which they return.
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
    offload: tuple[Offload, ...] = ()

    def __str__(self) -> str:
        if self.peak_bytes >= self.all_peak_bytes:
            return (
                f"{self.name}: peak {size_text(self.all_peak_bytes)}, within the limit with every value kept"
            )
        more = self.seconds / self.all_seconds - 1 if self.all_seconds else 0.0
        whole, peak = size_text(self.all_peak_bytes), size_text(self.peak_bytes)
        text = f"{self.name}: peak {whole} with every value kept -> {peak}, step {more:+.1%}"
        if self.offload:
            text += f", {size_text(sum(value.size_bytes for value in self.offload))} on the host"
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
        _offloaded(problem, mapping),
    )


def _offloaded(problem: TrainingProblem, mapping: Mapping16) -> tuple[Offload, ...]:
    """What a mapping int16 [N, 1] keeps on the host, in the order in which it returns."""
    step, trace = problem.step, problem.trace(mapping)
    storage, size = problem.tables.storage, problem.tables.size_bytes
    runs = [step.ops[op].name for op in trace.op]
    leaves = [*runs[: trace.turn], ""]
    return tuple(
        Offload(step.values[storage[s]].name, int(size[s]), leaves[trace.leaves[s]], runs[trace.returns[s]])
        for s in trace.order
    )


def dumps(plans: Sequence[Plan]) -> str:
    """The JSON of the plans of one model, one per graph."""
    rows = [asdict(plan) for plan in plans]
    for row in rows:
        if not row["offload"]:
            del row["offload"]
    document = {"kind": KIND, "version": VERSION, "plans": rows}
    return json.dumps(document, indent=1) + "\n"


def export(run: PastRun) -> str:
    """What PyTorch keeps for the backward pass under the best mapping. InputError if the run is not of `training`."""
    return of_run(run.problem, run.best_mapping())


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
    if not isinstance(row, dict) or set(row) - {"offload"} != set(_TYPES):
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
    away = _offload(row.get("offload", []), row["keep"], f"{where}.offload")
    return Plan(**{**row, "keep": tuple(row["keep"]), "offload": away})


def _offload(rows: Any, keep: list[str], where: str) -> tuple[Offload, ...]:
    kinds = {"name": str, "size_bytes": int, "leaves": str, "returns": str}
    if not isinstance(rows, list):
        raise InputError(f"{where}: expected a list, found {type(rows).__name__}")
    for row in rows:
        if not isinstance(row, dict) or {key: type(value) for key, value in row.items()} != kinds:
            raise InputError(f"{where}: expected objects with {', '.join(kinds)}, found another")
        if row["name"] not in keep or not 0 <= row["size_bytes"] < MOST:
            raise InputError(
                f"{where}: expected values of keep with their bytes, found {describe(row['name'])}"
            )
    return tuple(Offload(**row) for row in rows)
