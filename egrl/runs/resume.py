"""What may change when a run is resumed: a larger budget, and what changes no result."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from egrl import methods, problems
from egrl.core.budget import BUDGETS, DEFAULT_GENERATIONS
from egrl.core.typed_tables import code_settings, dotted_keys, missing_code, plain_table
from egrl.measure.config import PATIENCE
from egrl.measure.evaluator import is_command
from egrl.runs.config import RunConfig, RunOptions
from workloads.errors import InputError

RESUMABLE = (*BUDGETS, "workers", "executor", "ray_address", "checkpoint_seconds", "evaluator")
"""Options that may change when a run is resumed: a larger budget, and what changes no result."""
KINDS = {"method": methods.KIND, "problem": problems.KIND}
"""Options that may be given again, and must be where they are MODULE:NAME."""

AT_THE_ENDS = ("bound_seconds", "exact_seconds")
"""Options of what comes before and after the search: the start is kept in the folder, the bound is proved anew."""


def fixed_settings(config: RunConfig) -> dict[str, Any]:
    """Dotted key of config.toml -> value, of all that may not change when the run is resumed."""
    free = {f"run.{name}" for name in (*RESUMABLE, *AT_THE_ENDS)} | {f"evaluator.{name}" for name in PATIENCE}
    return {key: value for key, value in dotted_keys(plain_table(config)).items() if key not in free}


def check_only(given: Mapping[str, Any]) -> None:
    """InputError where options (None or empty: not given) are among those that cannot change."""
    found = [
        name
        for name, value in given.items()
        if value not in (None, "", ()) and name not in (*RESUMABLE, *KINDS)
    ]
    if found:
        raise InputError(f"--resume: expected no other flags than {_flags(RESUMABLE)}; found {_flags(found)}")


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
    flags = code_flags(options)
    missing = [
        word
        for flag, value in zip(flags[::2], flags[1::2], strict=True)
        if not given.get(flag.removeprefix("--"))
        for word in (flag, value)
    ]
    if missing:
        own = [word for name, value in given.items() for word in (_flags([name]), str(value))]
        rule = (
            "a command in a file is started only if you give it"
            if "--evaluator" in missing
            else "code in a file is imported only if you name it"
        )
        raise InputError(
            f"{where}: expected {shlex.join(missing)}, which was not given: {rule}; again with:"
            f" {shlex.join([*again, *own, *missing])}"
        )


def check_settings(config: Any, settings: Sequence[str], where: str, again: Sequence[str]) -> None:
    """InputError where a method's config of a file names code that `settings`, the user's `--set`, do not name."""
    if missing := missing_code("method", config, settings):
        own = [word for setting in settings for word in ("--set", setting)]
        raise InputError(
            f"{where}: expected {shlex.join(missing)}, which was not given: code in a file is imported only if you name"
            f" it; again with: {shlex.join([*again, *own, *missing])}"
        )


def check_no_other(config: Any, settings: Sequence[str]) -> None:
    """InputError where `settings` of a run that goes on are more than the code that its method names."""
    named = {f"method.{key}={text}" for key, text, mark in code_settings(config) if mark.refers(text)}
    whole = missing_code("method", config, ())
    for setting in settings:
        if not setting.startswith("method.") or missing_code("method", config, [setting]) == whole:
            expected = f"nothing but {' and '.join(sorted(named))}" if named else "none with --resume"
            raise InputError(f"--set {setting}: expected {expected}")


def code_flags(options: RunOptions) -> list[str]:
    """The words that `egrl run --resume` needs for this run: flags that name code in files, and a command."""
    named = {
        name: getattr(options, name) for name, kind in KINDS.items() if kind.refers(getattr(options, name))
    }
    if is_command(options.evaluator):
        named["evaluator"] = options.evaluator
    return [word for name, value in named.items() for word in (f"--{name}", value)]


def larger(options: RunOptions, given: Mapping[str, Any]) -> RunOptions:
    """The options of a resumed run; InputError where the new budget is not of the old kind and at least as large."""
    old = _budget_of(options)
    new = {k: given[k] for k in BUDGETS if k in given}
    for key, value in new.items():
        if key not in old or value < old[key]:
            expected = ", ".join(f"--{k} of at least {v}" for k, v in old.items())
            raise InputError(f"--resume: expected a larger budget, {expected}; found --{key} {value}")
    if bool(given.get("evaluator", options.evaluator)) != bool(options.evaluator):
        measured = "an evaluator" if options.evaluator else "none: the model measured this run"
        raise InputError(f"--evaluator: expected {measured}, found {given['evaluator']!r}")
    if given.get("executor") == "local":  # the address was the old executor's
        options = replace(options, ray_address="")
    return replace(options, **given)


def _budget_of(options: RunOptions) -> dict[str, Any]:
    """The flag of the options' budget -> its value."""
    return options.budget() or {"gens": DEFAULT_GENERATIONS}


def nothing_left(options: RunOptions, finished: bool, folder: Path) -> str:
    """Why a run that was resumed did nothing, and how it would do more."""
    if finished:
        return "nothing was left to do: the method has no more to propose"
    kind, value = next(iter(_budget_of(options).items()))
    spent, more = (f"{v:g}" if isinstance(v, float) else str(v) for v in (value, 2 * value))
    return (
        f"nothing was left to do: the run has spent its budget, --{kind} {spent}; a larger one goes on:"
        f" {shlex.join(['egrl', 'run', '--resume', str(folder), *code_flags(options), f'--{kind}', more])}"
    )
