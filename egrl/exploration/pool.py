"""Where points are solved: in this process, in several, or as tasks of Ray. Results are the same."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from egrl.core.failure import RunFailure
from egrl.measure.local import end_with_parent

Work = Callable[[Any], Any]


class WorkerDied(RunFailure):
    """A worker process ended that nobody asked to."""


class Pool(Protocol):
    """Does work; each piece has a key, by which its result is known."""

    def submit(self, key: Hashable, work: Work, task: Any) -> None: ...
    def ready(self, timeout_s: float) -> list[tuple[Hashable, Any]]:
        """The results since the last call; waits up to `timeout_s` for the first."""


class Here:
    """Does the oldest piece of work when it is asked for results."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Hashable, Work, Any]] = []

    def submit(self, key: Hashable, work: Work, task: Any) -> None:
        """Queue a piece of work."""
        self._waiting.append((key, work, task))

    def ready(self, timeout_s: float) -> list[tuple[Hashable, Any]]:
        """One result."""
        if not self._waiting:
            return []
        key, work, task = self._waiting.pop(0)
        return [(key, work(task))]


class Processes:
    """Does as many pieces at once as there are processes."""

    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self._executor, self._waiting = executor, dict[Future[Any], Hashable]()

    def submit(self, key: Hashable, work: Work, task: Any) -> None:
        """Queue a piece of work. WorkerDied where a process died."""
        with _deaths():
            self._waiting[self._executor.submit(work, task)] = key

    def ready(self, timeout_s: float) -> list[tuple[Hashable, Any]]:
        """Results. WorkerDied where a process died."""
        done, _ = wait(self._waiting, timeout_s, FIRST_COMPLETED)
        with _deaths():
            return [(self._waiting.pop(future), future.result()) for future in done]


@contextmanager
def _deaths() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise WorkerDied("a worker process died (out of memory?); the same command goes on") from error


class Ray:
    """Does the work as tasks of Ray."""

    def __init__(self, ray: Any) -> None:
        self._ray, self._waiting = ray, dict[Any, Hashable]()
        self._run = ray.remote(num_cpus=1, max_retries=3)(_run)

    def submit(self, key: Hashable, work: Work, task: Any) -> None:
        """Queue a piece of work."""
        self._waiting[self._run.remote(work, task)] = key

    def ready(self, timeout_s: float) -> list[tuple[Hashable, Any]]:
        """Results. RunFailure where Ray gave one up."""
        if not self._waiting:
            return []
        done, _ = self._ray.wait(list(self._waiting), num_returns=1, timeout=timeout_s)
        try:
            return [(self._waiting.pop(reference), self._ray.get(reference)) for reference in done]
        except self._ray.exceptions.RayError as error:
            raise RunFailure(f"Ray gave up a point: {str(error).strip().splitlines()[-1]}") from error


def _run(work: Work, task: Any) -> Any:
    return work(task)


@contextmanager
def open_pool(workers: int, executor: str = "local", ray_address: str = "") -> Iterator[Pool]:
    """The pool of an executor (local, ray); one local worker is this process."""
    with ExitStack() as stack:
        if executor == "ray":
            from egrl.measure.ray import connection

            connection.check(ray_address)
            yield Ray(stack.enter_context(connection.join_cluster(ray_address, workers)))
        elif workers == 1:
            yield Here()
        else:
            context = multiprocessing.get_context("spawn")
            processes = ProcessPoolExecutor(workers, context, initializer=end_with_parent)
            stack.callback(processes.shutdown, wait=True, cancel_futures=True)
            yield Processes(processes)
