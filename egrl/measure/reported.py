"""Seconds that the caller of `egrl.Search` measured, as evaluations; the run folder keeps them like a board's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.proposals import Proposals
from egrl.measure.board import LONGEST_LATENCY_S, SHORTEST_LATENCY_S, excerpt
from egrl.measure.op_seconds import Profile, ProfileReader, as_rows
from egrl.measure.records import FILE, EvaluatorLog, Measurements, Record, digest
from hwsim.measure import Measurement, Statistic, relative_noise
from hwsim.problem import Evaluation, Floats, Keys, Problem, Status
from workloads.errors import InputError

REPORTED = "told:seconds"
"""What a config holds in place of an evaluator's command if the caller reports the seconds."""


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
        noise: relative standard deviation of its seconds; 0 where they were reported once.
    """

    def __init__(self, problem: Problem, statistic: Statistic) -> None:
        """`statistic` is what the latency is of several seconds."""
        self._problem, self._measurements, self._statistic = problem, Measurements(), statistic
        self._profiles = ProfileReader(problem, EvaluatorLog())
        self.baseline_cost, self.noise = np.nan, 0.0

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

    def _take_baseline(self, samples: Samples) -> None:
        self.baseline_cost = Measurement(samples, self._statistic).value
        self.noise = relative_noise(samples)

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
