"""`egrl explore` as a function: a grid of chip files in, the best costs, their bounds and the mappings out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core import atomic
from egrl.exploration import summary
from egrl.exploration.grid import POINTS, SECONDS, Subject, read_grid
from egrl.exploration.run import Explored, Plan, check_folder, explore_plan, file_stem, open_pool
from egrl.figures.explore import DOCUMENT, figure_of
from egrl.problems import find_problem
from egrl.runs.folder import locked
from hwsim.capabilities import HasFiles, HasModel
from hwsim.problem import Problem
from workloads.errors import InputError
from workloads.text import one_of

TABLE, FIGURE = "explore.csv", "explore.png"
EXECUTORS = ("local", "ray")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Exploration:
    """The results of W workloads on a grid of P points, or P0 x P1.

    Attributes:
        workloads: W names.
        paths: of the values that vary in the chip file.
        values: one float64 [P] per path.
        cost, bound: float64 [W, P] or [W, P0, P1]: of the best mapping found, and of all mappings; in the problem's
            unit, mostly seconds. NaN where the chip cannot be.
        baseline: float64 of the same shape, cost of the baseline.
        mappings: per workload, per point int16 [N, H], or None where the chip cannot be.
        document: explore.json.
    """

    workloads: tuple[str, ...]
    paths: tuple[str, ...]
    values: tuple[Floats, ...]
    cost: Floats
    bound: Floats
    baseline: Floats
    mappings: tuple[tuple[NDArray[np.int16] | None, ...], ...]
    document: dict[str, Any]

    @property
    def gap(self) -> Floats:
        """Float64 of the shape of `cost`: cost / bound - 1; infinite where nothing is proved."""
        with np.errstate(divide="ignore"):
            gap: Floats = self.cost / self.bound - 1.0
        return gap

    @property
    def words(self) -> dict[str, list[str]]:
        """What more of each parameter is worth, in sentences, by workload."""
        return {each["workload"]: each["words"] for each in self.document["workloads"]}


def explore(
    workload: str | Sequence[str],
    *,
    vary: str | Sequence[str],
    chip: str = "",
    problem: str = "nnpi",
    points: int = POINTS,
    out: str | Path | None = None,
    seconds_per_point: float = SECONDS,
    seed: int = 0,
    settings: Sequence[str] = (),
    workers: int = 1,
    executor: str = "local",
    ray_address: str = "",
    say: Callable[[str], None] = lambda line: None,
) -> Exploration:
    """The best cost and its proven bound over a grid of chip files: `egrl explore` as a function.

    Args:
        workload: names of `egrl list workloads` or workload files.
        vary: one or two of what `--vary` takes, e.g. "memories.sram.capacity_bytes=1MiB..8MiB".
        chip: a name of `egrl list chips`, or a chip file (.toml); default "": the problem's first.
        problem: a problem with a model that can be solved, and chips that are TOML files.
        points: values of each range that does not say how many.
        out: the folder to write, or to go on with; default: none, nothing is written.
        seconds_per_point, seed: time limit and seed of each solve.
        settings: what `--set` takes, e.g. ["problem.invalid=penalise"].
        workers: points solved at once, in a process each.
        executor, ray_address: as `egrl run` has them.
        say: called with a line per solve.

    Raises:
        InputError: an argument or a file is wrong, or no point can be.
        RunFailure: the disk or a worker failed.
        KeyboardInterrupt: the user stopped it; what was solved is in the folder.

    Example:
        >>> import egrl
        >>> egrl.explore("alexnet", vary="memories.sram.capacity_bytes=2MiB..4MiB", points=2).cost.shape
        (1, 2)
    """
    if executor not in EXECUTORS:
        raise InputError(f"--executor: {one_of(executor, EXECUTORS)}")
    names = [workload] if isinstance(workload, str) else list(workload)
    subjects = [Subject(name, problem, tuple(settings)) for name in names]
    texts = [vary] if isinstance(vary, str) else list(vary)
    plan = _plan(subjects, chip, texts, points, seed, seconds_per_point)
    folder = None if out is None else Path(out)
    with ExitStack() as stack:
        if folder is not None:
            check_folder(folder, plan)
            stack.callback(locked(folder).release)
        pool = stack.enter_context(open_pool(workers, executor, ray_address))
        found = explore_plan(plan, folder, pool, say)
        if found is None:
            raise KeyboardInterrupt
        made = summary.document(found, seed, plan.time_limit_s)
        if folder is not None:
            _write(folder, made, found)
    return _result(found, made)


def _plan(
    subjects: Sequence[Subject], chip: str, vary: Sequence[str], points: int, seed: int, time_limit_s: float
) -> Plan:
    """The problems to explore. InputError if an argument or a file is wrong."""
    if not time_limit_s > 0:
        raise InputError(f"--seconds-per-point: expected a number above 0, found {time_limit_s:g}")
    problems = [subject.on(chip) for subject in subjects]
    names = [each.about.workload for each in problems]
    if not names or len(set(names)) < len(names):
        raise InputError(f"--workload: expected workloads of different names, found {', '.join(names)}")
    grid = read_grid(vary, _chip_text(problems[0], subjects[0].problem), points)
    return Plan(tuple(subjects), tuple(problems), grid, seed, float(time_limit_s))


def _chip_text(problem: Problem, name: str) -> str:
    """The chip file of a problem. InputError where it has none, or no model that can be solved."""
    file = find_problem(name).chip_file
    text = problem.files().get(file) if isinstance(problem, HasFiles) and file.endswith(".toml") else None
    if not isinstance(problem, HasModel) or not isinstance(text, str):
        raise InputError(
            f"--problem {name}: expected one with a chip file (.toml) and a model that can be solved; it has"
            f" {'no chip file' if isinstance(problem, HasModel) else 'no such model'}"
        )
    return text


def _result(found: Sequence[Explored], made: dict[str, Any]) -> Exploration:
    grid = found[0].grid
    cost, bound, baseline = (
        np.array([[getattr(point, name) for point in each.points] for each in found], np.float64).reshape(
            len(found), *grid.shape
        )
        for name in ("cost", "bound", "baseline")
    )
    return Exploration(
        tuple(each.problem.about.workload for each in found),
        tuple(parameter.path for parameter in grid.parameters),
        tuple(np.array(parameter.values, np.float64) for parameter in grid.parameters),
        cost,
        bound,
        baseline,
        tuple(tuple(point.mapping for point in each.points) for each in found),
        made,
    )


def _write(folder: Path, made: dict[str, Any], found: Sequence[Explored]) -> None:
    from analysis import style

    atomic.write(folder / DOCUMENT, json.dumps(made, indent=1, allow_nan=False) + "\n")
    atomic.write(folder / TABLE, summary.csv_text(made))
    for each in found:
        best = [
            {"values": each.grid.values(k), "mapping": None if p.mapping is None else p.mapping.tolist()}
            for k, p in enumerate(each.points)
        ]
        head = {"kind": "exploration-mappings", "version": 1, "workload": each.problem.about.workload}
        atomic.write(
            folder / f"mappings-{file_stem(each.problem)}.json", json.dumps({**head, "points": best}) + "\n"
        )
    try:
        style.save(figure_of(made), folder / FIGURE)
    except OSError as error:
        raise atomic.disk_failure(folder / FIGURE, error) from error
