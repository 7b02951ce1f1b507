"""A board with retries: failed requests are repeated, a dead board is restarted or given up. Used by one thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from egrl.measure.board import Answer, Board, BoardDied, BoardFailure, BoardSilent
from egrl.measure.config import EvaluatorConfig
from egrl.measure.op_seconds import Profile, ReadProfile, mean_profile, no_profile
from egrl.measure.records import Record
from hwsim.measure import Measurement, samples_needed
from hwsim.problem import Status

BACKOFF_S = (0.0, 0.1, 0.5, 1.0, 2.0)
"""Waited before a board is started again, by how often it has failed in a row."""


class GivenUp(Exception):
    """The board no longer measures even the baseline; the message is its last failure."""


class RetryingBoard:
    """One board with its retries and restarts.

    Attributes:
        requests, failures, restarts: counted so far.
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
                    answer = self.ask(request, timeout_s)
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

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> Answer:
        """A request; again where it got no usable answer, `retries` times. Raises the last BoardFailure.

        A board that was just started measures the baseline first, so that slow starts are not the request's fault.
        """
        for attempt in range(self._config.retries + 1):
            if not self._started and request is not self._baseline:
                self._probe()
            try:
                return self._once(request, timeout_s)
            except BoardSilent:
                raise
            except BoardFailure:
                if attempt == self._config.retries or self._closed.is_set():
                    raise
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
        return answer

    def _probe(self) -> None:
        reason = ""
        for attempt in range(self._config.restarts):
            try:
                self._once(self._baseline, self._config.timeout_s)
                return
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
