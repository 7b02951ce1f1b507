"""Measuring on boards: an executor with processes behind a script, or a Python function, as boards.

The problem decides which mapping runs for a proposal (repaired, valid or not); a board measures how long that takes.
Each board has a thread, so that boards measure while the caller learns. No mapping is measured twice.

    mapping that may not run      the evaluation of the problem
    measured                      cost: the statistic of its latencies; reward: speedup squared
    invalid on the board          nothing ran: reward -epsilon
    error, crash, nonsense        failed, after `retries` more attempts, unless the board itself reports the failure
    no answer in time             timeout

Deviation: the reward of a measured row is (baseline cost / cost)^2 for every problem, since the reward of the problem
is that of a model.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from egrl.core.archive import Archive, Proposals
from egrl.core.mapping_file import names_of
from egrl.measure.board import Board, ProfileReader, ReadProfile, no_profile, quoted
from egrl.measure.config import PYTHON, EvaluatorConfig
from egrl.measure.records import BoardFile, EvaluatorLog, Measurements, Record, digest
from egrl.measure.retrying_board import (
    GivenUp,
    RetryingBoard,
    baseline_record,
    best_before,
    limit_s,
    measured_row,
)
from hwsim.measure import Measurement, relative_noise
from hwsim.paired import is_same
from hwsim.problem import Evaluation, Keys, Mapping16, Problem, Status
from workloads.errors import InputError, Notice, RunFailure

CLOSE_S = 5.0
NEW_BOARD = "--new-board drops its numbers and begins at its best mapping"


@dataclass
class Job:
    """One mapping to be measured, and who waits for it; see `RetryingBoard.measure`.

    Attributes:
        key: the mapping's digest.
        read: reads the profiles of the mapping.
        rows: of proposals, with what the problem says of them.
        afresh: called with the record, which is then kept nowhere else; None: an ordinary measurement.
    """

    key: str
    request: dict[str, Any]
    timeout_s: float
    better_than: float
    read: ReadProfile = no_profile
    rows: list[tuple[Proposals, Evaluation]] = field(default_factory=list)
    afresh: Callable[[Record], None] | None = None


@dataclass(frozen=True)
class Usage:
    """What the boards did: for the summary of a run."""

    boards: int
    requests: int
    failures: int
    restarts: int
    busy_s: float
    elapsed_s: float

    @property
    def busy(self) -> float:
        """Share of the time in which a board was measuring, 0..1."""
        return min(1.0, self.busy_s / max(1e-9, self.elapsed_s * self.boards))


class BoardExecutor:
    """An executor over boards. Call `measure_baseline` first.

    Attributes:
        boards: a board each; `living` are those that have not been given up.
        baseline: int16 [N, H], what runs of the problem's baseline; `baseline_cost` is what it was measured to take, s.
        baseline_request: its request.
        noise: relative standard deviation of the baseline's measurements; 0 where costs are said to be exact.
        folder: the run folder that measurements are kept in; None: they are in memory.
        command: what the evaluator is called in `BoardFile`.
        remedy: what to do if it is another board than before, for the error.
    """

    def __init__(
        self,
        problem: Problem,
        boards: Sequence[Board],
        config: EvaluatorConfig,
        measurements: Measurements,
        log: EvaluatorLog,
    ) -> None:
        self.measurements, self.config, self.log = measurements, config, log
        self.baseline_cost = np.nan
        self.noise = 0.0
        self.folder: Path | None = None
        self.command, self.remedy = "", NEW_BOARD
        self._file: BoardFile | None = None
        self._problem = problem
        baseline = problem.evaluate(problem.baseline.mapping[None], np.zeros(1, np.uint64))
        self.baseline: Mapping16 = baseline.repaired[0]
        self._profiles = ProfileReader(problem, log, quoted)
        self._read_baseline = self._profiles.beside(baseline.parts)
        self._best: Callable[[int], tuple[float, float]] = lambda reported: (np.inf, 0.0)
        self._lock = threading.Condition()
        self._closed = threading.Event()
        self._queue: deque[Job] = deque()
        self._under_way: dict[str, Job] = {}
        self._done: list[tuple[Proposals, Evaluation]] = []
        self._failure: RunFailure | None = None
        self._resting = False
        self._threads: list[threading.Thread] = []
        self._started, self._busy_before = time.monotonic(), 0.0
        self.baseline_request = self.request(self.baseline)
        self.boards = [
            RetryingBoard(board, self.baseline_request, config, self._closed, _named(log, number))
            for number, board in enumerate(boards)
        ]
        self.living = list(self.boards)

    def request(self, mapping: Mapping16) -> dict[str, Any]:
        """The request for one mapping [N, H]."""
        return {**self._problem.about.names, "mapping": names_of(self._problem, mapping)}

    # ---- before the search

    def attach(self, folder: Path) -> None:
        """Keep measurements and failures in a run folder, beginning with what it has. RunFailure as the disk says."""
        self.measurements.attach(folder)
        self.log.attach(folder)
        self.folder, self._file = folder, BoardFile(folder)
        if np.isfinite(self.baseline_cost):  # else it is not known yet whether it is this board's folder
            self._keep_names()

    @property
    def names(self) -> set[str]:
        """Which boards have answered, as they call themselves."""
        return {name for board in self.boards for name in board.names}

    def _keep_names(self) -> None:
        if self._file is not None:
            self._file.keep(self.command, self.names)

    def measure_baseline(self, timed: Callable[[float], None] = lambda seconds: None) -> None:
        """Measure the baseline on the first board; of a run that goes on, it must be what it was.

        A run that goes on keeps the first measurements of it, so that it equals a longer one.
        `timed` is called with the seconds of a request, as soon as they are known. RunFailure if the baseline cannot be
        measured: nothing could be said of any mapping without it. InputError if another board measured before.
        """
        key = digest(self.baseline)
        before = self.measurements.get(key)
        record = baseline_record(
            self.boards[0], self.baseline_request, self.config, self._read_baseline, timed
        )
        if before is not None and before.status == Status.OK:
            self._check_board(before, record)
            self._check_others(before)
            record = before
        else:
            self.measurements.put(key, record)
        self.baseline_cost = Measurement(record.samples_s, self.config.statistic).value
        self.noise = 0.0 if self.config.exact else relative_noise(record.samples_s)
        self._keep_names()

    def _check_others(self, before: Record) -> None:
        """As `_check_board`, of all boards but the first. One that does not measure is found when it is needed."""
        for board in self.boards[1:]:
            with contextlib.suppress(RunFailure):
                now = baseline_record(board, self.baseline_request, self.config, self._read_baseline)
                self._check_board(before, now)
        command = "" if self._file is None else self._file.command
        named = not command.startswith(PYTHON) and not self.command.startswith(PYTHON)
        if command and named and command != self.command:
            words = f"{self.command!r} measures the baseline as {command!r} did: taken for the same board"
            warnings.warn(Notice(f"--evaluator: {words}; if it is another, {self.remedy}"), stacklevel=4)

    def _check_board(self, before: Record, now: Record) -> None:
        """InputError where the board says that it is another one, or measures the baseline otherwise."""
        known = set() if self._file is None else self._file.names
        if known and self.names and not self.names <= known:
            found = f"{', '.join(sorted(self.names))} instead of {', '.join(sorted(known))}"
        elif not is_same(before.samples_s, now.samples_s):
            took = [Measurement(each.samples_s, self.config.statistic).value * 1e6 for each in (now, before)]
            found = f"a baseline of {took[0]:.1f} us instead of {took[1]:.1f} us"
        else:
            return
        raise InputError(
            f"--evaluator: expected the board that measured before, found {found}; {self.remedy}"
        )

    def follow(self, archive: Archive) -> None:
        """Judge what is slow, and what is worth another look, in this archive.

        See `best_before`.
        """
        self._best = lambda reported: best_before(reported, archive, self.measurements)

    # ---- the executor

    def submit(self, proposals: Proposals, key: Keys) -> None:
        """Queue the rows that have to be measured; the others are ready at once."""
        modelled = self._problem.evaluate(proposals.mapping, key)
        with self._lock:
            self._start_threads()
            for row in range(len(proposals)):
                at = slice(row, row + 1)
                self._queue_row(proposals.rows(at), modelled.rows(at))
            self._lock.notify_all()

    def _queue_row(self, row: Proposals, modelled: Evaluation) -> None:
        if modelled.status[0] != Status.OK:
            self._done.append((row, modelled))
            return
        key = digest(modelled.repaired[0])
        record = self.measurements.get(key)
        if record is not None:
            self._done.append((row, self._judged(modelled, record)))
            return
        job = self._under_way.get(key)
        if job is None:
            best, request_s = self._best(row.known)
            timeout_s = self._timeout_s(request_s)
            request, better_than = self.request(modelled.repaired[0]), min(best, self.baseline_cost)
            job = Job(key, request, timeout_s, better_than, self._profiles.beside(modelled.parts))
            self._under_way[key] = job
            self._queue.append(job)
        job.rows.append((row, modelled))

    def measure_afresh(self, mapping: Mapping16, reported: int, done: Callable[[Record], None]) -> None:
        """Measure a mapping [N, H] once more, before all that is queued; `done` is called, by a board's thread.

        `reported` evaluations were known when it was chosen; their best says what is slow. Once boards rest, `done` is
        not called.
        """
        timeout_s = self._timeout_s(self._best(reported)[1])
        with self._lock:
            self._start_threads()
            job = Job(digest(mapping), self.request(mapping), timeout_s, -np.inf, afresh=done)
            self._queue.appendleft(job)
            self._lock.notify_all()

    def usual_limit_s(self) -> float:
        """What a request may take of a mapping that is about as fast as the baseline."""
        return self._timeout_s(0.0)

    def _timeout_s(self, request_s: float) -> float:
        """What a request may take, the best known having taken `request_s` (0: the baseline's is taken)."""
        config = self.config
        if not request_s:
            baseline = self.measurements.get(digest(self.baseline))
            request_s = 0.0 if baseline is None else baseline.request_s
        if not request_s:  # seconds that a caller reported do not say how long a request takes
            return config.timeout_s
        return limit_s(config, request_s)

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """Rows measured since the last call. RunFailure where no board is left, or the disk refuses."""
        with self._lock:
            self._lock.wait_for(lambda: bool(self._done) or self._failure is not None, timeout_s)
            if self._failure is not None and not self._done:
                raise self._failure
            done, self._done = self._done, []
        return done

    def rest(self) -> bool:
        """Drop the queue, wait for what is being measured, leave the boards to the caller; what was dropped is lost."""
        with self._lock:
            self._resting = True
            self._queue.clear()
            self._lock.notify_all()
        for thread in self._threads:
            thread.join()
        return False

    def close(self) -> None:
        """End the boards; what they are measuring is given up, what they have measured is kept."""
        self._closed.set()
        with self._lock:
            self._queue.clear()
            self._lock.notify_all()
        closing = [threading.Thread(target=board.close, daemon=True) for board in self.boards]
        for thread in closing:  # each may take its time to end
            thread.start()
        for thread in (*closing, *self._threads):
            thread.join(timeout=CLOSE_S)
        with contextlib.suppress(RunFailure):
            self.measurements.close()
        with contextlib.suppress(RunFailure):
            self._keep_names()

    def usage(self) -> Usage:
        """Since the search began; requests, failures and restarts since the boards were started."""
        count = {
            name: sum(getattr(k, name) for k in self.boards) for name in ("requests", "failures", "restarts")
        }
        busy_s = sum(board.busy_s for board in self.boards) - self._busy_before
        return Usage(len(self.boards), **count, busy_s=busy_s, elapsed_s=time.monotonic() - self._started)

    def _judged(self, modelled: Evaluation, record: Record) -> Evaluation:
        return measured_row(modelled, record, self.baseline_cost, self.config.statistic)

    # ---- the threads

    def _start_threads(self) -> None:
        if self._threads:
            return
        self._started = time.monotonic()
        self._busy_before = sum(board.busy_s for board in self.boards)
        for number, board in enumerate(self.boards):
            thread = threading.Thread(target=self._serve, args=(board,), name=f"board {number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    @property
    def over(self) -> bool:
        """Whether nothing more will be measured."""
        return self._resting or self._closed.is_set() or self._failure is not None

    def _serve(self, board: RetryingBoard) -> None:
        """Measure what is queued until closed; the job of a board that is given up goes to another."""
        while True:
            with self._lock:
                self._lock.wait_for(lambda: bool(self._queue) or self.over)
                if self.over:
                    return
                job = self._queue.popleft()
            try:
                record = board.measure(job.request, job.timeout_s, job.better_than, self.noise, job.read)
                self._finish(job, record)
            except GivenUp as error:
                self._give_up(board, job, str(error))
                return
            except RunFailure as error:
                self._fail(error)
                return
            except BaseException as error:  # a thread must not take its rows with it
                text = f"{type(error).__name__}: {error}".removesuffix(": ")
                self._fail(RunFailure(f"measuring failed: {text}; --resume goes on"))
                return

    def _give_up(self, board: RetryingBoard, job: Job, reason: str) -> None:
        self.log(f"a board is no longer used: {reason}")
        with self._lock:
            self.living.remove(board)
            self._queue.appendleft(job)
            self._lock.notify_all()
        if not self.living:
            tries = self.config.restarts
            self._fail(
                RunFailure(
                    f"--evaluator: it no longer measures the baseline, tried {tries} times: {reason}; what was"
                    " measured is kept, and --resume goes on"
                )
            )

    def _fail(self, failure: RunFailure) -> None:
        with self._lock:
            self._failure = self._failure or failure
            self._lock.notify_all()

    def _finish(self, job: Job, record: Record) -> None:
        """Keep the record and give its rows back; what failed because the run is over says nothing of the mapping."""
        if self._closed.is_set() and record.status != Status.OK:
            return
        if job.afresh is not None:
            job.afresh(record)
            return
        self.measurements.put(job.key, record)
        if record.status in (Status.FAILED, Status.TIMEOUT):
            self.log(f"mapping {job.key[:12]}: {record.status.name.lower()}: {record.reason}")
        with self._lock:
            del self._under_way[job.key]
            self._done += [(row, self._judged(modelled, record)) for row, modelled in job.rows]
            self._lock.notify_all()


def _named(log: Callable[[str], None], number: int) -> Callable[[str], None]:
    return lambda text: log(f"board {number}: {text}")
