"""Seconds that the caller of `egrl.Search` measured: as evaluations, and kept in the run folder as a board's are."""

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
from hwsim.measure import Measurement, Statistic
from hwsim.problem import Evaluation, Floats, Keys, Problem, Status
from workloads.errors import InputError

REPORTED = "told:seconds"
"""What a config holds in place of an evaluator's command if the caller reports the seconds."""


def checked(results: Sequence[float]) -> list[float]:
    """The seconds that a caller reports: above 0, or NaN if a measurement failed. ValueError if one is neither."""
    for row, given in enumerate(results):
        number = isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool)
        if not number or not (given != given or SHORTEST_LATENCY_S <= given < LONGEST_LATENCY_S):
            raise ValueError(
                f"tell: expected seconds above 0 and below {LONGEST_LATENCY_S:g}, or NaN for a failed measurement,"
                f" received {excerpt(given)} for mapping {row}"
            )
    return [float(given) for given in results]


class ReportedSeconds:
    """The seconds that a caller reports in a search, over the seconds of the baseline, which the first of them are.

    Attributes:
        baseline_cost: seconds of the baseline; NaN before they are reported.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem, self._measurements = problem, Measurements()
        self._profiles = ProfileReader(problem, EvaluatorLog())
        self.baseline_cost = np.nan

    def attach(self, folder: Path) -> None:
        """Keep what is reported in a run folder from now on. RunFailure if the disk refuses."""
        self._measurements.attach(folder)

    def read_baseline(self, folder: Path, statistic: Statistic) -> None:
        """Take the baseline's seconds from what the folder keeps. InputError if it does not have them."""
        mapping = self._problem.baseline.mapping[None]
        known = self._problem.evaluate(mapping, np.zeros(1, np.uint64)).repaired[0]
        record = self._measurements.get(digest(known))
        if record is None or record.status != Status.OK:
            raise InputError(f"{folder / FILE}: expected the seconds of the baseline, found none")
        self.baseline_cost = Measurement(record.samples_s, statistic).value

    def evaluation(
        self,
        proposals: Proposals,
        key: Keys,
        modelled: Evaluation,
        results: Sequence[float],
        op_seconds: Sequence[Any] | None = None,
    ) -> Evaluation:
        """The evaluation of B proposals from B seconds (NaN: failed); `modelled` says what ran of each.

        `op_seconds` has B profiles, each as a board gives it, None for none.

        ValueError if the first of all is not the baseline, or its measurement failed.
        """
        seconds = np.asarray(results, np.float64)
        if proposals.tickets[0] == 0:
            known = self._problem.evaluate(self._problem.baseline.mapping[None], key[:1])
            if not np.array_equal(known.repaired[0], modelled.repaired[0]):
                raise ValueError(
                    "tell: expected evaluations, since the search does not begin at the baseline"
                )
            if not (np.isfinite(seconds[0]) and seconds[0] > 0):
                raise ValueError(f"tell: expected the seconds of the baseline, received {seconds[0]}")
            self.baseline_cost = float(seconds[0])
        runs = modelled.status == Status.OK
        ran = runs & np.isfinite(seconds) & (seconds > 0)
        profiles = self._read(modelled, seconds, ran, op_seconds)
        for row in np.flatnonzero(runs).tolist():
            name = digest(modelled.repaired[row])
            if (
                proposals.tickets[row] == 0 or self._measurements.get(name) is None
            ):  # the first counts, as on boards
                ok = Record(Status.OK, (float(seconds[row]),), profile=profiles[row])
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
