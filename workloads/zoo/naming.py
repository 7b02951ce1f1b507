"""Names of networks: the builder's, followed by what is not at its default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from inspect import signature
from typing import ParamSpec

from workloads.workload import Workload

P = ParamSpec("P")


def variant_name(base: str, builder: Callable[..., Workload], **given: object) -> str:
    """`base`, followed by every parameter of `builder` that was not given its default."""
    known = signature(builder).parameters
    return base + "".join(f"-{key}{value}" for key, value in given.items() if value != known[key].default)


def network(build: Callable[P, Workload]) -> Callable[P, Workload]:
    """The same builder, whose workloads bear its name and what of its arguments is not at its default."""

    @wraps(build)
    def named(*args: P.args, **kwargs: P.kwargs) -> Workload:
        base = build.__name__ + "".join(f"_{arg}" for arg in args)
        return replace(build(*args, **kwargs), name=variant_name(base, build, **kwargs))

    return named
