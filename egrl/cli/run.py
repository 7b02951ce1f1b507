"""egrl run: one search."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import click
import numpy as np

from egrl.cli import flags
from egrl.cli.output import interrupted
from egrl.core import typed_tables
from egrl.runs.config import RunOptions
from hwsim.jit import clock
from workloads.errors import InputError
from workloads.text import one_of

if TYPE_CHECKING:
    from egrl.runs.past_run import Result


def options_of(kind: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that gives a click command a flag for each field of a dataclass (default None: not given)."""
    hints, meanings = get_type_hints(kind), typed_tables.meanings(kind)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for entry in reversed(dataclasses.fields(kind)):
            hint = hints[entry.name]
            value_type = next((t for t in get_args(hint) if t is not type(None)), hint)
            default = f" [{entry.default}]" if entry.default not in (None, "") else ""
            shown = meanings[entry.name] + default
            flag = "--" + entry.name.replace("_", "-")
            function = click.option(flag, entry.name, type=value_type, default=None, help=shown)(function)
        return function

    return decorate


def ablation_setting(method: str, ablation: str) -> str:
    """The `--set` argument that leaves a part of a method out. InputError if the method has no such part."""
    from egrl.methods import find_method

    hint = dict(typed_tables.leaves(find_method(method).config)).get("ablation")
    if hint is None:
        raise InputError(f"--ablation {ablation}: expected a method with parts to leave out, found {method}")
    parts = [part for part in get_args(hint) if part != "none"]
    if ablation not in parts:
        raise InputError(f"--ablation: {one_of(ablation, parts)}")
    return f"method.ablation={ablation}"


BATCH = 12
"""Mappings that the model is timed with."""
NEAR = 1e-4
"""A gap below this is not worth another search."""


def exact_hint(summary: Mapping[str, Any]) -> str:
    """A hint to solve the model, if it gave the costs and can be solved; "" if not, or if the gap is below `NEAR`."""
    from egrl.methods.exact import SECONDS
    from egrl.problems import PROBLEMS

    entry = PROBLEMS.get(summary["problem"])
    if entry is None or entry.modelled is None or entry.modelled.method != "exact" or "evaluator" in summary:
        return ""
    if summary["method"] == "exact" or (summary["gap"] is not None and summary["gap"] < NEAR):
        return ""
    return f"next: --method exact solves the chip's model directly, in {SECONDS:g} s at most"


HINT_SECONDS = 4.0
"""If the search for fewer changes would take longer, the run does not wait for it."""


def changes_hint(result: Result) -> str:
    """How few of the best mapping's changes bring how much of its gain; "" if it gains nothing or that is not known."""
    from egrl.runs import simplified
    from hwsim.nearest import Costs, unsuitable

    problem, mapping = result.problem, result.mapping
    if mapping is None or result.speedup <= 1 or unsuitable(problem) or problem.judge(mapping):
        return ""
    if "evaluator" in result.summary:
        return f"next: egrl simplify {result.folder} says which changes matter"
    costs, rows = Costs(problem), np.repeat(mapping[None], BATCH, axis=0)
    costs(rows)  # the first call loads kernels
    begun = clock()
    costs(rows)
    evals = simplified.quick(problem)
    if evals * (clock() - begun) / BATCH > HINT_SECONDS:
        return f"next: egrl simplify {result.folder} says which changes matter"
    return simplified.hint(simplified.simplify(problem, mapping, None, evals), str(result.folder))


@click.command(name="run", short_help="search for the best mapping of a workload")
@options_of(RunOptions)
@click.option("--out", help="run folder [runs/<workload>-<method>-s<seed>-<n>]")
@click.option(
    "--resume",
    help="go on with this run folder (with a larger budget, say)",
)
@click.option(
    "--new-board",
    is_flag=True,
    help="with --resume: another board measures; what the old one measured is put aside, its best mapping comes first",
)
@click.option("--config", "config_file", help="run this config.toml again; other flags override what it says")
@flags.pinned(
    flags.settings("problem., method. or evaluator.KEY=VALUE; `egrl list settings NAME` shows the keys")
)
@click.option(
    "--preset",
    default="",
    metavar="paper",
    help="settings of the method and of the problem as in their papers, and a cold start",
)
@click.option(
    "--ablation",
    help="leave out this part of the method; `egrl list settings METHOD` lists them under `ablation`",
)
@click.option(
    "--report",
    is_flag=True,
    help="at the end, write the page of `egrl report` into the run folder; its path is printed last",
)
@flags.output("the summary as one JSON document")
def command(
    out: str | None,
    resume: str | None,
    new_board: bool,
    config_file: str | None,
    settings: Sequence[str],
    preset: str,
    ablation: str | None,
    report: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Search for the best mapping of a workload within a budget; leaves a run folder.

    \b
    egrl run --workload bert --gens 200 --report
    egrl run --config runs/bert-egrl-s0-1/config.toml --seed 1
    """
    from egrl import api
    from egrl.core.interrupts import Interrupted
    from egrl.problems import find_problem

    if resume:
        from egrl.runs.resume import check_only

        check_only({"config": config_file, "ablation": ablation})
    elif config_file is not None:
        options, settings = _of_file(config_file, options, settings, preset)
    workload = options.pop("workload", None) or ""
    if ablation is not None and not resume:
        method = options.get("method") or find_problem(options.get("problem") or RunOptions.problem).method
        settings = [*settings, ablation_setting(method, ablation)]
    try:
        folder = out or (None if resume else True)
        result = api.search(
            workload,
            out=folder,
            resume=resume,
            new_board=new_board,
            settings=settings,
            preset=preset,
            quiet=quiet,
            **options,
        )
    except Interrupted as stop:
        return interrupted(quiet, stop)
    if as_json:
        click.echo(json.dumps(result.summary, allow_nan=False))
    elif not quiet:
        from egrl.runs.summary import sentence

        click.echo(sentence(result.summary, str(result.folder)))
        for hint in filter(None, (exact_hint(result.summary), changes_hint(result))):
            click.echo(hint)
    if report and result.folder is not None:
        _leave_page(result.folder, options.get("problem") or "", quiet, as_json)
    return 0


def _of_file(
    file: str, options: dict[str, Any], settings: Sequence[str], preset: str
) -> tuple[dict[str, Any], Sequence[str]]:
    """Options and settings of a config file, with those that are given in their place."""
    from egrl.runs.resume import options_of_file

    if preset:
        raise InputError(f"--preset {preset}: expected no --config, which has every setting, found {file}")
    return options_of_file(
        file, {name: value for name, value in options.items() if value is not None}, settings
    )


def _leave_page(folder: Path, problem: str, quiet: bool, as_json: bool) -> None:
    """Write the page of a run folder and print its path: with --json as a note, unless --quiet.

    `problem`: as the user named it. InputError or RunFailure if there is no page.
    """
    from egrl.report.page import leave_page
    from egrl.runs import progress
    from egrl.runs.past_run import PastRun

    with progress.note_if_slow("writing the page of the run", quiet):
        path = leave_page(PastRun.read(folder, problem))
    if as_json:
        progress.note(f"the page of the run: {path}", quiet)
    elif not quiet:
        click.echo(str(path))
