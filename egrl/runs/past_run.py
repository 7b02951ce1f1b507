"""Reading a run folder: its options, its problem, and its results."""

from __future__ import annotations

import csv
import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core import mapping_file, typed_tables
from egrl.core.contracts import CONFIRMED
from egrl.core.mapping_file import names_of
from egrl.measure.apart import sheltered
from egrl.problems import KIND, build_problem, find_problem, with_baseline_of
from egrl.runs import chunks, config
from egrl.runs import folder as run_folder
from egrl.runs.agreement import SAME
from egrl.runs.config import RunOptions
from egrl.runs.folder import METRICS, SUMMARY
from egrl.runs.summary import read_summary
from egrl.runs.text import (
    TABLE,
    about_of,
    baseline_table,
    baseline_text,
    compared,
    confirmed,
    cost_text,
    counted,
    distance,
    percent_up,
    start_word,
    sureness,
    table_of,
)
from hwsim.problem import Mapping16, Problem, Profiles
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import describe
from workloads.plugins import check_given

SCALED = "speedups_scaled"
"""Key of a summary whose speedups are over another baseline than the run's: what those of its files are times."""
MADE_OVER = "made_over"
"""Key of such a summary: what the run's own baseline is called."""


def with_own_inputs(options: RunOptions, folder: Path) -> RunOptions:
    """A run's options with the copies in its folder instead of the names and files that the user gave.

    A problem that keeps no copies has the names again.
    """
    entry = find_problem(options.problem)
    kept = options.start in run_folder.KEPT_STARTS
    return replace(
        options,
        workload=str(folder / entry.workload_file) if entry.workload_file else options.workload,
        chip=str(folder / entry.chip_file) if entry.chip_file else options.chip,
        start=options.start if kept else str(folder / run_folder.START_FILE),
        init=str(folder / run_folder.INIT_FILE) if options.init else "",
        baseline=str(folder / run_folder.BASELINE_FILE) if options.baseline else "",
    )


def problem_in(folder: Path, options: RunOptions, settings: Mapping[str, Any], given: str = "") -> Problem:
    """The problem of the run in a folder, from the folder's own inputs.

    InputError where they are missing or damaged, or the problem is code in a file that was not `given`.
    """
    where = str(folder / run_folder.CONFIG)
    check_given(where, (KIND, options.problem, given))
    definition = find_problem(options.problem).load()
    own = with_own_inputs(options, folder)
    built: Any = typed_tables.build(definition.config, settings, f"{where}: problem")
    return build_problem(options.problem, own.workload, own.chip, built, own.baseline)


@dataclass(frozen=True)
class Evaluations:
    """M evaluations as the run folder keeps them, by ticket.

    Attributes:
        ticket: int64 [M].
        mapping: int16 [M, N, H], what ran (or was judged).
        speedup, cost: float64 [M]; 0 and NaN where nothing ran.
        reward: float64 [M].
        source: str [M], who proposed each.
        parts: float32 [M, P], the profiles, NaN where unknown; P is 0 if no evaluation has one.
    """

    ticket: NDArray[np.int64]
    mapping: Mapping16
    speedup: NDArray[np.float64]
    cost: NDArray[np.float64]
    reward: NDArray[np.float64]
    source: NDArray[np.str_]
    parts: Profiles


@dataclass(frozen=True)
class PastRun:
    """A run folder with a summary, finished or interrupted.

    Attributes:
        path: the folder.
        summary: its summary.json.
        options: its flags as they were given.
        settings: its tables `problem` and `method`.
        given: the problem that the user named, too ("": none); without it no code in a file is imported.
    """

    path: Path
    summary: Mapping[str, Any]
    options: RunOptions
    settings: Mapping[str, Mapping[str, Any]]
    given: str = ""

    @staticmethod
    def read(path: Path, problem: str = "") -> PastRun:
        """A run folder, of which the user may have named the `problem`.

        InputError where summary or config are missing or damaged, or it is of another problem.
        """
        if not path.is_dir():
            found = "a file" if path.exists() else "no such folder"
            raise InputError(f"{path}: expected a run folder, found {found}")
        if (path / run_folder.PRETRAINING).is_file():
            raise InputError(f"{path}: expected a run folder, found a pre-training")
        if (path / run_folder.EXPLORATION).is_file():
            raise InputError(
                f"{path}: expected a run folder, found an exploration; `egrl report {path}` shows it"
            )
        summary = read_summary(path)
        tables, options = config.read_folder(path)
        if problem not in ("", options.problem):
            where = path / run_folder.CONFIG
            raise InputError(
                f"--problem: expected {options.problem!r} as in {where}, or none, found {problem!r}"
            )
        settings = {name: tables[name] for name in ("problem", "method")}
        return PastRun(path, summary, options, settings, problem)

    @cached_property
    def problem(self) -> Problem:
        """The problem, from the folder's own inputs.

        InputError where they are damaged, it is another by now, or it is code in a file that was not `given`.
        """
        problem = problem_in(self.path, self.options, self.settings["problem"], self.given)
        if problem.fingerprint() != self.summary["fingerprint"]:
            raise InputError(
                f"{self.path}: this run was made by another simulator, chip or workload: expected fingerprint"
                f" {problem.fingerprint()[:12]}, found {self.summary['fingerprint'][:12]}"
            )
        # As in the run: of the user's own code a mapping may end the process.
        return sheltered(problem) if KIND.refers(self.options.problem) else problem

    @property
    def baseline_name(self) -> str:
        """The name of the run's own baseline, also if its speedups are relative to another one now."""
        return str(self.summary.get(MADE_OVER, about_of(self.summary).baseline_name))

    @property
    def start(self) -> str:
        """The start of the search, in words."""
        return start_word(self.baseline_name, str(self.summary["start"]))

    def over(self, baseline: str) -> PastRun:
        """The run with speedups over the mapping in the file `baseline`; as it is where that is "".

        So is the reward of the best; those of the evaluations stay as they were recorded. Options and `baseline_name`
        stay those that the run was made with.
        InputError where the file does not fit the problem, or costs were measured: the file's was not.
        """
        if not baseline:
            return self
        if about_of(self.summary).measured or self.options.evaluator:
            raise InputError(
                f"--baseline {baseline}: expected a run whose costs a model gave, found {self.path}, whose costs were"
                " measured; give --baseline to the run"
            )
        problem = with_baseline_of(self.problem, baseline)
        factor = problem.baseline.cost / float(self.summary["baseline"]["cost"])
        best = self.summary["best"]
        summary = {
            **self.summary,
            MADE_OVER: self.baseline_name,
            TABLE: table_of(problem.about),
            "baseline": baseline_table(problem),
            "best": best and {**best, "speedup": best["speedup"] * factor, "reward": self._reward(problem)},
            "fingerprint": problem.fingerprint(),
            SCALED: self.summary.get(SCALED, 1.0) * factor,
        }
        changed = replace(self, summary=summary)
        vars(changed)["problem"] = problem  # what the cached property would build
        return changed

    def _reward(self, problem: Problem) -> float:
        """The recorded reward of the best mapping, in the ratio in which another baseline changes it."""
        row, key = self.best_mapping()[None], np.zeros(1, np.uint64)
        before, after = (float(one.evaluate(row, key).reward[0]) for one in (self.problem, problem))
        recorded = float(self.summary["best"]["reward"])
        return recorded * after / before if before else after

    def metrics(self, *names: str) -> list[NDArray[np.float64]]:
        """Columns of metrics.csv, float64 [T] each, one value per generation. InputError where they are damaged."""
        path = self.path / run_folder.METRICS
        rows = _rows(path)
        return [np.array(_column(path, rows, name)) for name in names]

    def best_mapping(self) -> Mapping16:
        """int16 [N, H], the best that ran. InputError where no valid one was found, or another stands in the file."""
        path = self.path / run_folder.BEST
        if self.summary.get("best") is None or not path.is_file():
            raise InputError(f"{self.path}: expected a run with a valid mapping, found none yet")
        mapping = mapping_file.read(str(path), self.problem)
        self._check_cost(mapping, path)
        return mapping

    def _check_cost(self, mapping: Mapping16, path: Path) -> None:
        """InputError where a model, not a board, gave the costs of the run and says another of its best mapping."""
        if "evaluator" in self.summary or self.summary["about"].get("measured"):
            return
        recorded, keys = float(self.summary["best"]["cost"]), np.arange(2, dtype=np.uint64)
        found, again = (
            float(cost) for cost in self.problem.evaluate(np.repeat(mapping[None], 2, axis=0), keys).cost
        )
        if found == again and not math.isclose(found, recorded, rel_tol=SAME):  # else the model has noise
            unit = self.problem.about.unit
            raise InputError(
                f"{path}: expected the mapping of {SUMMARY}, which costs {cost_text(recorded, unit)}, found"
                f" one that costs {cost_text(found, unit)}"
            )

    def evaluations(self, name: str = "mappings") -> Evaluations:
        """All that a folder of the run keeps. InputError where a chunk is damaged or does not fit the problem."""
        folder = self.path / name
        shape = self.problem.space.shape
        columns = chunks.read([chunk.path for chunk in chunks.listing(folder)], [shape])
        rows = len(columns["mapping"])
        return Evaluations(
            np.array(columns["evaluation"], dtype=np.int64),
            np.array(columns["mapping"], dtype=np.int16).reshape(rows, *shape),
            np.array(columns["speedup"], dtype=np.float64) * float(self.summary.get(SCALED, 1.0)),
            np.array(columns["cost"], dtype=np.float64),
            np.array(columns["reward"], dtype=np.float64),
            np.array(columns["source"], dtype=np.str_),
            chunks.profiles(columns[chunks.PARTS]),
        )

    def policies(self) -> dict[int, Path]:
        """Generation -> the policy that was saved then, in order. InputError where the run saved none."""
        found = run_folder.policies_in(self.path)
        if not found:
            raise InputError(
                f"{self.path}: expected a run with policies (of a method with networks, such as egrl), found none in"
                f" {run_folder.POLICIES}/"
            )
        return found


@dataclass(frozen=True)
class Course:
    """How a run went, one value per generation.

    Attributes:
        evaluations: int64 [T], cumulative.
        best: float64 [T], the best speedup so far as it was measured; 0 until something was valid.
        policy: float64 [T], that of the policy alone; None where there is none.
        confirmed: float64 [T, 3], the speedup that holds on a noisy board, lower and upper end of its 95% interval, NaN
            before anything was measured again; None where nothing is.
    """

    evaluations: NDArray[np.int64]
    best: NDArray[np.float64]
    policy: NDArray[np.float64] | None
    confirmed: NDArray[np.float64] | None


def course_of(run: Path, summary: Mapping[str, Any]) -> Course:
    """The course of a run folder in metrics.csv; what the run found when it named its best is the last that holds.

    InputError where the file is missing or damaged.
    """
    path = run / run_folder.METRICS
    rows = _rows(path)
    has = rows[0] if rows else {}
    evaluations = np.array(_column(path, rows, "evaluations", _count), dtype=np.int64)
    scale = float(summary.get(SCALED, 1.0))
    best = np.array(_column(path, rows, "best_speedup")) * scale
    policy = (
        np.array(_column(path, rows, "deployable_speedup")) * scale if "deployable_speedup" in has else None
    )
    held: Any = []
    if CONFIRMED[0] in has:
        held = np.stack([_column(path, rows, name) for name in CONFIRMED], axis=1)
    if not np.isfinite(best).all():
        raise InputError(f"{path}: damaged metrics: expected finite speedups")
    if not rows:
        raise InputError(f"{path}: expected at least one generation, found none")
    if len(rows) < int(summary.get("generations", 0)):
        raise InputError(
            f"{path}: expected the {summary['generations']} generations of the run, found {len(rows)}"
        )
    named = (summary.get("evaluator") or {}).get("speedup_interval")
    if len(held) == len(rows) and named is not None and summary.get("best") is not None:
        held[-1] = [float(summary["best"]["speedup"]), *map(float, named)]
    return Course(evaluations, best, policy, held if len(held) else None)


def _rows(path: Path) -> list[dict[str, str]]:
    """The rows of a metrics.csv. InputError where it is missing or no table."""
    try:
        return list(csv.DictReader(read_text(path, "the metrics of a run").splitlines(), restval=""))
    except csv.Error as error:
        raise InputError(f"{path}: damaged metrics: {error}") from error


def _column(
    path: Path, rows: Sequence[Mapping[str, str]], name: str, kind: Callable[[str], float] = float
) -> list[float]:
    """A column of numbers. InputError naming the line with something else, or the column where there is none."""
    if rows and name not in rows[0]:
        raise InputError(f"{path}: damaged metrics: expected a column {name}, found none")
    found = []
    for line, row in enumerate(rows, start=2):
        try:
            found.append(kind(row[name]))
        except ValueError:
            raise InputError(
                f"{path}: damaged metrics: line {line}, {name}: expected a number, found {describe(row[name])}"
            ) from None
    return found


def _count(text: str) -> int:
    """A count that fits an int64; ValueError where it is none."""
    number = int(text)
    if not 0 <= number < 2**63:
        raise ValueError("no count")
    return number


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a search.

    Attributes:
        problem: the problem that was searched.
        summary: the content of summary.json.
        mapping: the best valid mapping int16 [N, H], or None.
        folder: the run folder; None where the search was in memory.
    """

    problem: Problem
    summary: Mapping[str, Any]
    mapping: Mapping16 | None
    folder: Path | None = None
    _rows: Sequence[Mapping[str, Any]] = field(default=())

    @property
    def speedup(self) -> float:
        """The speedup of the best mapping over the baseline; 0 if none is valid."""
        best = self.summary["best"]
        return 0.0 if best is None else float(best["speedup"])

    @property
    def cost(self) -> float | None:
        """The cost of the best mapping, in the problem's unit; None if none is valid."""
        best = self.summary["best"]
        return None if best is None else float(best["cost"])

    @property
    def bound(self) -> float | None:
        """No mapping costs less: what was proved; None where nothing was."""
        return self._number("bound")

    @property
    def gap(self) -> float | None:
        """Cost / bound - 1: the best possible costs at most so much less; None where that is unknown."""
        return self._number("gap")

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of a measured speedup, low and high (closed); None where it is not known."""
        found = (self.summary.get("evaluator") or {}).get("speedup_interval")
        return None if found is None else (float(found[0]), float(found[1]))

    @property
    def confirmed(self) -> bool:
        """Whether the speedup holds: measured again after the best was chosen, of exact costs, or of a model's."""
        return confirmed(self.summary)

    def _number(self, key: str) -> float | None:
        found = self.summary[key]
        return None if found is None else float(found)

    @cached_property
    def names(self) -> list[dict[str, Any]]:
        """The best mapping by names, one object per node: {"node": "conv1", "weight": "sram", …}; empty where there is
        none.
        """
        return [] if self.mapping is None else names_of(self.problem, self.mapping)

    @cached_property
    def history(self) -> dict[str, NDArray[Any]]:
        """Metrics by name, one value per generation: "evaluations", "best_speedup" … (docs/reference/run-folder.md)."""
        rows: Sequence[Mapping[str, Any]] = self._rows
        if self.folder is not None and (self.folder / METRICS).is_file():
            with open(self.folder / METRICS, newline="", encoding="utf-8") as stream:
                rows = list(csv.DictReader(stream))
        return {name: _values([row[name] for row in rows]) for name in (rows[0] if rows else ())}

    def __repr__(self) -> str:
        what = f"{self.problem.about.workload} on {self.problem.about.chip}"
        about, baseline = self.problem.about, baseline_text(self.problem.about, self.problem.baseline.name)
        found = "nothing valid" if self.mapping is None else compared(self.speedup, baseline, about.unit)
        parts = [
            found,
            sureness(self.summary),
            distance(self.gap),
            counted(self.summary["evaluations"], "evaluation"),
        ]
        return f"<Result {what}: {', '.join(part for part in parts if part)}>"

    def _repr_html_(self) -> str:
        """The result as a table, for notebooks."""
        unit, best = self.problem.about.unit, self.cost
        sure = (f"{self.speedup:.4f}x", sureness(self.summary))
        rows = {
            "workload": f"{self.problem.about.workload} on {self.problem.about.chip}",
            "method": f"{self.summary['method']}, {counted(self.summary['evaluations'], 'evaluation')}",
            "best": "none" if best is None else ", ".join(filter(None, (cost_text(best, unit), *sure))),
            self.problem.about.baseline_name: cost_text(float(self.summary["baseline"]["cost"]), unit),
            "gap": "unknown" if self.gap is None else f"at most {percent_up(self.gap)}",
        }
        cells = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
            for name, text in rows.items()
        )
        return f"<table>{cells}</table>"


def _values(values: Sequence[Any]) -> NDArray[Any]:
    """Numbers as float64, or int64 where all are whole numbers; names as they are."""
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        return np.array([str(value) for value in values])
    whole = all(isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) for value in values)
    return numbers.astype(np.int64) if whole else numbers
