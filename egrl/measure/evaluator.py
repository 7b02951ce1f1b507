"""Builds the executor for `--evaluator "CMD"`, a Python function, or a caller who reports seconds; a board per worker.

A function is called with the rows of best_mapping.json, [{"node": …, head: choice, …}, …], and returns seconds, a
list of seconds, or an answer as a board gives it ({"invalid": true, "epsilon": 0.2}); an exception counts as a crash.
With several workers it is called from as many threads. It cannot be interrupted: time-outs are for commands.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import Proposals
from egrl.measure.board import (
    LONGEST_LATENCY_S,
    SHORTEST_LATENCY_S,
    Answer,
    Board,
    BoardFailure,
    Profile,
    ProfileReader,
    answer_of,
    as_rows,
    excerpt,
)
from egrl.measure.board_executor import BoardExecutor
from egrl.measure.board_process import BoardProcess
from egrl.measure.config import PYTHON, REPORTED, EvaluatorConfig, Function
from egrl.measure.records import FILE, EvaluatorLog, Measurements, Record, digest
from hwsim.measure import Measurement, Statistic, relative_noise
from hwsim.problem import Evaluation, Floats, Keys, Problem, Status
from workloads.errors import InputError


class FunctionBoard:
    """A Python function as a board."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def measure(self, request: Mapping[str, Any], timeout_s: float) -> Answer:
        """Call the function with rows of its own; an exception is a failure as a command's, and tried again."""
        try:
            found = self._function([dict(row) for row in request["mapping"]])
            if isinstance(found, np.ndarray | np.generic):
                found = found.tolist()
            return answer_of(found if isinstance(found, Mapping) else {"latency_s": found}, excerpt)
        except BoardFailure:
            raise
        except Exception as error:
            raise BoardFailure(excerpt(f"{type(error).__name__}: {error}")) from error

    def close(self) -> None:
        """Nothing to end."""


def boards_of(name: str, function: Function | None, workers: int, config: EvaluatorConfig) -> list[Board]:
    """`workers` boards.

    InputError where the command is none or names no program, or the function of a run is not at hand.
    """
    if function is not None:
        return [FunctionBoard(function) for _ in range(workers)]
    if name == REPORTED:
        raise InputError(
            "--evaluator: the seconds of this run were reported by its caller: expected egrl.Search(resume=…), or"
            ' --evaluator "CMD" with a command that measures the same, found neither'
        )
    if name.startswith(PYTHON):
        raise InputError(
            f"--evaluator {name}: this run is measured by a Python function: expected egrl.search(resume=…,"
            " evaluator=that function)"
        )
    try:
        command = shlex.split(name)
    except ValueError as error:
        raise InputError(f"--evaluator {name!r}: expected a command: {error}") from error
    if not command:
        raise InputError(f"--evaluator {name!r}: expected a command, found none")
    if shutil.which(command[0]) is None:
        there = "a file that cannot be run" if os.path.exists(command[0]) else "no such program"
        raise InputError(
            f"--evaluator {name!r}: expected a command that can be started, found {there}: {command[0]}"
        )
    return [BoardProcess(command, config.start_timeout_s) for _ in range(workers)]


def board_executor(
    problem: Problem, evaluator: str, workers: int, config: EvaluatorConfig, function: Function | None
) -> BoardExecutor:
    """The executor of `--evaluator`, a board a worker; nothing is started yet. Raises InputError as `boards_of`."""
    made = boards_of(evaluator, function, workers, config)
    boards = BoardExecutor(problem, made, config, Measurements(), EvaluatorLog())
    boards.command = evaluator
    return boards


Samples = tuple[float, ...]
"""Seconds of one mapping, measured once or several times; (NaN,) if the measurement failed."""


def checked(results: Sequence[Any], what: str = "tell") -> list[Samples]:
    """The seconds that a caller reports: a number above 0, NaN if a measurement failed, or several numbers above 0.

    ValueError, which begins with `what`, if a row is none of these.
    """
    return [_samples(given, row, what) for row, given in enumerate(results)]


def _samples(given: Any, row: int, what: str) -> Samples:
    several = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim == 1)
    numbers = list(given) if several else [given]
    if not numbers:
        raise ValueError(f"{what}: expected seconds, received none for mapping {row}")
    for number in numbers:
        real = isinstance(number, int | float | np.integer | np.floating)
        real = real and not isinstance(number, bool | np.timedelta64)
        failed = real and number != number and not several
        if not real or not (failed or SHORTEST_LATENCY_S <= number < LONGEST_LATENCY_S):
            raise ValueError(
                f"{what}: expected seconds above 0 and below {LONGEST_LATENCY_S:g}, or NaN for a failed measurement,"
                f" received {excerpt(number)} for mapping {row}"
            )
    return tuple(map(float, numbers))


class ReportedSeconds:
    """The seconds that a caller reports in a search, over the seconds of the baseline, which the first of them are.

    Attributes:
        baseline_cost: seconds of the baseline; NaN before they are reported.
        baseline_s: all that were reported for it.
        noise: relative standard deviation of these; 0 where they were reported once.
    """

    def __init__(self, problem: Problem, statistic: Statistic) -> None:
        """`statistic` is what the latency is of several seconds."""
        self._problem, self._measurements, self._statistic = problem, Measurements(), statistic
        self._profiles = ProfileReader(problem, EvaluatorLog())
        self.baseline_cost, self.noise = np.nan, 0.0
        self.baseline_s: Samples = ()

    def attach(self, folder: Path) -> None:
        """Keep what is reported in a run folder from now on. RunFailure if the disk refuses."""
        self._measurements.attach(folder)

    def read_baseline(self, folder: Path) -> None:
        """Take the baseline's seconds from what the folder keeps. InputError if it does not have them."""
        mapping = self._problem.baseline.mapping[None]
        known = self._problem.evaluate(mapping, np.zeros(1, np.uint64)).repaired[0]
        record = self._measurements.get(digest(known))
        if record is None or record.status != Status.OK:
            raise InputError(f"{folder / FILE}: expected the seconds of the baseline, found none")
        self._take_baseline(record.samples_s)

    def value_of(self, samples: Samples) -> float:
        """The latency that seconds of one mapping stand for; NaN where its measurement failed."""
        return float(Measurement(samples, self._statistic).value)

    def _take_baseline(self, samples: Samples) -> None:
        self.baseline_cost = Measurement(samples, self._statistic).value
        self.baseline_s, self.noise = samples, relative_noise(samples)

    def evaluation(
        self,
        proposals: Proposals,
        key: Keys,
        modelled: Evaluation,
        results: Sequence[Samples],
        op_seconds: Sequence[Any] | None = None,
    ) -> Evaluation:
        """The evaluation of B proposals from the seconds of each; `modelled` says what ran of each.

        `op_seconds` has B profiles, each as a board gives it, None for none.

        ValueError if the first of all is not the baseline, or its measurement failed.
        """
        seconds = np.array([Measurement(samples, self._statistic).value for samples in results])
        if proposals.tickets[0] == 0:
            known = self._problem.evaluate(self._problem.baseline.mapping[None], key[:1])
            if not np.array_equal(known.repaired[0], modelled.repaired[0]):
                raise ValueError(
                    "tell: expected evaluations, since the search does not begin at the baseline (--start compiler or"
                    " rules)"
                )
            if not (np.isfinite(seconds[0]) and seconds[0] > 0):
                raise ValueError(f"tell: expected the seconds of the baseline, received {seconds[0]}")
            self._take_baseline(results[0])
        runs = modelled.status == Status.OK
        ran = runs & np.isfinite(seconds) & (seconds > 0)
        profiles = self._read(modelled, seconds, ran, op_seconds)
        for row in np.flatnonzero(runs).tolist():
            name = digest(modelled.repaired[row])
            if (
                proposals.tickets[row] == 0 or self._measurements.get(name) is None
            ):  # the first counts, as on boards
                ok = Record(Status.OK, results[row], profile=profiles[row])
                self._measurements.put(name, ok if ran[row] else Record(Status.FAILED))
        measured = Evaluation.of_costs(
            seconds,
            self.baseline_cost,
            ran,
            modelled.repaired,
            modelled.epsilon,
            otherwise=Status.FAILED,
            parts=as_rows(profiles),
        )
        status = np.where(runs, measured.status, modelled.status).astype(np.int8)
        reward = np.where(ran, measured.reward, np.where(runs, np.nan, modelled.reward))
        return replace(measured, status=status, reward=reward, partial=modelled.partial)

    def _read(
        self, modelled: Evaluation, seconds: Floats, ran: NDArray[np.bool_], given: Sequence[Any] | None
    ) -> list[Profile]:
        """The profiles of B rows, () for those that did not run."""
        if given is None:
            return [()] * len(seconds)
        found: list[Profile] = []
        for row, profile in enumerate(given):
            model = modelled.rows(slice(row, row + 1)).parts
            read = self._profiles.beside(model)
            found.append(read(profile, float(seconds[row])) if ran[row] else ())
        return found

    def close(self) -> None:
        """Make what was reported durable. RunFailure if the disk refuses."""
        self._measurements.close()
