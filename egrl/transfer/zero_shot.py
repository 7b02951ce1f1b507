"""Zero-shot transfer: policies saved in training, placed on other workloads with no training.

Source: EGRL, section 5, "Generalizability properties", and Figure 4.

Deviations:
- A policy proposes one mapping per workload (`egrl.methods.players`): a graph network its most probable choices, which
  the paper leaves open; an agent that plays a game one game.
- Hidden layers and output head are kept alike: decisions and features are the same for every workload of a chip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from egrl.core import typed_tables
from egrl.methods.players import Policies
from egrl.problems import build_problem, find_problem
from egrl.runs.policies import SavedPolicies, Step
from hwsim.problem import Problem, Status
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import parse_document

DOCUMENT = "transfer.json"
KIND, VERSION = "transfer", 1


@dataclass(frozen=True)
class Target:
    """A workload that policies are placed on, as `transfer.json` holds it.

    Attributes:
        workload: its name.
        fingerprint: of the problem.
        baseline: the compiler's cost.
        speedup: over the compiler, of each saved policy; 0 where its mapping does not run.
        rival: what texts call the baseline, such as "the compiler".
    """

    workload: str
    fingerprint: str
    baseline: float
    speedup: tuple[float, ...]
    rival: str


def build_targets(source: SavedPolicies, workloads: Sequence[str]) -> list[Problem]:
    """The workloads (names or files) on the chip, and with the settings, that the policies were trained with."""
    kind = find_problem(source.problem).load().config
    settings: Any = typed_tables.build(kind, source.settings, f"{source.folder}: problem")
    return [build_problem(source.problem, workload, source.chip, settings) for workload in workloads]


def load(steps: Sequence[Step], code: Sequence[str] = ()) -> Policies:
    """The policies of some steps, of which the user named the `code`.

    InputError where one is damaged, or otherwise than the first, or is code in a file that was not named.
    """
    return Policies([step.path for step in steps], code)


def place(policies: Policies, problem: Problem) -> Target:
    """Measure each policy's mapping of a workload once, without training. InputError where one does not fit."""
    mapping = policies.greedy(problem)
    found = problem.evaluate(mapping, np.zeros(len(mapping), dtype=np.uint64))
    speedup = np.where(found.status == Status.OK, found.speedup, 0.0)
    about, cost = problem.about, problem.baseline.cost
    return Target(about.workload, problem.fingerprint(), cost, tuple(speedup.tolist()), about.baseline_name)


def zero_shot(
    source: SavedPolicies,
    targets: Sequence[Problem],
    say: Callable[[str], None] = lambda line: None,
    code: Sequence[str] = (),
) -> list[Target]:
    """Every saved policy on every target; `code` is what the user named of it."""
    found, policies = [], load(source.steps, code)
    for problem in targets:
        target = place(policies, problem)
        found.append(target)
        say(
            f"{source.name} -> {problem.about.workload}: {target.speedup[-1]:.4f}x {problem.about.baseline_name}"
            " at the end"
        )
    return found


def document(
    source: SavedPolicies, targets: Sequence[Target], finetuned: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What transfer.json holds."""
    return {
        "kind": KIND,
        "version": VERSION,
        "policies": source.name,
        "trained_on": list(source.trained_on),
        "generations": [step.generation for step in source.steps],
        "evaluations": [step.evaluations for step in source.steps],
        "chosen": source.chosen,
        "targets": [{**vars(target), "speedup": list(target.speedup)} for target in targets],
        "finetuned": list(finetuned),
    }


def read(folder: Path) -> dict[str, Any] | None:
    """transfer.json of a folder; None where there is none. InputError where it is damaged."""
    path = folder / DOCUMENT
    if not path.is_file():
        return None
    found = parse_document(read_text(path, "a transfer"), str(path), KIND, VERSION)
    try:
        steps = len(found["generations"])
        sizes = [len(found["evaluations"]), *(len(target["speedup"]) for target in found["targets"])]
        numbers = [float(s) for target in found["targets"] for s in target["speedup"]]
        numbers += [float(int(number)) for key in ("generations", "evaluations") for number in found[key]]
        names = [str(target["workload"]) + target["fingerprint"] for target in found["targets"]]
        tuned = [str(row["workload"]) for row in found["finetuned"]]
        names += [str(found["policies"]), *map(str, found["trained_on"])]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: damaged: {type(error).__name__}: {error}") from error
    if any(size != steps for size in sizes) or not all(map(math.isfinite, numbers)) or not steps:
        raise InputError(f"{path}: damaged: expected a finite speedup for each of {steps} policies")
    del names, tuned
    return found


def merge(old: Mapping[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """The new document with what an earlier one says of other targets of the same policies."""
    if old is None or any(old[key] != new[key] for key in ("generations", "trained_on")):
        return new
    result = dict(new)
    for key in ("targets", "finetuned"):
        fresh = {row["workload"] for row in new[key]}
        result[key] = [row for row in old[key] if row["workload"] not in fresh] + new[key]
    return result
