"""What a search is given by name, as a file or as an object: what it searches, and how."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any, cast

from egrl.core.method import Context, Method
from egrl.core.plugins import NoSettings
from egrl.core.registry import MethodDefinition, serves_all
from egrl.methods import METHODS
from hwsim.problem import About
from hwsim.space import Space
from workloads.errors import InputError

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
    if isinstance(given, str):
        return GivenMethod(given)
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


def object_of(given: Any) -> Any:
    """A workload or a chip that is an object; None for a name or a path."""
    return None if isinstance(given, str | os.PathLike) else given


def name_of(given: Any, what: str) -> str:
    """What `RunOptions` says of a workload, a chip or a problem: the name or path, an object's own name.

    InputError where it has none.
    """
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    name = given.about.workload if is_problem(given) else getattr(given, "name", None)
    if not isinstance(name, str):
        raise InputError(f"{what}: expected a name, a path or an object with a name, found {given!r}")
    return name
