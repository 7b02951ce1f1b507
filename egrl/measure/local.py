"""Measuring on this machine: in this process, or in a pool of them; the results are the same."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

import numpy as np

from egrl.core.archive import Proposals
from egrl.core.contracts import Executor
from egrl.core.interrupts import leave_to_parent
from hwsim.problem import Evaluation, Keys, Mapping16, Problem, Status
from workloads.errors import RunFailure

MAX_RESTARTS = 3


def evaluated(problem: Problem, mapping: Mapping16, key: Keys) -> Evaluation:
    """What a problem says of mappings int16 [B, N, H], which may be a plug-in's: it gets a copy, and is not believed.

    ValueError, which names the problem, if the evaluation is not of these rows, or a cost is no number where it ran.
    """
    found = problem.evaluate(mapping.copy(), key)
    name = problem.about.name
    if len(found) != len(mapping) or found.repaired.shape != mapping.shape:
        shape = found.repaired.shape
        raise ValueError(
            f"{name}: evaluate: expected {len(mapping)} rows, mappings {mapping.shape}, found {shape}"
        )
    ran = (found.status == Status.OK) & ~found.partial
    if not np.isfinite(found.cost[ran]).all() or not np.isfinite(found.speedup[ran]).all():
        raise ValueError(
            f"{name}: evaluate: expected finite costs and speedups where a mapping ran, found others"
        )
    return found


class InProcess:
    """Measures in the calling process, as soon as proposals are submitted."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems
        self._done: list[tuple[Proposals, Evaluation]] = []

    def submit(self, proposals: Proposals, key: Keys) -> None:
        """Measure at once."""
        evaluation = evaluated(self._problems[proposals.problem], proposals.mapping, key)
        self._done.append((proposals, evaluation))

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """Everything submitted since the last call."""
        done, self._done = self._done, []
        return done

    def rest(self) -> bool:
        """Nothing waits: what was submitted is measured."""
        return True

    def close(self) -> None:
        """Nothing to close."""


PR_SET_PDEATHSIG = 1
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


def end_with_parent() -> None:
    """Leave Ctrl-C to the parent process, and end when it has ended."""
    leave_to_parent()
    if sys.platform == "linux":  # a parent killed by SIGKILL cannot stop its workers
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _hold(problems: Sequence[Problem]) -> None:
    global _held
    end_with_parent()
    _held = problems


def _measure(problem: int, mapping: Mapping16, key: Keys) -> Evaluation:
    return evaluated(_held[problem], mapping, key)


class ProcessPool:
    """Measures in `workers` processes, each batch cut into as many slices.

    A worker that dies is replaced and its slices measured again (evaluation is pure), `MAX_RESTARTS` times.
    """

    def __init__(self, problems: Sequence[Problem], workers: int) -> None:
        self._problems = problems
        self._workers = workers
        self._restarts = 0
        self._waiting: dict[Future[Evaluation], tuple[Proposals, Keys]] = {}
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

    def _submit(self, proposals: Proposals, key: Keys) -> Future[Evaluation]:
        with _ignore_sigint():
            return self._pool.submit(_measure, proposals.problem, proposals.mapping, key)

    def _restart(self) -> None:
        self._restarts += 1
        if self._restarts > MAX_RESTARTS:
            raise RunFailure(
                f"worker processes died {self._restarts} times; expected {self._workers} to live (out of memory? "
                "a script without `if __name__ == '__main__':`?)"
            )
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._start()
        lost, self._waiting = list(self._waiting.values()), {}
        for proposals, key in lost:
            self._queue(proposals, key)

    def ready(self, timeout_s: float) -> list[tuple[Proposals, Evaluation]]:
        """Finished slices; waits up to `timeout_s` for the first."""
        finished, _ = wait(self._waiting, timeout_s, FIRST_COMPLETED)
        results: list[tuple[Proposals, Evaluation]] = []
        for future in finished:
            try:
                evaluation = future.result()
            except BrokenProcessPool:
                self._restart()
                break
            results.append((self._waiting.pop(future)[0], evaluation))
        return results

    def rest(self) -> bool:
        """Every slice has begun: there are no more than workers."""
        return True

    def close(self) -> None:
        """Stop the workers; results still under way are dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)


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
