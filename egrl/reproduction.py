"""What all reproductions share: the plan in their folder, comparisons, figures, and the report from its template."""

from __future__ import annotations

import importlib
import json
import lzma
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

from egrl.compare import report as comparison_report
from egrl.compare.statistics import paired_interval
from egrl.core import atomic
from egrl.core.interrupts import Interrupted, leave_to_parent
from workloads import plugins, text
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import parse_document

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Say = Callable[[str], None]
"""Takes one line of progress."""
LEVEL = 0.005
"""Two things are level if the interval of their difference lies within this share of the second."""
DEFAULTS = {"evals": None, "chip": "", "start": "", "settings": (), "preset": ""}


def open_folder(plan: Any, out: Path) -> None:
    """Make the folder of a reproduction and write its plan (a dataclass) into it.

    Raises:
        InputError: the folder belongs to another plan, whose runs would be mixed with these.
        RunFailure: the disk refuses.
    """
    atomic.make_folder(out / "figures")
    path = out / "plan.json"
    document = {"kind": "plan", "version": 1, **json.loads(json.dumps(asdict(plan)))}
    if path.is_file():
        if parse_document(read_text(path, "a plan"), str(path), "plan", 1) != document:
            raise InputError(
                f"--out {out}: expected a new folder or one of the same plan, found another (--quick or not?)"
            )
        return
    atomic.write(path, json.dumps(document, indent=1) + "\n")


def write_report(results: Mapping[str, Any], out: Path, report: Callable[[Mapping[str, Any]], str]) -> Path:
    """Write results.json, and report.md from what was written. Returns the report's path."""
    document = json.dumps(results, indent=1) + "\n"
    atomic.write(out / "results.json", document)
    path = out / "report.md"
    atomic.write(path, report(json.loads(document)))
    return path


def shipped(file: Path) -> dict[str, Any]:
    """Results that were packed: results.json, compressed by xz."""
    results: dict[str, Any] = json.loads(lzma.decompress(file.read_bytes()))
    return results


def render(template: Path, **names: Any) -> str:
    """The report of a paper: its template, filled with results and with what was computed of them.

    Runs of empty lines become one. Besides Jinja's own filters there are those of
    `FILTERS`; a name that is missing is an error.
    """
    filled = _environment().from_string(template.read_text(encoding="utf-8")).render(**names)
    return re.sub(r"\n{3,}", "\n\n", filled).strip() + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # Markdown
    )
    environment.filters.update(FILTERS)
    environment.globals.update(rule=text.table_rule)
    return environment


def verdict(interval: Mapping[str, float] | None, scale: float = 1.0, sign: int = 1) -> str:
    """Whether a claim holds that a difference is above 0 (`sign` 1) or below it (-1); one rule for all reports.

    `interval` is the 95 % interval of the difference, None for fewer than two runs; `scale` is what it is a share of.
    """
    if interval is None:
        return "no significant difference (one run)"
    low, high = sorted((sign * interval["low"], sign * interval["high"]))
    if low > 0:
        return "yes"
    if high < 0:
        return "no"
    within = -LEVEL * abs(scale) <= low and high <= LEVEL * abs(scale)
    return f"equivalent (within {LEVEL:.1%})" if within else "no significant difference"


def turned(interval: Mapping[str, float] | None) -> Mapping[str, float] | None:
    """The interval of the opposite difference."""
    if interval is None:
        return None
    return {"mean": -interval["mean"], "low": -interval["high"], "high": -interval["low"]}


def interval_cell(interval: Mapping[str, float] | None) -> str:
    """The mean difference and its 95 % interval, as in a cell of a table; "" for None."""
    if interval is None:
        return ""
    mean, low, high = (f"{interval[name]:+.4f}" for name in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def interval_text(interval: Mapping[str, float] | None) -> str:
    """The same within a sentence: after a space, in brackets."""
    return "" if interval is None else f" ({interval_cell(interval)})"


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Mapping[str, float] | None:
    """The mean difference of paired runs and its 95 % interval; None for fewer than two pairs."""
    found = paired_interval(dict(enumerate(ours)), dict(enumerate(theirs)))
    return None if found is None else asdict(found)


def mean_interval(differences: Sequence[float]) -> Mapping[str, float] | None:
    """The mean of differences and its 95 % interval; None for fewer than two."""
    return paired(differences, [0.0] * len(differences))


def plus_minus(values: Sequence[float]) -> str:
    """The mean, and the sample's standard deviation where there are several values; four decimals."""
    return f"{fmean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")


def code(names: Iterable[str]) -> list[str]:
    """Names as Markdown shows code."""
    return [f"`{name}`" for name in names]


FILTERS: dict[str, Callable[..., Any]] = {
    "row": text.table_row,
    "f": text.optional,
    "pm": plus_minus,
    "mean": fmean,
    "median": median,
    "code": code,
}


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure. RunFailure where the disk refuses."""
    from analysis import style

    try:
        style.save(figure, path)
    except OSError as error:
        raise atomic.disk_failure(path, error) from error


def images(text: str) -> Sequence[str]:
    """The files that a report shows, in order."""
    return re.findall(r"\]\((figures/[^)]+)\)", text)


def run_comparison(
    workloads: Sequence[str],
    methods: Sequence[str],
    seeds: int,
    folder: Path,
    jobs: int,
    say: Say,
    **options: Any,
) -> dict[str, Any]:
    """The comparison in a folder, as `egrl.compare.report.compare` makes it; `options` not given are `DEFAULTS`.

    Raises:
        InputError: the folder holds something else.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a run failed.
    """
    document = comparison_report.compare(
        workloads, methods, seeds, folder, {**DEFAULTS, **options}, jobs, say
    )
    if document is None:
        raise Interrupted(folder, None, again="the same command goes on")
    comparison_report.check(document)
    return document


PAPERS = ("egrl", "mcm")
"""The papers of a clone."""
ROOT = Path(__file__).resolve().parents[1]
"""The folder that holds `egrl` and, in a clone, `papers`."""
KIND = plugins.Kind("paper", "reproduce", PAPERS, "a Paper")
"""What plug-ins of the group `egrl.papers` are."""


@dataclass(frozen=True)
class Paper:
    """A paper's experiments.

    Attributes:
        plan: makes the plan of what is run, a dataclass; called with True for the quick one. If the plan has fields
            `instances` and `share`, the flags of these names set them.
        seconds: (plan, jobs) -> about how long it takes.
        reproduce: (plan, folder, jobs, say, workers) -> path of the report. Runs what is missing in the folder, `jobs`
            runs at once with so many `workers` each, and writes results.json and the report. InputError if the folder
            holds something else, Interrupted if the user stops it, RunFailure if a run fails.
    """

    plan: Callable[[bool], Any]
    seconds: Callable[[Any, int], float]
    reproduce: Callable[[Any, Path, int, Say, int], Path]


def list_papers() -> dict[str, str]:
    """Name of every paper, and where it is: in a clone, in a plug-in, or in one that is not installed."""
    return {**dict.fromkeys(PAPERS, "in a clone"), **plugins.offered(KIND.word), **plugins.origins(KIND)}


def find_paper(name: str) -> Paper:
    """The paper called `name`: one of a clone, a plug-in's, or MODULE:NAME.

    Raises:
        InputError: there is none; its code cannot be imported; the package is installed without its repository.
    """
    if name not in PAPERS:
        found = plugins.find(KIND, name)
        if not isinstance(found.thing, Paper):
            raise found.refuse(plugins.described(found))
        return found.thing
    if not (ROOT / "papers" / name / "run.py").is_file():
        raise InputError(
            "egrl reproduce: expected a clone of the repository, found the installed package, which does not include"
            " the papers' experiments; clone the repository and run `pip install -e .` there"
        )
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    paper: Paper = importlib.import_module(f"papers.{name}.run").PAPER
    return paper


@dataclass(frozen=True)
class Call:
    """A function of a module with its arguments; `name` says which call it is."""

    name: str
    function: Callable[..., None]
    arguments: tuple[Any, ...]


def in_processes(calls: Sequence[Call], jobs: int) -> Iterator[tuple[str, str | None]]:
    """The names of calls as they end, and why they failed (None: they did not), a new process each.

    Where the caller stops listening, or Ctrl-C comes, those that run are ended: calls leave nothing half written.
    """
    context, waiting = get_context("spawn"), list(reversed(calls))
    running: dict[Connection, tuple[str, SpawnProcess]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                call = waiting.pop()
                listener, speaker = context.Pipe(duplex=False)
                process = context.Process(target=_call, args=(speaker, call), daemon=True)
                process.start()
                speaker.close()
                running[listener] = call.name, process
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                name, process = running[ready]
                try:
                    failure = ready.recv()
                except EOFError:
                    failure = "its process was ended from outside"
                process.join()
                ready.close()
                del running[ready]
                yield name, failure
    finally:
        for _, process in running.values():
            process.kill()
        for listener, (_, process) in running.items():
            process.join()
            listener.close()


def _call(speaker: Connection, call: Call) -> None:
    leave_to_parent()
    try:
        call.function(*call.arguments)
    except Exception as error:
        speaker.send(f"{type(error).__name__}: {error}")
    else:
        speaker.send(None)
