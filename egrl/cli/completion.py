"""Completion in shells of the names that flags take: workloads, methods, chips, problems and figures.

The shell asks click for it, which asks a parameter's type (`egrl` with `_EGRL_COMPLETE` set; see README.md).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from workloads.errors import InputError

Names = Callable[[Mapping[str, Any]], Iterable[str]]
"""The names that there are, beside what else was typed: flag -> value."""


class NameType(click.types.StringParamType):
    """A text for which a shell offers names, and files where none begins so; of several with commas the last one."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin as what was typed; where there are none, the shell offers files."""
        before, comma, begun = incomplete.rpartition(",")
        try:
            found = [name for name in self._names(ctx.params) if name.startswith(begun)]
        except InputError:  # the problem that was typed is none
            found = []
        return [CompletionItem(f"{before}{comma}{name}") for name in found] or [
            CompletionItem(incomplete, type="file")
        ]


def with_names(command: click.Command) -> click.Command:
    """The command, of whose parameters those that take names offer them."""
    for param in command.params:
        names = NAMES.get(param.opts[0])
        if names is not None and type(param.type) is click.types.StringParamType:
            param.type = NameType(names)
    return command


def _workloads(given: Mapping[str, Any]) -> Sequence[str]:
    from egrl.problems import KIND, find_problem
    from egrl.runs.config import RunOptions

    problem = given.get("problem") or RunOptions.problem

    if KIND.refers(problem):  # a key that is pressed runs no code
        return ()
    if problem not in KIND.own:
        return [str(entry["name"]) for entry in find_problem(problem).load().workloads()]
    if problem == "mmap":
        from workloads.programs import program_names

        return program_names()
    from workloads.load import all_names
    from workloads.zoo.mcm87 import MCM87_NAME, SIZES

    return [*all_names(), *(f"{MCM87_NAME}:{part}" for part in SIZES)]


def _of(module: str) -> Names:
    """The names of the registry in a module: the package's own, then those of plug-ins."""

    def names(given: Mapping[str, Any]) -> Sequence[str]:
        from egrl.core.plugins import installed

        kind = importlib.import_module(module).KIND
        return [*kind.own, *installed(kind)]

    return names


def _chips(given: Mapping[str, Any]) -> Sequence[str]:
    """Of the problem that was typed; of a file's none, since a key that is pressed runs no code."""
    from egrl.problems import KIND, find_problem
    from egrl.runs.config import RunOptions

    problem = given.get("problem") or RunOptions.problem
    return () if KIND.refers(problem) else find_problem(problem).load().chips()


NAMES: dict[str, Names] = {
    "workload": _workloads,
    "--workload": _workloads,
    "--workloads": _workloads,
    "--validation": _workloads,
    "--method": lambda given: ["auto", *_of("egrl.methods")(given)],
    "--methods": _of("egrl.methods"),
    "--problem": _of("egrl.problems"),
    "--chip": _chips,
    "--like": _chips,
    "figure": _of("egrl.figures"),
    "--to": _of("egrl.runs.plan_export"),
    "paper": _of("egrl.reproduction.registry"),
}
"""Flag or argument -> the names that it takes."""
