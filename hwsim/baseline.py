"""A problem with another baseline: speedups over a mapping that the user brings, instead of over the problem's own."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from hwsim.capabilities import HasModel
from hwsim.problem import Baseline, Mapping16, Problem, Status
from workloads.errors import InputError

Same = TypeVar("Same", bound=Problem)
ROUNDING = 1e-9
"""How far speedup x cost may be from the baseline's cost, relative to it."""


@dataclass(frozen=True)
class _Digest:
    """The fingerprint of a problem with another baseline."""

    digest: str

    def __call__(self) -> str:
        return self.digest


def noise_free_cost(problem: Problem, mapping: Mapping16) -> float:
    """The cost of what runs for one mapping int16 [N, H], in the problem's unit; NaN if nothing runs.

    It is noise-free if the problem has a model. Raises ValueError as `Problem.evaluate` does.
    """
    if isinstance(problem, HasModel):
        return problem.model_cost(mapping)
    return float(problem.evaluate(mapping[None], np.zeros(1, np.uint64)).cost[0])


def with_baseline(problem: Same, mapping: Mapping16, name: str, where: str, see: str = "") -> Same:
    """The problem with speedups over one mapping int16 [N, H], which texts call `name`. The problem is not changed.

    `see` says where all rules are listed that the mapping breaks, if it breaks several.

    Its fingerprint is another: the speedups of the two are not comparable.

    Raises:
        InputError: the mapping breaks a rule or does not run, or the problem keeps to its own baseline. The message
            begins with `where`.
        ValueError: the shape, the dtype or a choice number is wrong.
    """
    key = np.zeros(1, np.uint64)
    mapping = problem.space.canonical(mapping)
    if broken := problem.judge(mapping):
        more = f" (and {len(broken) - 1} more{see})" if len(broken) > 1 else ""
        raise InputError(
            f"{where}: expected a mapping that is valid on {problem.about.chip}, found {broken[0]}{more}"
        )
    cost = noise_free_cost(problem, mapping)
    if not (np.isfinite(cost) and cost > 0):
        raise InputError(
            f"{where}: expected a mapping that runs on {problem.about.chip}, found one that does not"
        )
    made = copy.copy(problem)
    if isinstance(made.fingerprint, _Digest):  # it is not of the baseline that is replaced
        del vars(made)["fingerprint"]
    baseline = Baseline(mapping, cost, name, rules=problem.baseline.rules)
    try:
        vars(made).update(baseline=baseline, about=replace(problem.about, baseline_name=name, stands_for=""))
    except TypeError:  # a class with slots
        raise _fixed(problem, where) from None
    if made.baseline is not baseline or made.about.baseline_name != name:  # it computes them
        raise _fixed(problem, where)
    found = made.evaluate(mapping[None], key)
    if found.status[0] != Status.OK or abs(found.speedup[0] * found.cost[0] / cost - 1) > ROUNDING:
        raise _fixed(problem, where)
    digest = hashlib.sha256(made.fingerprint().encode() + np.ascontiguousarray(mapping).tobytes())
    vars(made)["fingerprint"] = _Digest(digest.hexdigest())
    return made


def _fixed(problem: Problem, where: str) -> InputError:
    return InputError(
        f"{where}: expected a problem whose speedups follow its attribute `baseline`, found {problem.about.name}"
    )
