"""Measuring on this machine: in this process, or in a pool of them; the results are the same."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

import numpy as np

from egrl.core.archive import Proposals
from egrl.core.contracts import Executor
from egrl.measure.apart import Apart
from egrl.measure.attempt import Attempt, Failures, attempted
from egrl.measure.child import end_with_parent
from hwsim.problem import Evaluation, Keys, Mapping16, Problem
from workloads.errors import RunFailure

MAX_RESTARTS = 3


class InProcess:
    """Measures in the calling process, as soon as proposals are submitted."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems, self._failures = problems, Failures()
        self._done: list[tuple[Proposals, Evaluation]] = []

    def submit(self, proposals: Proposals, key: Keys) -> None:
        """Measure at once."""
        found = attempted(self._problems[proposals.problem], proposals.mapping, key)
        self._done.append((proposals, self._failures.take(found, int(proposals.tickets[0]))))

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """Everything submitted since the last call."""
        done, self._done = self._done, []
        return done

    def rest(self) -> bool:
        """Nothing waits: what was submitted is measured."""
        return True

    def close(self) -> None:
        """Nothing to close."""


_held: Sequence[Problem] = ()


@contextlib.contextmanager
def _ignore_sigint() -> Iterator[None]:
    """New processes inherit that Ctrl-C is ignored, until `_hold` says so itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _hold(problems: Sequence[Problem]) -> None:
    global _held
    end_with_parent()
    _held = problems


def _measure(problem: int, mapping: Mapping16, key: Keys) -> Attempt:
    return attempted(_held[problem], mapping, key)


class ProcessPool:
    """Measures in `workers` processes, each batch cut into as many slices.

    If a worker dies, all are replaced, and what they were measuring is measured row by row in a process apart
    (evaluation is pure): a mapping that kills that one, too, has failed. If none does, workers die for another reason:
    after `MAX_RESTARTS` times the run ends.
    """

    def __init__(self, problems: Sequence[Problem], workers: int) -> None:
        self._problems = problems
        self._workers = workers
        self._restarts, self._measured = 0, False
        self._failures = Failures()
        self._waiting: dict[Future[Attempt], tuple[Proposals, Keys]] = {}
        self._saved: list[tuple[Proposals, Evaluation]] = []
        self._apart: Apart | None = None
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(
            self._workers, context, initializer=_hold, initargs=(list(self._problems),)
        )

    def submit(self, proposals: Proposals, key: Keys) -> None:
        """Queue the slices of a batch."""
        for part in np.array_split(np.arange(len(proposals)), min(self._workers, len(proposals))):
            rows = slice(int(part[0]), int(part[-1]) + 1)
            self._queue(proposals.rows(rows), key[rows])

    def _queue(self, proposals: Proposals, key: Keys) -> None:
        try:
            future = self._submit(proposals, key)
        except BrokenProcessPool:
            self._restart()
            future = self._submit(proposals, key)
        self._waiting[future] = (proposals, key)

    def _submit(self, proposals: Proposals, key: Keys) -> Future[Attempt]:
        with _ignore_sigint():
            return self._pool.submit(_measure, proposals.problem, proposals.mapping, key)

    def _restart(self) -> None:
        """New workers, and the results of what the old ones were measuring. RunFailure where they die of themselves."""
        lost, self._waiting = list(self._waiting.values()), {}
        self._pool.shutdown(wait=False, cancel_futures=True)
        apart = self._apart = self._apart or Apart(self._problems)
        before, apart.measured = apart.deaths, apart.measured or self._measured
        for proposals, key in lost:
            found = apart.measure(proposals.problem, proposals.mapping, key, one_by_one=True)
            self._take(proposals, found)
        self._restarts += apart.deaths == before
        if self._restarts > MAX_RESTARTS:
            raise RunFailure(
                f"worker processes died {self._restarts} times; expected {self._workers} to live (out of memory? "
                "a script without `if __name__ == '__main__':`?)"
            )
        self._pool = self._start()

    def _take(self, proposals: Proposals, found: Attempt) -> None:
        self._saved.append((proposals, self._failures.take(found, int(proposals.tickets[0]))))

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """Finished slices; waits up to `timeout_s` for the first."""
        finished, _ = wait(self._waiting, 0.0 if self._saved else timeout_s, FIRST_COMPLETED)
        for future in finished:
            try:
                found = future.result()
            except BrokenProcessPool:
                self._restart()
                break
            self._measured = True
            self._take(self._waiting.pop(future)[0], found)
        saved, self._saved = self._saved, []
        return saved

    def rest(self) -> bool:
        """Every slice has begun: there are no more than workers."""
        return True

    def close(self) -> None:
        """Stop the workers; results still under way are dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._apart is not None:
            self._apart.close()


def check(kind: str, address: str) -> None:
    """That the executor can be had; InputError where not. What is slow to say no is asked before a run begins."""
    if kind == "ray":
        from egrl.measure import ray_executor

        ray_executor.check(address)


def build(problems: Sequence[Problem], workers: int, kind: str = "local", ray_address: str = "") -> Executor:
    """The executor of a kind (local, ray) for a number of workers; local: 1 measures here."""
    if kind == "ray":
        from egrl.measure import ray_executor

        return ray_executor.RayCluster(problems, workers, ray_address)
    return InProcess(problems) if workers == 1 else ProcessPool(problems, workers)
