"""An exploration as a whole: its points, solved in segments of neighbours, and the files that say what was found.

Each segment is solved forwards, every point from the mapping of the one before, then backwards. Its results are lines
of a file of its own, in that order, so that neither workers nor interruptions change a byte. At the end every point
tries the mappings of the points around it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import multiprocessing
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from egrl.core import atomic
from egrl.core.interrupts import StopSignal
from egrl.exploration.grid import TOLERANCE, Grid, Point, Subject, Task, Trial, solve_point, try_mappings
from egrl.measure.child import end_with_parent
from egrl.measure.records import Lines
from egrl.runs.folder import check_links
from hwsim.keys import run_keys
from hwsim.problem import Problem
from workloads.errors import InputError, RunFailure
from workloads.files import read_text
from workloads.json_text import parse_object

KIND, VERSION = "exploration-point", 1
PLAN = "plan.json"
POLL_S = 0.2
NEAREST = 64
"""Mappings of other points that a point tries."""
STOPPING = "stopping; what is being solved is given up; Ctrl-C again stops at once"
STREAM = 0x6578706C6F7265
"""The stream of the keys of solves."""


@dataclass(frozen=True)
class Explored:
    """One workload on a grid.

    Attributes:
        subject: what was explored.
        problem: on the chip itself.
        grid: its points.
        points: what is known of each.
    """

    subject: Subject
    problem: Problem
    grid: Grid
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Plan:
    """The exploration to run.

    Attributes:
        subjects, problems: the workloads, and the problems on the chip itself.
        grid: of chip files.
        seed: of all solves.
        time_limit_s: of each solve.
    """

    subjects: tuple[Subject, ...]
    problems: tuple[Problem, ...]
    grid: Grid
    seed: int
    time_limit_s: float

    def document(self) -> dict[str, Any]:
        """plan.json: all that results depend on."""
        return {
            "kind": "exploration-plan",
            "version": 1,
            "fingerprints": {p.about.workload: p.fingerprint() for p in self.problems},
            "vary": {p.path: list(p.values) for p in self.grid.parameters},
            "seed": self.seed,
            "seconds_per_point": self.time_limit_s,
        }


def file_stem(problem: Problem) -> str:
    """How names of files about a workload of an exploration begin or end."""
    return problem.about.workload.replace("/", "-")


def check_folder(folder: Path, plan: Plan) -> None:
    """Make the folder, or go on with it.

    Raises:
        InputError: it holds another exploration or a link, or cannot be made.
    """
    path = folder / PLAN
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise atomic.unwritable(f"--out {folder}", folder, error) from error
    expected = plan.document()
    if not path.exists():
        if any(folder.iterdir()):
            raise InputError(f"--out {folder}: expected a new or an empty folder, or one of `egrl explore`")
        atomic.write(path, json.dumps(expected, indent=1) + "\n")
        return
    check_links(folder)
    what = "plan of an exploration"
    found = parse_object(read_text(path, f"the {what}"), str(path), what)
    for key, value in expected.items():
        if found.get(key) != value:
            raise InputError(f"{path}: {key}: expected {value}, found {found.get(key)}; take another --out")


class Segment:
    """Points that are solved one after the other: forwards, then backwards."""

    def __init__(self, plan: Plan, number: int, points: Sequence[int], lines: Lines | None) -> None:
        """`number`: of the subject; `lines`: where the results are kept; what they have already is taken over."""
        self.plan, self.number, self.lines = plan, number, lines
        self.subject = plan.subjects[number]
        self.order = [*points, *reversed(points[:-1])]
        self.best: dict[int, Point] = {}
        self.done = 0
        if lines is not None:
            for entry in lines.found:
                self._take(self._read(entry, lines.path))

    def _read(self, entry: Mapping[str, Any], path: Path) -> Point:
        """The next point, from a line of the file. InputError if it is another, or cannot be."""
        where = f"{path}: line {self.done + 1}"
        expected = {"kind": KIND, "version": VERSION, "step": self.done}
        if (
            self.over
            or any(entry.get(key) != value for key, value in expected.items())
            or entry.get("point") != self.order[self.done]
        ):
            raise InputError(f"{where}: expected the lines of this exploration in order")
        return _point_of(entry, self.plan.problems[self.number], where)

    @property
    def over(self) -> bool:
        """True if every point was solved twice, but for the last."""
        return self.done == len(self.order)

    def task(self) -> Task:
        """The next solve."""
        point = self.order[self.done]
        near = [point] if self.done == 0 else [point, self.order[self.done - 1]]
        starts = tuple(m for k in near if k in self.best and (m := self.best[k].mapping) is not None)
        key = int(run_keys(self.plan.seed, np.array([2 * point + (point in self.best)]), STREAM)[0])
        return Task(
            self.subject, self.plan.grid.chip_file(point), starts, key % 2**31, self.plan.time_limit_s
        )

    def tell(self, found: Point) -> int:
        """Keep the result of the next solve; the point that it was of."""
        point = self.order[self.done]
        if self.lines is not None:
            self.lines.add({"step": self.done, "point": point, **_entry_of(found)})
        self._take(found)
        return point

    def _take(self, found: Point) -> None:
        point = self.order[self.done]
        before = self.best.get(point)
        if before is not None and before.mapping is not None and found.mapping is not None:
            better = found if found.cost < before.cost else before
            proved = found if found.bound > before.bound else before
            found = dataclasses.replace(
                better,
                bound=proved.bound,
                proof=proved.proof,
                complete=found.complete and before.complete,
            )
        self.best[point] = found
        self.done += 1


def _entry_of(point: Point) -> dict[str, Any]:
    entry = {k: v for k, v in dataclasses.asdict(point).items() if k != "mapping" and v == v}
    return entry | {"mapping": None if point.mapping is None else point.mapping.tolist()}


def _point_of(entry: Mapping[str, Any], problem: Problem, where: str) -> Point:
    """The point of a line. Whether its mapping has the stated cost is checked when points exchange mappings."""
    try:
        words = [entry[key] for key in ("failure", "proof") if key in entry]
        if not all(isinstance(word, str) for word in words):
            raise TypeError("words that are no text")
        if entry["failure"]:
            return Point.impossible(entry["failure"])
        mapping = np.array(entry["mapping"], np.int16)
        cost, bound, baseline = (float(entry[key]) for key in ("cost", "bound", "baseline"))
        if not 0 <= bound <= cost * (1 + TOLERANCE) or not 0 < cost < math.inf or not 0 < baseline < math.inf:
            raise ValueError(f"cost {cost}, bound {bound}, baseline {baseline}")
        if mapping.shape != problem.space.shape:
            raise ValueError(f"a mapping of shape {mapping.shape}")
        return Point(cost, bound, mapping, baseline, entry["proof"], bool(entry["complete"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{where}: expected a point's cost, at least its bound, and its mapping: {error}"
        ) from error


def explore_plan(
    plan: Plan, folder: Path | None, pool: Pool, say: Callable[[str], None]
) -> list[Explored] | None:
    """Solve what is missing. None where the user stopped it; what was solved is kept in the folder, if there is one.

    Raises:
        InputError: no point can be, or the folder is not of this exploration.
        RunFailure: the disk or a worker failed.
    """
    segments: list[Segment] = []
    with ExitStack() as stack, StopSignal(STOPPING) as stop:
        for number, problem in enumerate(plan.problems):
            for part, numbers in enumerate(plan.grid.segments()):
                lines = None
                if folder is not None:
                    atomic.make_folder(folder / "points")
                    path = folder / "points" / f"{file_stem(problem)}-{part:03d}.jsonl"
                    lines = stack.enter_context(closing(Lines(path, "solved points", KIND, VERSION)))
                segments.append(Segment(plan, number, numbers, lines))
        try:
            if not _solve(segments, pool, say, stop):
                return None
            explored = []
            for number, (subject, problem) in enumerate(zip(plan.subjects, plan.problems, strict=True)):
                best = {k: found for s in segments if s.number == number for k, found in s.best.items()}
                points = [best[k] for k in range(len(plan.grid))]
                if all(point.failure for point in points):
                    raise InputError(f"--vary: {plan.grid.text(0)}: {points[0].failure}")
                tried = exchanged(plan.grid, subject, points, pool, stop)
                if tried is None:
                    return None
                explored.append(Explored(subject, problem, plan.grid, tuple(tried)))
            return explored
        except WorkerDied:
            if not stop():  # SIGTERM to all processes of a group ends workers, too
                raise
            return None


def _solve(
    segments: Sequence[Segment], pool: Pool, say: Callable[[str], None], stop: Callable[[], bool]
) -> bool:
    """Solve all segments; False where the user stopped it."""
    under_way = 0
    for number, segment in enumerate(segments):
        if not segment.over:
            pool.submit(number, solve_point, segment.task())
            under_way += 1
    while under_way and not stop():
        for key, found in pool.ready(POLL_S):
            assert isinstance(key, int)
            segment = segments[key]
            point = segment.tell(found)
            count = _count(segments, again=segment.done > len(segment.best))
            grid, name = segment.plan.grid, segment.plan.problems[segment.number].about.workload
            what = found.failure or f"within {found.cost / found.bound - 1:.2%} of the bound"
            say(f"{count} {name}, {grid.text(point)}: {what}")
            if segment.over or stop():
                under_way -= 1
            else:
                pool.submit(key, solve_point, segment.task())
    return all(segment.over for segment in segments)


def _count(segments: Sequence[Segment], again: bool) -> str:
    """How many points were solved, or solved again, of how many: "3/10", "again 2/9"."""
    points = sum(len(set(segment.order)) for segment in segments)
    solved = sum(len(segment.best) for segment in segments)
    if not again:
        return f"{solved}/{points}"
    done = sum(segment.done for segment in segments)
    return f"again {done - solved}/{sum(len(segment.order) for segment in segments) - points}"


def exchanged(
    grid: Grid, subject: Subject, points: Sequence[Point], pool: Pool, stop: Callable[[], bool]
) -> list[Point] | None:
    """Every point with the cheapest of its own mapping and those of the points around it; None: the user stopped it."""
    after = list(points)
    for k, point in enumerate(points):
        if point.mapping is None:
            continue
        own = point.mapping.tobytes()
        others = {m.tobytes(): m for j in grid.near(k, NEAREST) if (m := points[j].mapping) is not None}
        mappings = tuple(mapping for digest, mapping in others.items() if digest != own)
        pool.submit(k, try_mappings, Trial(subject, grid.chip_file(k), mappings, point))
    left = sum(point.mapping is not None for point in points)
    while left:
        if stop():
            return None
        for number, found in pool.ready(POLL_S):
            assert isinstance(number, int)
            after[number] = found
            left -= 1
    return after


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
            from egrl.measure import ray_executor

            ray_executor.check(ray_address)
            yield Ray(stack.enter_context(ray_executor.join_cluster(ray_address, workers)))
        elif workers == 1:
            yield Here()
        else:
            context = multiprocessing.get_context("spawn")
            processes = ProcessPoolExecutor(workers, context, initializer=end_with_parent)
            stack.callback(processes.shutdown, wait=True, cancel_futures=True)
            yield Processes(processes)
