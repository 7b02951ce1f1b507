"""The settings of the MCM problem, and the package that they ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from annotated_types import Ge, Le
from typing_extensions import Doc

from hwsim.mcm.package import MAX_CHIPS, Package
from workloads.errors import InputError


@dataclass(frozen=True)
class McmConfig:
    """Settings of the problem."""

    model: Annotated[
        Literal["analytical", "device"],
        Doc(
            '"analytical" adds up latencies (`hwsim/mcm/cost.py`); "device" adds an order, peak memory and'
            " messages, and some partitions do not run on it (`hwsim/mcm/device.py`)"
        ),
    ] = "analytical"
    solver: Annotated[
        bool,
        Doc(
            "if true, SAMPLE and FIX make every mapping a valid partition; if false, mappings are drawn"
            " node by node and judged as they are"
        ),
    ] = True
    baseline: Annotated[
        Literal["greedy", "random"],
        Doc('what speedups are relative to: "greedy" (balanced) or "random" runs of nodes'),
    ] = "greedy"
    copies: Annotated[bool, Doc("if true, widely read nodes without weights are copied for each reader")] = (
        True
    )
    backtracks: Annotated[
        int, Ge(1), Le(10**9), Doc("decisions that the solver may take back per mapping")
    ] = 500
    chips: Annotated[int, Ge(0), Le(2**31), Doc("number of chips; 0: as many as the package has")] = 0


def check_names(config: McmConfig) -> None:
    """Raise InputError if the settings name a model or a baseline that does not exist."""
    for name, values in (("model", ("analytical", "device")), ("baseline", ("greedy", "random"))):
        if getattr(config, name) not in values:
            raise InputError(
                f"problem.{name}: expected {' or '.join(values)}, found {getattr(config, name)!r}"
            )


def resize(package: Package, chips: int) -> Package:
    """The package with another number of chips; 0: as it is. Raises InputError if that is too many."""
    if chips > MAX_CHIPS:
        raise InputError(
            f"problem.chips: expected 0 (the package's own) to {MAX_CHIPS}, found {chips}: the solver holds the"
            " chips that a node may take as bits of an integer"
        )
    return replace(package, chips=chips) if chips else package
