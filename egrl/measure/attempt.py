"""One measurement of a problem that is not believed: a mapping that goes wrong has failed, the others have not.

    an exception                        the rows are measured one by one; those that raise it have failed
    a cost that is no number above 0    the row has failed
    another shape than was asked for    a mistake of the problem, in whatever mapping: ValueError

The first evaluation of a run is its start: if that raises something, the problem is wrong, and the exception is the
user's to see.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hwsim.problem import Evaluation, Keys, Mapping16, Problem, Status
from workloads.errors import InputError, Notice, RunFailure
from workloads.text import visible


@dataclass(frozen=True)
class Attempt:
    """What came of measuring B rows.

    Attributes:
        evaluation: of all of them.
        reasons: why rows failed, each reason once.
        first: what the first row raised; None where that was measured.
    """

    evaluation: Evaluation
    reasons: tuple[str, ...] = ()
    first: Exception | None = None


def evaluated(problem: Problem, mapping: Mapping16, key: Keys) -> Evaluation:
    """What a problem says of mappings int16 [B, N, H], which may be a plug-in's: it gets a copy.

    ValueError, which names the problem, if the evaluation is not of these rows.
    """
    found = problem.evaluate(mapping.copy(), key)
    if len(found) != len(mapping) or found.repaired.shape != mapping.shape:
        shape = found.repaired.shape
        raise Malformed(
            f"{problem.about.name}: evaluate: expected {len(mapping)} rows, mappings {mapping.shape}, found {shape}"
        )
    return found


class Malformed(ValueError):
    """An evaluation that is not of the rows that were asked for."""


def attempted(problem: Problem, mapping: Mapping16, key: Keys) -> Attempt:
    """Measure mappings int16 [B, N, H]; what goes wrong is the mapping's fault. Raises Malformed."""
    try:
        return _judged(evaluated(problem, mapping, key))
    except (Malformed, InputError, RunFailure):
        raise
    except Exception as error:
        if len(mapping) == 1:
            return Attempt(failed(mapping), (_said(error),), error)
    return joined(
        [attempted(problem, mapping[row : row + 1], key[row : row + 1]) for row in range(len(mapping))]
    )


def joined(attempts: Sequence[Attempt]) -> Attempt:
    """The attempts, at least one, as one."""
    reasons = dict.fromkeys(reason for attempt in attempts for reason in attempt.reasons)
    evaluation = Evaluation.concatenate([attempt.evaluation for attempt in attempts])
    return Attempt(evaluation, tuple(reasons), attempts[0].first)


def failed(mapping: Mapping16) -> Evaluation:
    """The evaluation of mappings int16 [B, N, H] that cannot be measured."""
    nothing = np.full(len(mapping), np.nan)
    found = Evaluation.of_costs(
        nothing,
        1.0,
        np.zeros(len(mapping), np.bool_),
        mapping.copy(),
        np.zeros(len(mapping)),
        otherwise=Status.FAILED,
    )
    return replace(found, reward=nothing)


def _judged(found: Evaluation) -> Attempt:
    """Rows whose costs cannot be have failed."""
    ran = (found.status == Status.OK) & ~found.partial
    sound = np.isfinite(found.cost) & (found.cost > 0) & np.isfinite(found.speedup)
    wrong = ran & ~sound
    if not wrong.any():
        return Attempt(found)
    blank = failed(found.repaired)
    names = ("reward", "cost", "speedup", "epsilon", "status")
    columns = {name: np.where(wrong, getattr(blank, name), getattr(found, name)) for name in names}
    cost = found.cost[wrong][0]
    reason = f"expected a finite cost above 0, found {cost:g}"
    return Attempt(replace(found, **columns), (reason,))


def _said(error: Exception) -> str:
    """An exception on one line, with the place that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = visible(" ".join(f"{type(error).__name__}: {error}".split()))[:120]
    return f"{text} ({Path(frame.filename).name}, line {frame.lineno})"


class Failures:
    """Says of each reason once that mappings failed for it."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def take(self, attempt: Attempt, ticket: int) -> Evaluation:
        """The evaluation of rows from `ticket` on; raises what the very first row of a run raised."""
        if ticket == 0 and attempt.first is not None:
            raise attempt.first
        for reason in attempt.reasons:
            if reason not in self._said:
                self._said.add(reason)
                text = f"a mapping failed and counts as an evaluation, the run goes on: {reason}"
                warnings.warn(text, Notice, stacklevel=3)
        return attempt.evaluation
