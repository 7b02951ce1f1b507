"""Options, presets and settings as one typed configuration: of a new run, or of one that goes on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from egrl.core import typed_tables
from egrl.core.registry import MethodDefinition
from egrl.measure.config import EvaluatorConfig
from egrl.methods import find_method
from egrl.problems import find_problem
from egrl.runs import config, requests
from egrl.runs import folder as run_folder
from egrl.runs.config import RunConfig, RunOptions
from egrl.runs.resume import check_code, check_no_other, check_settings, larger
from workloads.errors import InputError, Notice
from workloads.files import read_text

DEFAULT_METHOD = "egrl"
AUTO = "auto"
"""The method that is chosen by what is searched."""


def resolve(
    options: RunOptions,
    settings: Sequence[str] = (),
    preset: str = "",
    definition: MethodDefinition | None = None,
    built: bool = False,
) -> RunConfig:
    """Options, preset and --set settings as one typed config. InputError where one is wrong.

    `definition` is the method, where it is no registered one. `built`: the problem is an object, and has its settings.
    """
    entry = None if built else find_problem(options.problem)
    taken = entry.choose(bool(options.evaluator)) if entry and options.method == AUTO else None
    if taken or options.method in ("", AUTO):
        own = taken.method if taken else entry.method if entry else DEFAULT_METHOD
        options = replace(options, method=own)
    method = definition or find_method(options.method)
    problem = entry.load() if entry else None
    if preset not in ("", "paper"):
        raise InputError(f"--preset: expected paper, found {preset!r}")
    tables = typed_tables.parse_set(settings)
    if tables["evaluator"] and not options.evaluator:
        raise InputError(
            f"--set evaluator.{next(iter(tables['evaluator']))}: expected --evaluator, found none"
        )
    evaluator = typed_tables.build(
        EvaluatorConfig,
        {
            **(requests.settings(options.requests) if options.requests is not None else {}),
            **tables["evaluator"],
        },
        "--set evaluator",
    )
    options = _in_evaluations(options, evaluator)
    paper = preset == "paper"
    if not options.chip and problem is not None:
        options = replace(options, chip=problem.chips()[0])
    if tables["problem"] and problem is None:
        raise InputError("--set problem: expected no settings of a problem that is an object, found some")
    if not options.start:
        options = replace(options, start="cold" if paper else "compiler")
    resolved = RunConfig(
        config.check_options(options),
        problem
        and typed_tables.build(
            problem.config, {**(problem.paper if paper else {}), **tables["problem"]}, "--set problem"
        ),
        typed_tables.build(
            method.config, {**(method.paper if paper else {}), **tables["method"]}, "--set method"
        ),
        evaluator,
    )
    typed_tables.check_code("method", resolved.method)
    if taken:
        warnings.warn(Notice(f"--method auto: {taken.method}, since {taken.reason}"), stacklevel=2)
    return resolved


def _in_evaluations(options: RunOptions, evaluator: EvaluatorConfig) -> RunOptions:
    """A budget in requests as one in evaluations. InputError where it cannot be one."""
    if options.requests is None:
        return options
    if not options.evaluator:
        raise InputError(f"--requests {options.requests}: expected --evaluator, found none")
    if limits := options.budget():
        raise InputError(f"--requests: expected no other budget, found --{next(iter(limits))}")
    evals = requests.evaluations(options.requests, evaluator, options.generation_evals)
    others = options.requests - evals
    said = f"{evals} evaluations; the baseline and measuring the best afresh take the other {others}, at most"
    warnings.warn(Notice(f"--requests {options.requests}: {said}"), stacklevel=3)
    return replace(options, evals=evals, requests=None)


def resolve_again(
    folder: Path, given: Mapping[str, Any], told: bool = False, settings: Sequence[str] = ()
) -> tuple[RunOptions, RunConfig]:
    """The options in a run folder, and the configuration that it goes on with: some of them changed to those `given`.

    `told`: the caller measures, so that no command is started. InputError where its config.toml is damaged, a change is
    not allowed, or it names code that `given`, or the `--set` `settings`, do not name.
    """
    where = str(folder / run_folder.CONFIG)
    tables = config.read_toml(read_text(where, "a config file"), where)
    old = typed_tables.build(RunOptions, tables["run"], f"{where}: run")
    check_code(replace(old, evaluator="") if told else old, given, where, folder)
    options = larger(old, given)
    problem, method = find_problem(options.problem).load(), find_method(options.method)
    own: Any = typed_tables.build(method.config, tables["method"], f"{where}: method")
    check_no_other(own, settings)
    check_settings(own, settings, where, ["egrl", "run", "--resume", str(folder)])
    typed_tables.check_code("method", own)
    return old, RunConfig(
        config.check_options(options),
        typed_tables.build(problem.config, tables["problem"], f"{where}: problem"),
        own,
        typed_tables.build(EvaluatorConfig, tables["evaluator"], f"{where}: evaluator"),
    )
