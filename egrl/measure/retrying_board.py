"""A board with retries: failed requests are repeated, a dead board is restarted or given up. Used by one thread."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from egrl.core.archive import Archive
from egrl.measure.board import (
    Answer,
    Board,
    BoardDied,
    BoardFailure,
    BoardSilent,
    Profile,
    ReadProfile,
    as_rows,
    mean_profile,
    no_profile,
)
from egrl.measure.config import BASELINE_SAMPLES, EvaluatorConfig
from egrl.measure.records import Measurements, Record, digest
from hwsim.measure import Measurement, Practice, Statistic, repeat, samples_needed
from hwsim.problem import Evaluation, Status
from workloads.errors import Notice, RunFailure

BACKOFF_S = (0.0, 0.1, 0.5, 1.0, 2.0)
"""Waited before a board is started again, by how often it has failed in a row."""


class GivenUp(Exception):
    """The board no longer measures even the baseline; the message is its last failure."""


class RetryingBoard:
    """One board with its retries and restarts.

    Attributes:
        requests, failures, restarts: counted so far.
        names: which boards it was, as they said themselves.
        busy_s: seconds spent in requests.
    """

    def __init__(
        self,
        board: Board,
        baseline: Mapping[str, Any],
        config: EvaluatorConfig,
        closed: threading.Event,
        log: Callable[[str], None],
    ) -> None:
        """`baseline` is the request that a board must be able to answer; once `closed` is set nothing is retried.

        A request is the baseline's if it is the same object.
        """
        self._board, self._baseline, self._config = board, baseline, config
        self._closed, self._log = closed, log
        self._started = False
        self.requests = self.failures = self.restarts = 0
        self.busy_s = 0.0
        self.names: set[str] = set()

    def measure(
        self,
        request: Mapping[str, Any],
        timeout_s: float,
        better_than: float,
        noise: float,
        read: ReadProfile = no_profile,
    ) -> Record:
        """One mapping; again where it may be below `better_than` (s), so often that its value is sure under `noise`.

        `read` reads the profiles; the record has their mean.

        A mapping that kills or hangs the board is recorded as failed or timed out, once the board has shown by
        the baseline that it is not the board's fault. Raises GivenUp where it has not.
        """
        config, begun = self._config, time.monotonic()
        try:
            answer = self.ask(request, timeout_s)
            request_s = time.monotonic() - begun
            samples, profiles = list(answer.samples_s), [self._profile(answer, read)]
            if answer.status == Status.OK and self._promising(answer, better_than, noise):
                wanted = samples_needed(noise, config.width, config.repeats)
                while len(samples) < wanted and answer.status == Status.OK:
                    answer = self.ask(request, timeout_s, ran_before=True)
                    samples += answer.samples_s
                    profiles.append(self._profile(answer, read))
        except BoardFailure as error:
            if not self._started and not self._closed.is_set():
                self._probe()
            status = Status.TIMEOUT if isinstance(error, BoardSilent) else Status.FAILED
            return Record(status, request_s=time.monotonic() - begun, reason=str(error))
        ran = answer.status == Status.OK
        return Record(
            answer.status,
            tuple(samples) if ran else (),
            answer.epsilon,
            request_s,
            answer.reason,
            mean_profile(profiles) if ran else (),
        )

    def _profile(self, answer: Answer, read: ReadProfile) -> Profile:
        if answer.status != Status.OK:
            return ()
        return read(answer.op_seconds, Measurement(answer.samples_s, self._config.statistic).value)

    def _promising(self, answer: Answer, better_than: float, noise: float) -> bool:
        return Measurement(answer.samples_s, self._config.statistic, noise).interval[0] <= better_than

    def ask(self, request: Mapping[str, Any], timeout_s: float, ran_before: bool = False) -> Answer:
        """A request; again where it got no usable answer, `retries` times. Raises the last BoardFailure.

        What `ran_before` is asked again after a time-out or an error, too: the mapping is not to blame. Of others a
        time-out counts at once, and an error unless the board says that it is worth another try.
        A board that was just started measures the baseline first, so that slow starts are not the request's fault.
        """
        for attempt in range(self._config.retries + 1):
            last = attempt == self._config.retries or self._closed.is_set()
            if not self._started and request is not self._baseline:
                self._probe()
            try:
                answer = self._once(request, timeout_s)
            except BoardFailure as error:
                if last or self._closed.is_set() or (isinstance(error, BoardSilent) and not ran_before):
                    raise
            else:
                if last or answer.status != Status.FAILED or not (ran_before or answer.retry):
                    return answer
                self._log(f"asked again: {answer.reason}")
            self._pause(attempt)
        raise AssertionError("unreachable: retries is 0 or more")

    def _once(self, request: Mapping[str, Any], timeout_s: float) -> Answer:
        begun = time.monotonic()
        self.requests += 1
        try:
            answer = self._board.measure(request, timeout_s)
        except BoardFailure as error:
            ended = isinstance(error, BoardDied | BoardSilent)
            self._started = self._started and not ended
            if not self._closed.is_set():
                self.failures += 1
                self.restarts += ended
                self._log(str(error))
            raise
        finally:
            self.busy_s += time.monotonic() - begun
        self._started = True
        if answer.status == Status.FAILED:
            self.failures += 1
        elif answer.board:
            self._know(answer.board)
        return answer

    def _know(self, name: str) -> None:
        """Keep what the board calls itself, and say once if that is new: costs of two boards are compared then."""
        if len(self.names) == 1 and name not in self.names:
            (before,) = self.names
            text = f"--evaluator: it calls itself {name!r}, before {before!r}: boards may differ more than mappings"
            self._log(text)
            warnings.warn(text, Notice, stacklevel=2)
        self.names.add(name)

    def _probe(self) -> None:
        reason = ""
        for attempt in range(self._config.restarts):
            try:
                answer = self._once(self._baseline, self._config.timeout_s)
                if answer.status == Status.OK:
                    return
                reason = answer.reason or "it calls the mapping invalid"
            except BoardFailure as error:
                reason = str(error)
                if self._closed.is_set():
                    raise
            self._pause(attempt)
        raise GivenUp(reason)

    def _pause(self, attempt: int) -> None:
        if not self._started:
            self._closed.wait(BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)])

    def close(self) -> None:
        """End the board."""
        self._board.close()


"""The baseline is measured at least so often: its spread is the noise that everything else is judged by."""

TIMED = 3
"""Requests after which it is known how long one takes: the first starts the board."""


def baseline_record(
    board: RetryingBoard,
    request: Mapping[str, Any],
    config: EvaluatorConfig,
    read: ReadProfile,
    timed: Callable[[float], None] = lambda seconds: None,
) -> Record:
    """Measure the baseline, often enough to know its noise; `read` reads profiles, `timed` is called once, after
    `TIMED` requests, how long the quickest took.

    RunFailure where it cannot be measured.
    """
    quickest, asked = np.inf, 0
    profiles: list[Profile] = []

    def sample() -> float:
        nonlocal quickest, asked
        begun = time.monotonic()
        answer = board.ask(request, limit_s(config, quickest), ran_before=True)
        quickest, asked = min(quickest, time.monotonic() - begun), asked + 1
        if asked == TIMED:
            timed(float(quickest))
        if answer.status != Status.OK:
            raise BoardFailure(answer.reason or f"it calls the mapping invalid, epsilon {answer.epsilon:g}")
        value = Measurement(answer.samples_s, config.statistic).value
        profiles.append(read(answer.op_seconds, value))
        return value

    most = max(BASELINE_SAMPLES, config.repeats)
    practice = Practice(config.warmup, BASELINE_SAMPLES, most, config.width, config.statistic)
    try:
        found = repeat(sample, practice)
    except BoardFailure as error:
        raise RunFailure(f"--evaluator: the baseline cannot be measured: {error}") from error
    return Record(Status.OK, found.samples, request_s=float(quickest), profile=mean_profile(profiles))


def limit_s(config: EvaluatorConfig, request_s: float) -> float:
    """What a request may take, one that is as slow as any should be having taken `request_s`."""
    return min(config.timeout_s, max(config.timeout_floor_s, config.timeout_factor * request_s))


def best_before(reported: int, archive: Archive, measurements: Measurements) -> tuple[float, float]:
    """The lowest cost of the first `reported` evaluations, as far back as the window, and the seconds of its request.

    (inf, 0) where nothing ran. What else the archive holds depends on the number of boards; a run must not.
    """
    first = max(0, reported - archive.window)
    cost, status = archive.column("cost")[first:reported], archive.column("status")[first:reported]
    ran = np.where(status == Status.OK, cost, np.inf)
    if not np.isfinite(ran).any():
        return np.inf, 0.0
    at = int(np.argmin(ran))
    record = None
    if first + at >= len(archive) - archive.window:
        record = measurements.get(digest(archive.mappings(np.array([first + at]))[0]))
    return float(ran[at]), 0.0 if record is None else record.request_s


def measured_row(
    modelled: Evaluation, record: Record, baseline_cost: float, statistic: Statistic
) -> Evaluation:
    """One row of an evaluation: what the problem says of the mapping, with cost and profile as they were measured.

    The reward of what ran is (baseline cost / cost)^2, whatever the problem's own: that one is a model's.
    """
    ran, invalid = record.status == Status.OK, record.status == Status.INVALID
    cost = Measurement(record.samples_s, statistic).value if ran else np.nan
    speedup = baseline_cost / cost if ran else 0.0
    parts = as_rows([record.profile])
    if parts is not None and (modelled.parts is None or parts.shape != modelled.parts.shape):
        parts = None  # of a file that somebody changed
    reward = speedup**2 if ran else -record.epsilon if invalid else np.nan
    return replace(
        modelled,
        reward=np.array([reward]),
        cost=np.array([cost]),
        speedup=np.array([speedup]),
        epsilon=np.array([record.epsilon]) if invalid else modelled.epsilon,
        status=np.array([record.status], np.int8),
        parts=parts,
    )
