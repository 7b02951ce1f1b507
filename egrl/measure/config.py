"""How an evaluator is used: the table [evaluator] of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

PATIENCE = ("timeout_s", "start_timeout_s", "timeout_factor", "timeout_floor_s", "retries", "restarts")
"""Settings of how long is waited and how often tried, which may change when a run is resumed."""


@dataclass(frozen=True)
class EvaluatorConfig:
    """How an evaluator is used: `--set evaluator.KEY=VALUE`. Nothing of it matters without `--evaluator`."""

    timeout_s: Annotated[float, Gt(0), Le(1e6), Doc("a request that takes longer is a time-out")] = 60.0
    start_timeout_s: Annotated[
        float, Ge(0), Le(1e6), Doc("allowed on top of it for the first request after a start")
    ] = 60.0
    timeout_factor: Annotated[
        float,
        Gt(1),
        Le(1e6),
        Doc("nor may it take longer than so many times the request of the best mapping known …"),
    ] = 10.0
    timeout_floor_s: Annotated[float, Ge(0), Le(1e6), Doc("… and this is allowed in any case")] = 1.0
    retries: Annotated[int, Ge(0), Le(100), Doc("further tries of a request that got no usable answer")] = 2
    restarts: Annotated[
        int,
        Ge(1),
        Le(100),
        Doc("tries to make a board that died or fell silent measure the baseline; then it is given up"),
    ] = 5
    warmup: Annotated[
        int, Ge(0), Le(1000), Doc("first measurements of the baseline that are thrown away")
    ] = 1
    repeats: Annotated[
        int,
        Ge(1),
        Le(1000),
        Doc("a mapping that may be the best is measured up to so often, as the noise demands"),
    ] = 5
    width: Annotated[
        float,
        Gt(0),
        Le(1),
        Doc("half-width of the 95% interval, as a share of the latency, at which repeating ends"),
    ] = 0.01
    statistic: Annotated[Literal["median", "minimum"], Doc("what a latency is of its samples")] = "median"
    confirm: Annotated[
        bool,
        Doc("once a generation the mapping that leads is measured afresh: what confirmed_speedup comes from"),
    ] = True
    contenders: Annotated[
        int,
        Ge(0),
        Le(1000),
        Doc("mappings within the noise of the best that are measured again, in turn, at the end (0: none)"),
    ] = 10
    rounds: Annotated[int, Ge(1), Le(1000), Doc("of that at most")] = 10
