"""Flags that several commands share."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from egrl.core.typed_tables import meanings
from egrl.runs.config import MOST_WORKERS, RunOptions
from egrl.runs.text import start_word
from hwsim.capabilities import HasBestKnown
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.files import read_text
from workloads.text import hint

BUDGET = {
    "gens": "stop after this many generations",
    "evals": meanings(RunOptions)["evals"],
    "seconds": meanings(RunOptions)["seconds"],
}
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def budget(default: str, of: str = "") -> Decorator:
    """--gens, --evals and --seconds, of which one may be given. `default`: where none is; `of`: whose they are."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, kind in (("seconds", float), ("evals", int), ("gens", int)):
            text = " ".join([BUDGET[name], of]).strip() + (f" [{default}]" if name == "gens" else "")
            function = click.option(f"--{name}", type=kind, default=None, help=text)(function)
        return function

    return decorate


def settings(text: str) -> Decorator:
    """--set, which may be given several times; the text says of what."""
    return click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=text)


def pinned(decorate: Decorator) -> Decorator:
    """Beside --set of a problem's settings --pin, which is short for one of them."""

    def both(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def merged(*args: Any, pins: Sequence[str], settings: Sequence[str], **options: Any) -> Any:
            try:
                return function(*args, settings=(*settings, *pin_settings(pins)), **options)
            except InputError as error:
                if pins and "unknown key 'pins'" in str(error):
                    known = "expected a problem that places tensors in memories, such as nnpi, found another"
                    raise InputError(f"--pin {pins[0]}: {known}") from error
                raise

        option = click.option(
            "--pin",
            "pins",
            multiple=True,
            metavar="TENSOR=MEMORY",
            help="keep tensors in a memory ('conv1*.weight=sram'), tensors together (a.activation=b.activation) or"
            " bytes free (sram.free=64KiB), whatever places the rest; or a FILE with one a line; several times",
        )
        return option(decorate(merged))

    return both


def pin_settings(pins: Sequence[str]) -> list[str]:
    """What `--set` takes for so many `--pin`, none for none. InputError where a file of pins cannot be read."""
    texts: list[str] = []
    for pin in pins:
        if "=" in pin:
            texts.append(pin)
            continue
        lines = (line.partition("#")[0].strip() for line in read_text(pin, "a file of pins").splitlines())
        texts += filter(None, lines)
    return [f"problem.pins={json.dumps(texts, ensure_ascii=False)}"] if texts else []


FLAGS: dict[str, Decorator] = {
    "baseline": click.option("--baseline", default="", metavar="FILE", help=meanings(RunOptions)["baseline"]),
    "workers": click.option(
        "--workers",
        type=click.IntRange(1, MOST_WORKERS),
        default=1,
        help=meanings(RunOptions)["workers"] + " [1]",
    ),
    "jobs": click.option(
        "--jobs", type=click.IntRange(1), default=1, help="runs at once, one process each [1]"
    ),
    "workloads": click.option(
        "--workload", "workloads", required=True, metavar="W[,W2…]", help="workloads, sets of them or files"
    ),
    "problem": click.option(
        "--problem", default="nnpi", help="what a mapping costs; see `egrl list problems` [nnpi]"
    ),
    "chip": click.option("--chip", default="", help="a chip of `egrl list chips`, or a chip file (.toml)"),
    "settings": pinned(settings("problem.KEY=VALUE")),
    "json": click.option("--json", "as_json", is_flag=True, help="print one JSON document on stdout"),
    "problem_of_run": click.option(
        "--problem", default="", help="problem of the run, needed only if it is MODULE:NAME"
    ),
    "problem_of_runs": click.option(
        "--problem", default="", help="problem of the runs, needed only if it is MODULE:NAME"
    ),
    "own_problem": click.option(
        "--problem", help="without RUN: what a mapping costs; see `egrl list problems` [nnpi]"
    ),
    "own_chip": click.option(
        "--chip", help="without RUN: a chip of `egrl list chips`, or a chip file (.toml)"
    ),
    "own_settings": pinned(settings("without RUN: problem.KEY=VALUE")),
    "own_workload": click.option(
        "--workload", help="without RUN: a workload of `egrl list workloads`, or a file (.json, .onnx, .pt2)"
    ),
}
"""The flags that several commands have, each stated once; those of `egrl run` are `RunOptions`."""


def use(*names: str) -> Decorator:
    """Some of `FLAGS`, in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(names):
            function = FLAGS[name](function)
        return function

    return decorate


def output(document: str) -> Decorator:
    """--quiet, --json (which prints the `document`) and --log."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for flag in (
            click.option(
                "--log",
                callback=_open_log,
                expose_value=False,
                metavar="FILE",
                multiple=True,
                help="append generations, notes and warnings to this file, with their times; or generations as"
                " metrics: json:FILE (JSON lines), mlflow, wandb",
            ),
            click.option("--json", "as_json", is_flag=True, help=f"print {document} on stdout"),
            click.option("--quiet", is_flag=True, help="print nothing but what --json asks for"),
        ):
            function = flag(function)
        return function

    return decorate


def _open_log(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
    if value and not context.resilient_parsing:
        from egrl.core import log

        for name in value:
            if log.is_tracker(name):
                log.open_tracker(name)
            else:
                log.open_file(Path(name))


def run_or_flags(
    command_name: str,
    run: str | None,
    flags: Mapping[str, str | None],
    settings: Sequence[str],
    baseline: str = "",
) -> tuple[Problem, Mapping16, str]:
    """The problem, the mapping [N, H] and where it is from: a run's best, or what the flags --workload, --mapping,
    --problem and --chip (None: not given) name. InputError where both or neither are given, or one is wrong.

    Beside a run --problem may name its problem, which it must where that is MODULE:NAME, and --mapping another mapping
    than its best. Speedups are over the mapping in the file `baseline`, if one is given.
    """
    given = [
        flag for flag, value in flags.items() if value is not None and flag not in ("--problem", "--mapping")
    ]
    given += ["--set"] * bool(settings)
    if run is not None and given:
        raise InputError(
            f"{command_name}: expected a run folder or --workload, found {run} and {', '.join(given)}: the two exclude"
            " each other, as a run has its own workload, chip and settings"
        )
    if run is not None:
        from egrl.runs import folder as run_folder
        from egrl.runs.past_run import PastRun

        if Path(run).is_file():
            raise InputError(
                f"{run}: expected a run folder, found a file; a mapping file is named by --mapping {run}, beside"
                " --workload"
            )
        past = PastRun.read(Path(run), flags["--problem"] or "").over(baseline)
        if (other := flags["--mapping"]) is not None:
            return (
                past.problem,
                mapping_of(other, past.problem),
                start_word(past.problem.about.baseline_name, other),
            )
        return past.problem, past.best_mapping(), str(Path(run) / run_folder.BEST)
    if flags["--workload"] is None:
        raise InputError(f"{command_name}: expected a run folder or --workload, found neither")
    from egrl.measure.apart import sheltered
    from egrl.problems import KIND, build_problem

    name = flags["--problem"] or "nnpi"
    subject = build_problem(name, flags["--workload"], flags["--chip"] or "", settings, baseline)
    if KIND.refers(name):
        subject = sheltered(subject)  # the user's own code, of which a mapping may end the process
    mapping = flags["--mapping"] or "compiler"
    chosen = mapping_of(mapping, subject)
    return subject, chosen, start_word(subject.about.baseline_name, mapping)


def mapping_of(mapping: str, problem: Problem) -> Mapping16:
    """The mapping [N, H] that --mapping names. InputError where there is none, or its file is not of the problem."""
    from egrl.core import mapping_file

    if mapping == "compiler":
        return problem.baseline.mapping
    if mapping == "best-known":
        found, remark = problem.best_known() if isinstance(problem, HasBestKnown) else (None, "")
        if found is None:
            why = remark or f"none ships for {problem.about.workload} on {problem.about.chip}"
            raise InputError(
                f"--mapping best-known: expected a problem of which the best mapping is known: {why}"
            )
        return found
    if not Path(mapping).exists():
        raise InputError(
            f"--mapping {mapping}: expected compiler, best-known or a mapping file (best_mapping.json of a run),"
            f" found no such file{hint(mapping, ('compiler', 'best-known'))}"
        )
    return mapping_file.read(mapping, problem)
