"""What a search is given, by name, as a file or as an object, made one typed configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, cast

from egrl.core import typed_tables
from egrl.core.method import Context, Method
from egrl.core.plugins import NoSettings
from egrl.core.registry import MethodDefinition, serves_all
from egrl.methods import METHODS
from egrl.runs.config import RunConfig, RunOptions
from egrl.runs.prepare import Prepared, build_problem, prepare
from egrl.runs.resolve import resolve
from hwsim.problem import About
from hwsim.space import Space
from workloads.errors import InputError
from workloads.nearest import one_of

MethodLike = str | MethodDefinition | Callable[[Context], Method] | Any
"""A name, a definition, the settings of a registered method, or what makes a method of a context."""


@dataclass(frozen=True)
class GivenMethod:
    """A method: its name for people, and what it is where it is no registered one.

    Attributes:
        name: as `--method` takes it, for a registered one.
        definition: None for a registered method.
        config: its settings, where they are given as an object.
    """

    name: str
    definition: MethodDefinition | None = None
    config: Any = None


def method_of(given: MethodLike) -> GivenMethod:
    """The method that is meant. InputError where it is none."""
    if given is None or isinstance(given, str):
        return GivenMethod(given or "")
    if isinstance(given, MethodDefinition):
        known = next(
            (name for name, entry in METHODS.items() if not entry.family and entry.load() is given), None
        )
        return GivenMethod(known or "given", None if known else given)
    if is_dataclass(given) and not isinstance(given, type):
        for name, entry in METHODS.items():
            if not entry.family and entry.load().config is type(given):
                return GivenMethod(name, config=given)
    elif callable(given):
        build = cast(Callable[[Context], Method], given)
        made = MethodDefinition(NoSettings, lambda context, config: build(context), serves_all, {})
        return GivenMethod(getattr(given, "__name__", "given"), made, NoSettings())
    raise InputError(
        "method: expected a name, a MethodDefinition, the settings of a method or a function of a Context, found"
        f" {given!r}"
    )


def is_problem(given: Any) -> bool:
    """Whether it is a problem, and no name, file, workload or program."""
    return isinstance(getattr(given, "about", None), About) and isinstance(
        getattr(given, "space", None), Space
    )


def name_of(given: Any, what: str) -> str:
    """What `RunOptions` says of a workload or a chip: the name or path, an object's own name; "" of None.

    InputError where it has none.
    """
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    name = given.about.workload if is_problem(given) else getattr(given, "name", None)
    if not isinstance(name, str) and given is not None:
        raise InputError(f"{what}: expected a name, a path or an object with a name, found {given!r}")
    return name or ""


def options_of(
    options: Mapping[str, Any], known: Collection[str], workload: Any, method: MethodLike, chip: Any
) -> dict[str, Any]:
    """What is given, by the names of `RunOptions`; what is None or "" is not. Paths are texts, objects their names.

    InputError where an option is none of those `known`.
    """
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(f"option: {one_of(unknown[0], known)}")
    given = {name: _plain(value) for name, value in options.items() if value is not None}
    names = {
        "workload": name_of(workload, "workload"),
        "method": method_of(method).name,
        "chip": name_of(chip, "chip"),
    }
    if is_problem(workload):
        given["problem"], names["chip"] = workload.about.name, workload.about.chip
    return given | {name: value for name, value in names.items() if value}


def _plain(value: Any) -> Any:
    """A path as text; anything else as it is, for the types to be checked."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


@dataclass(frozen=True)
class Asked:
    """A new search as it was asked for.

    Attributes:
        resolved: its configuration.
        workload, chip: as they were given.
        definition: the method, where it is no registered one.
    """

    resolved: RunConfig
    workload: Any
    chip: Any
    definition: MethodDefinition | None

    def prepare(self) -> Prepared:
        """The problem and the method. InputError where the one cannot be built, or the other does not serve it."""
        problem = self.workload
        if not is_problem(problem):
            names = str | os.PathLike | None
            objects = [None if isinstance(given, names) else given for given in (problem, self.chip)]
            problem = build_problem(self.resolved, *objects)
        return prepare(self.resolved, problem, self.definition)

    def check_kept(self) -> None:
        """InputError where a run folder could not say what the method or the problem is."""
        if self.definition is not None or is_problem(self.workload):
            raise InputError(
                "out: expected method and problem by name, so that the run can go on; found an object"
            )


def asked(
    given: Mapping[str, Any],
    workload: Any,
    method: MethodLike,
    chip: Any,
    settings: Sequence[str] | None,
    preset: str,
) -> Asked:
    """A new search; `given` is what `options_of` made of the arguments. InputError where something is wrong."""
    meant = method_of(method)
    chosen = typed_tables.build(RunOptions, given, "options")
    resolved = resolve(chosen, settings or (), preset, meant.definition, is_problem(workload))
    if meant.config is not None:
        resolved = replace(resolved, method=meant.config)
    return Asked(resolved, workload, chip, meant.definition)
