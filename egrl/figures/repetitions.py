"""Which runs are repetitions of one another, which can stand in one figure, what each curve is called; the fastest run.

Repetitions differ in nothing but their seed, their budget and what changes no result.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.core import typed_tables
from egrl.problems import KIND, find_problem
from egrl.runs import folder as run_folder
from egrl.runs.past_run import PastRun
from egrl.runs.text import about_of, drawn_baseline_text
from hwsim.capabilities import HasPlacement
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.files import read_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


WHERE_MEASURED = ("workers", "executor", "ray_address")
SAME_RESULT = (
    "seed",
    "gens",
    "evals",
    "seconds",
    *WHERE_MEASURED,
    "checkpoint_seconds",
    "bound_seconds",
    "until_gap",
)
"""Keys of [run] in which repetitions may differ."""
NAMES_OF_FILES = ("workload", "chip")
"""Keys of [run] that say where inputs came from; what was in them is compared instead."""
MOST_SHOWN = 3
"""Settings that a label names."""


@dataclass(frozen=True)
class PlottedRun:
    """A run folder, and what its curve depends on.

    Attributes:
        run: the run folder.
        settings: dotted key of config.toml -> value; equal in repetitions. A file that the user gave stands there
            by the hash of its content, the start `compiler` by the name of the run's own baseline.
        files: hash of such a file -> its name, for people.
    """

    run: PastRun
    settings: Mapping[str, Any]
    files: Mapping[str, str]

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.run.path

    @property
    def summary(self) -> Mapping[str, Any]:
        """Its summary.json."""
        return self.run.summary

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.run.options.seed

    @property
    def measured(self) -> bool:
        """Whether the run measured its baseline itself: its speedups are over what that took then."""
        return about_of(self.summary).measured or self.evaluator != ""

    @property
    def evaluator(self) -> str:
        """What measured instead of the model; "" where nothing did."""
        return self.run.options.evaluator

    @property
    def bound(self) -> float | None:
        """The highest speedup that the run's proven bound leaves possible; None where it has none."""
        found = self.summary.get("bound")
        return None if found is None else self.summary["baseline"]["cost"] / found


def to_plot(run: PastRun) -> PlottedRun:
    """A run with what distinguishes it from others. InputError if a file that its user gave cannot be read now."""
    given = dataclasses.asdict(run.options)
    options = {k: v for k, v in given.items() if k not in (*SAME_RESULT, *NAMES_OF_FILES)}
    if options["start"] != "exact":
        del options["exact_seconds"]
    files: dict[str, str] = {}
    copies = {
        "start": run_folder.START_FILE,
        "init": run_folder.INIT_FILE,
        "baseline": run_folder.BASELINE_FILE,
    }
    for key, copy in copies.items():
        if (run.path / copy).is_file() and options[key] not in (
            "",
            "exact",
            "policy",
            *run_folder.KEPT_STARTS,
        ):
            digest = hashlib.sha256(read_bytes(run.path / copy, "a file of the run")).hexdigest()
            files[digest] = run.baseline_name if key == "baseline" else Path(options[key]).stem
            options[key] = digest
    if options["start"] == "compiler":
        options["start"] = run.start
    values = typed_tables.dotted_keys({"run": options, **run.settings})
    settings = {key: str(value) if isinstance(value, list) else value for key, value in values.items()}
    return PlottedRun(run, settings, files)


def comparable(runs: Sequence[PastRun]) -> list[PlottedRun]:
    """All runs, to plot. InputError naming the first two whose speedups are not of one problem, and what differs."""
    given = [to_plot(run) for run in runs]
    check_comparable(given)
    return given


def check_comparable(runs: Sequence[PlottedRun]) -> None:
    """InputError naming the first two runs whose speedups are not of one problem, and what differs."""
    first = runs[0]
    files = _kept_files(first.run.options.problem)
    for other in runs[1:]:
        for key, what in (("problem", "problem"), ("workload", "workload"), ("chip", "chip")):
            if first.summary[key] != other.summary[key]:
                raise _different(f"one {what}", (first, first.summary[key]), (other, other.summary[key]))
        for file in files:
            if _content(first, file) != _content(other, file):
                raise _different(f"one {file}", (first, f"one {file}"), (other, "another of the same name"))
        if first.evaluator != other.evaluator:
            by = [run.evaluator or "the model's" for run in (first, other)]
            raise _different("costs by one evaluator", (first, by[0]), (other, by[1]))
        left, right = first.summary["baseline"], other.summary["baseline"]
        rules_only = first.measured and other.measured
        if left.get("rule") != right.get("rule") or not (left.get("cost") == right.get("cost") or rules_only):
            refusal = _different("one baseline", (first, left.get("rule")), (other, right.get("rule")))
            advice = "run both" if rules_only else "compare them with one mapping"
            raise InputError(f"{refusal}; {advice} with --baseline FILE")
        same = all(_part(first, "problem.").get(k) == v for k, v in _part(other, "problem.").items())
        if same and first.summary["fingerprint"] != other.summary["fingerprint"]:
            marks = [run.summary["fingerprint"][:12] for run in (first, other)]
            raise _different("one simulator", (first, f"fingerprint {marks[0]}"), (other, marks[1]))


def _kept_files(problem: str) -> list[str]:
    """The files of a run folder that say what workload and chip were.

    Of code in a file, which is not imported to draw curves, none: its runs are distinguished by their fingerprints.
    """
    if KIND.refers(problem):
        return []
    entry = find_problem(problem)
    return [file for file in (entry.workload_file, entry.chip_file) if file]


def _different(expected: str, left: tuple[PlottedRun, Any], right: tuple[PlottedRun, Any]) -> InputError:
    return InputError(
        f"expected runs of {expected}, found {left[1]} ({left[0].path}) and {right[1]} ({right[0].path})"
    )


def _content(run: PlottedRun, file: str) -> bytes:
    return read_bytes(run.path / file, "a file of the run")


def _part(run: PlottedRun, prefix: str) -> dict[str, Any]:
    return {key: value for key, value in run.settings.items() if key.startswith(prefix)}


def distinct(runs: Sequence[PlottedRun]) -> tuple[list[PlottedRun], list[str]]:
    """The runs without those that repeat another's seed, of which the longest stays; and a line about each.

    A seed gives the same run again: it is no repetition that a deviation could be taken from.
    """
    kept: dict[tuple[Any, ...], PlottedRun] = {}
    remarks = []
    for run in runs:
        key = (_key(run), run.seed)
        before = kept.get(key)
        if before is None:
            kept[key] = run
            continue
        longer, shorter = run, before
        if before.summary["evaluations"] >= run.summary["evaluations"]:
            longer, shorter = before, run
        kept[key] = longer
        reason = (
            "named twice" if longer.path == shorter.path else f"it repeats seed {run.seed} of {longer.path}"
        )
        remarks.append(f"{shorter.path} is left out: {reason}")
    return list(kept.values()), remarks


def together(runs: Sequence[PastRun]) -> tuple[list[PastRun], list[str]]:
    """The runs that one figure sums up: all of one problem, no seed twice; and a line about what people may not expect.

    InputError where they are not of one problem.
    """
    kept, remarks = distinct(comparable(runs))
    names = list(dict.fromkeys(labels(kept)))
    if len(names) > 1:
        remarks.append(f"these runs are no repetitions of one another: {'; '.join(names)}")
    return [run.run for run in kept], remarks


def _key(run: PlottedRun) -> tuple[Any, ...]:
    return tuple(sorted((key, repr(value)) for key, value in run.settings.items()))


def labels(runs: Sequence[PlottedRun]) -> list[str]:
    """The label of each run's curve: equal for repetitions, different for all others.

    That is the method, the start where not all runs have the same, and, where both are equal, the settings that differ.
    """
    names = _file_names(runs)
    starts = {run.settings.get("run.start") for run in runs}
    heads = []
    for run in runs:
        start = _shown(run.settings.get("run.start"), names)
        heads.append(run.summary["method"] + (f", {start} start" if len(starts) > 1 else ""))
    found = []
    for run, head in zip(runs, heads, strict=True):
        like = [other for other, its in zip(runs, heads, strict=True) if its == head]
        keys = sorted({key for other in like for key in _differing(like[0], other)})
        brief = [_described(other, keys, names, MOST_SHOWN) for other in like]
        told_apart = len(set(brief)) == len({_key(other) for other in like})
        found.append(head + _described(run, keys, names, MOST_SHOWN if told_apart else len(keys)))
    return found


def common_start(runs: Sequence[PlottedRun]) -> str | None:
    """The start of all runs, for people; None where they differ in it."""
    starts = {run.settings.get("run.start") for run in runs}
    return _shown(starts.pop(), _file_names(runs)) if len(starts) == 1 else None


def _differing(left: PlottedRun, right: PlottedRun) -> list[str]:
    keys = left.settings.keys() | right.settings.keys()
    return [key for key in keys if repr(left.settings.get(key)) != repr(right.settings.get(key))]


def _described(run: PlottedRun, keys: Sequence[str], names: Mapping[str, str], most: int) -> str:
    last = [key.rsplit(".", 1)[-1] for key in keys]
    parts = []
    for key, short in zip(keys, last, strict=True):
        name = short if last.count(short) == 1 else key.partition(".")[2]
        parts.append(f"{name}={_shown(run.settings.get(key), names)}")
    more = f", and {len(parts) - most} more" if len(parts) > most else ""
    return "".join(f", {part}" for part in parts[:most]) + more


def _file_names(runs: Sequence[PlottedRun]) -> dict[str, str]:
    """Hash of a file that a user gave -> its name, with a part of the hash where two have the same name."""
    found: dict[str, str] = {}
    for run in runs:
        found = {**run.files, **found}
    several = list(found.values())
    return {k: f"{name} {k[:8]}" if several.count(name) > 1 else name for k, name in found.items()}


def _shown(value: Any, names: Mapping[str, str]) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else names.get(str(value), str(value))


@dataclass(frozen=True)
class Fastest:
    """The run with the highest speedup.

    Attributes:
        run: that run; the first, if several are equal.
        speedup: of its best mapping.
        remarks: lines about runs that are not shown.
    """

    run: PastRun
    speedup: float
    remarks: tuple[str, ...]

    @property
    def problem(self) -> Problem:
        """The problem of the run."""
        return self.run.problem

    def mappings(self) -> dict[str, Mapping16]:
        """int16 [N, H] by what numbers call them: "compiler", "best". InputError where the run found no valid one."""
        return {"compiler": self.problem.baseline.mapping, "best": self.run.best_mapping()}

    def label(self, name: str) -> str:
        """What figures call a mapping of `mappings` for people: the baseline by the problem's own word."""
        return drawn_baseline_text(self.problem.about).removeprefix("the ") if name == "compiler" else name

    @property
    def title(self) -> str:
        """Workload, chip and speedup."""
        about = self.problem.about
        return f"{about.workload} on {about.chip}: best is {self.speedup:.4f}x {drawn_baseline_text(about)}"

    def drawing(self, figure: Figure, numbers: Mapping[str, Any], remarks: Sequence[str] = ()) -> Drawing:
        """A figure with its numbers and remarks, and those that every figure of the fastest run has."""
        common = {**subject(self.problem), "run": str(self.run.path), "speedup": self.speedup}
        return Drawing(figure, {**common, **numbers}, [*self.remarks, *remarks])


def fastest(runs: Sequence[PastRun]) -> Fastest:
    """The fastest of at least one run. InputError where they are not of one problem."""
    kept, remarks = distinct(comparable(runs))
    run = max((each.run for each in kept), key=_speedup)
    if len(kept) > 1:
        remarks = [*remarks, f"shown is {run.path}, the fastest of {len(kept)} runs"]
    return Fastest(run, _speedup(run), tuple(remarks))


def _speedup(run: PastRun) -> float:
    """The speedup of the best mapping; 0 if there is none."""
    best = run.summary.get("best")
    return 0.0 if best is None else float(best["speedup"])


def subject(problem: Problem) -> dict[str, str]:
    """What numbers say of a problem."""
    return {"workload": problem.about.workload, "chip": problem.about.chip}


def check_alike(figure: str, problem: Problem) -> None:
    """InputError where two mappings are not alike by their numbers: where they are the rules of plans."""
    if not problem.about.alike:
        choices = "mean something else in each mapping; `egrl plot curves` draws its runs"
        raise refusal(figure, problem, "whose choices are places", f", whose choices {choices}")


def check_places(figure: str, problem: Problem) -> None:
    """InputError where the choices of a problem are no places, but the rules of a plan or the actions of a game."""
    check_alike(figure, problem)
    if not problem.about.place:
        lead = "; `egrl plot layout` draws where they lead" if isinstance(problem, HasPlacement) else ""
        raise refusal(figure, problem, "whose choices are places", f", whose choices are not places{lead}")


def refusal(figure: str, problem: Problem, expected: str, but: str = "") -> InputError:
    """The error of a figure that cannot draw runs of a problem."""
    return InputError(f"plot {figure}: expected a problem {expected}, found {problem.about.name!r}{but}")


@dataclass(frozen=True)
class Drawing:
    """A figure and what it shows.

    Attributes:
        figure: to be saved by `analysis.style.save`.
        numbers: what is behind it, kept as JSON can hold it (see `plain`); they must not use the keys of the document
            that `--json` puts around them: kind, version, figure.
        remarks: lines for people about what is not shown, or shown otherwise than they may expect.
    """

    figure: Figure
    numbers: Mapping[str, Any]
    remarks: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", plain(self.numbers))


def plain(value: Any) -> Any:
    """Numbers as JSON can hold them: arrays as lists, dataclasses as objects, NaN and infinity as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {entry.name: plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
