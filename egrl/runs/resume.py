"""Configurations from a file: of a run that is resumed, or that is run again.

A run is resumed with a larger budget, and with options that change no result. A file runs no code that the user did not
name.
"""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from egrl import methods, problems
from egrl.core import typed_tables
from egrl.core.contracts import BUDGETS, DEFAULT_GENERATIONS, REQUESTS
from egrl.core.typed_tables import code_settings, missing_code
from egrl.measure.config import EvaluatorConfig, is_command
from egrl.runs import config
from egrl.runs import folder as run_folder
from egrl.runs.config import (
    RESUMABLE,
    RunConfig,
    RunOptions,
    evaluations_of_requests,
    settings_of_requests,
    words_of_requests,
)
from egrl.runs.summary import GAP, METHOD
from workloads.errors import InputError, Notice
from workloads.files import read_text

KINDS = {"method": methods.KIND, "problem": problems.KIND}
"""Options that may be given again, and must be where they are MODULE:NAME."""
RULE = "code in a file is imported only if you name it"
RULES = {
    "evaluator": "a command in a file is started only if you give it",
    "ray_address": "a cluster in a file is joined only if you name it",
}
"""Option -> why it must be given again, where it is not `RULE`."""
OWN_CLUSTER = "auto"
"""The Ray address of this machine's cluster, which is the user's own."""


def check_only(given: Mapping[str, Any]) -> None:
    """InputError where options (None or empty: not given) are among those that cannot change."""
    found = [
        name
        for name, value in given.items()
        if value not in (None, "", ()) and name not in (*RESUMABLE, REQUESTS, *KINDS)
    ]
    if found:
        allowed = _flags((*RESUMABLE, REQUESTS, "new_board"))
        raise InputError(f"--resume: expected no other flags than {allowed}; found {_flags(found)}")


def _flags(names: Iterable[str]) -> str:
    return ", ".join("--" + name.replace("_", "-") for name in names)


def check_code(options: RunOptions, given: Mapping[str, Any], where: str, folder: Path) -> None:
    """InputError where a run folder names code that the user does not, or the user names another method or problem.

    `where` is the file that names it. The error has the command that goes on.
    """
    for name, kind in KINDS.items():
        old, new = getattr(options, name), given.get(name) or ""
        if new not in ("", old):
            raise InputError(f"--{kind.word}: expected {old!r} as in {where}, or none, found {new!r}")
    check_named(options, given, where, ["egrl", "run", "--resume", str(folder)])


def check_named(options: RunOptions, given: Mapping[str, Any], where: str, again: Sequence[str]) -> None:
    """InputError where options name code and what is `given` does not: a file makes nothing run by itself.

    `where` is the file that they are from. The error has the command `again`, with the flags that it needs.
    """
    absent = {name: value for name, value in _named_by(options).items() if not given.get(name)}
    if absent:
        own, missing = _words(given), _words(absent)
        rule = next((rule for name, rule in RULES.items() if name in absent), RULE)
        raise InputError(
            f"{where}: expected {shlex.join(missing)}, which was not given: {rule}; again with:"
            f" {shlex.join([*again, *own, *missing])}"
        )


def check_settings(config: Any, settings: Sequence[str], where: str, again: Sequence[str]) -> None:
    """InputError where a method's config of a file names code that `settings`, the user's `--set`, do not name."""
    if missing := missing_code(config, settings):
        own = [word for setting in settings for word in ("--set", setting)]
        raise InputError(
            f"{where}: expected {shlex.join(missing)}, which was not given: code in a file is imported only if you name"
            f" it; again with: {shlex.join([*again, *own, *missing])}"
        )


def check_no_other(config: Any, settings: Sequence[str]) -> None:
    """InputError where `settings` of a run that goes on are more than the code that its method names."""
    named = {f"method.{key}={text}" for key, text, mark in code_settings(config) if mark.refers(text)}
    whole = missing_code(config, ())
    for setting in settings:
        if not setting.startswith("method.") or missing_code(config, [setting]) == whole:
            expected = f"nothing but {' and '.join(sorted(named))}" if named else "none with --resume"
            raise InputError(f"--set {setting}: expected {expected}")


def code_flags(resolved: RunConfig) -> list[str]:
    """The words that `egrl run --resume` needs for this run: what makes code run, in flags and settings."""
    return [*_words(_named_by(resolved.run)), *missing_code(resolved.method, ())]


def _named_by(options: RunOptions) -> dict[str, str]:
    """The options by which a file would make code run: code in files, a command, or another machine's cluster."""
    named = {
        name: getattr(options, name) for name, kind in KINDS.items() if kind.refers(getattr(options, name))
    }
    if is_command(options.evaluator):
        named["evaluator"] = options.evaluator
    if options.ray_address not in ("", OWN_CLUSTER):
        named["ray_address"] = options.ray_address
    return named


def _words(options: Mapping[str, Any]) -> list[str]:
    """The words of a command for these options."""
    return [word for name, value in options.items() for word in (_flags([name]), str(value))]


def larger(options: RunOptions, given: Mapping[str, Any], anew: bool = False) -> RunOptions:
    """The options of a resumed run; InputError where the new budget is not of the old kind and at least as large.

    `anew`: the run begins from its start, so that any budget of the old kind will do.
    """
    changed = typed_tables.build(RunOptions, typed_tables.plain_table(options) | given, typed_tables.FLAGS)
    old = _budget_of(options)
    new = {k: given[k] for k in BUDGETS if k in given}
    for key, value in new.items():
        if key not in old or (value < old[key] and not anew):
            expected = ", ".join(f"--{k} of at least {v}" for k, v in old.items())
            raise InputError(f"--resume: expected a larger budget, {expected}; found --{key} {value}")
    if bool(given.get("evaluator", options.evaluator)) != bool(options.evaluator):
        measured = "an evaluator" if options.evaluator else "none: the model measured this run"
        raise InputError(f"--evaluator: expected {measured}, found {given['evaluator']!r}")
    config.check_options(changed)
    return changed


def in_evaluations(
    options: RunOptions, evaluator: EvaluatorConfig, requests: int, anew: bool
) -> tuple[RunOptions, EvaluatorConfig]:
    """A budget in requests of a run that goes on: with its evaluations, and how often the best is measured again.

    InputError where no board measures the run, its budget is no number of evaluations, or that has more already.
    """
    found = f"found --requests {requests}"
    if not options.evaluator:
        raise InputError(f"--resume: expected a budget for the model, which measured this run, {found}")
    if options.evals is None:
        expected = ", ".join(f"--{kind} of at least {value}" for kind, value in _budget_of(options).items())
        raise InputError(f"--resume: expected a larger budget, {expected}; {found}")
    counted = {name: value for name, value in settings_of_requests(requests).items() if name != "repeats"}
    settings = replace(evaluator, **counted)
    evals = evaluations_of_requests(requests, settings, options.generation_evals)
    if evals < options.evals and not anew:
        raise InputError(
            f"--resume: expected more requests than the run has had, whose budget is {options.evals} evaluations;"
            f" {found}, which are {evals}"
        )
    warnings.warn(Notice(words_of_requests(requests, evals, options.method)), stacklevel=5)
    return replace(options, evals=evals), settings


def _budget_of(options: RunOptions) -> dict[str, Any]:
    """The flag of the options' budget -> its value."""
    return options.budget() or {"gens": DEFAULT_GENERATIONS}


def nothing_left(resolved: RunConfig, end: str, folder: Path) -> str:
    """Why a resumed run did nothing, and how to continue it; `end` is `stopped` of its summary."""
    again = ["egrl", "run", "--resume", str(folder), *code_flags(resolved)]
    if end == METHOD:
        return "nothing was left to do: the method has no more to propose"
    if end == GAP:
        return (
            "nothing was left to do: the best is near enough to what is proven; a smaller --until-gap goes on:"
            f" {shlex.join([*again, '--until-gap', config.NEVER])}"
        )
    kind, value = next(iter(_budget_of(resolved.run).items()))
    spent, more = (f"{v:g}" if isinstance(v, float) else str(v) for v in (value, 2 * value))
    return (
        f"nothing was left to do: the run has spent its budget, --{kind} {spent}; a larger one goes on:"
        f" {shlex.join([*again, f'--{kind}', more])}"
    )


def resolve_again(
    folder: Path,
    given: Mapping[str, Any],
    external: bool = False,
    settings: Sequence[str] = (),
    new_board: bool = False,
) -> RunConfig:
    """The configuration with which a run folder goes on: its own, with the options that are `given` changed.

    `external`: the caller measures, so that no command is started. `new_board`: it begins anew.
    InputError if its config.toml is damaged, if a change is not allowed, or if it names code that neither `given` nor
    the `--set` `settings` name.
    """
    where = str(folder / run_folder.CONFIG)
    tables, old = config.read_folder(folder)
    if external or given.get("executor") == "local":  # the address was the old executor's
        old = replace(old, executor="local", ray_address="")
    check_code(replace(old, evaluator="") if external else old, given, where, folder)
    if new_board and not old.evaluator:
        raise InputError(
            "--new-board: expected a run that a board measured, found one that the model measured"
        )
    requests = given.get(REQUESTS)
    options = larger(old, {name: value for name, value in given.items() if name != REQUESTS}, new_board)
    kinds = {
        "problem": problems.find_problem(options.problem).load().config,
        "method": methods.find_method(options.method).config,
        "evaluator": EvaluatorConfig,
    }
    own: dict[str, Any] = {
        name: typed_tables.build(kind, tables[name], f"{where}: {name}") for name, kind in kinds.items()
    }
    check_no_other(own["method"], settings)
    check_settings(own["method"], settings, where, ["egrl", "run", "--resume", str(folder)])
    typed_tables.check_code(own["method"])
    if requests is not None:
        typed_tables.build(RunOptions, {"workload": options.workload, REQUESTS: requests}, typed_tables.FLAGS)
        options, own["evaluator"] = in_evaluations(options, own["evaluator"], requests, new_board)
    return RunConfig(options, **own)


def options_of_file(
    file: str, given: Mapping[str, Any], settings: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """The options and the `--set` settings of a config.toml, those that are `given` instead of its own.

    Another problem or method than the file's comes with its own defaults, and any budget replaces the file's.
    InputError where the file is none, something in it is wrong, or it names code that is not `given`, too.
    """
    tables = config.read_toml(read_text(file, "a config file (config.toml of a run)"), file)
    old = typed_tables.build(RunOptions, tables["run"], f"{file}: run")
    options = typed_tables.plain_table(old)
    if any(key in given for key in (*BUDGETS, REQUESTS)):
        options = {key: value for key, value in options.items() if key not in BUDGETS}
    if given.get("executor") == "local":  # the address was the old executor's
        options["ray_address"] = ""
    if given.get("problem", old.problem) != old.problem:
        options |= {"chip": "", "method": ""}
    options |= given
    again = ["egrl", "run", "--config", file, *(word for setting in settings for word in ("--set", setting))]
    check_named(replace(old, **options), given, file, again)
    entry = problems.find_problem(options["problem"])
    options["method"] = options["method"] or entry.method
    kinds = {
        "problem": (entry.load().config, options["problem"] == old.problem),
        "method": (methods.find_method(options["method"]).config, options["method"] == old.method),
        "evaluator": (EvaluatorConfig, bool(options["evaluator"])),
    }
    kept: list[str] = []
    for name, (kind, used) in kinds.items():
        if used:
            built: Any = typed_tables.build(kind, tables[name], f"{file}: {name}")
            if name == "method":
                check_settings(built, [s for s in settings if s.startswith("method.")], file, again)
            values = typed_tables.dotted_keys(typed_tables.plain_table(built))
            if name == "evaluator" and REQUESTS in given:
                values = {key: value for key, value in values.items() if key not in config.COUNTED}
            kept += [f"{name}.{key}={_toml(value)}" for key, value in values.items()]
    return {key: value for key, value in options.items() if value != ""}, [*kept, *settings]


def _toml(value: Any) -> str:
    """A value as TOML has it: JSON's texts, numbers, lists and switches are TOML's."""
    return json.dumps(value, ensure_ascii=False)
