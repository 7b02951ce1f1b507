"""How an evaluator is used: the table [evaluator] of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

PATIENCE = ("timeout_s", "start_timeout_s", "timeout_factor", "timeout_floor_s", "retries", "restarts")
"""Settings of how long is waited and how often tried, which may change when a run is resumed."""


@dataclass(frozen=True)
class EvaluatorConfig:
    """How an evaluator is used: `--set evaluator.KEY=VALUE`. Nothing of it matters without `--evaluator`.

    Attributes:
        timeout_s: a request that takes longer is a time-out.
        start_timeout_s: allowed on top of it for the first request after a start.
        timeout_factor: nor may it take longer than so many times the request of the best mapping known …
        timeout_floor_s: … and this is allowed in any case.
        retries: further tries of a request that got no usable answer.
        restarts: tries to make a board that died or fell silent measure the baseline; then it is given up.
        warmup: first measurements of the baseline that are thrown away.
        repeats: a mapping that may be the best is measured up to so often, as the noise demands.
        width: half-width of the 95% interval, as a share of the latency, at which repeating ends.
        statistic: what a latency is of its samples.
        contenders: mappings within the noise of the best that are measured again, in turn, at the end (0: none).
        rounds: of that at most.
    """

    timeout_s: Annotated[float, Gt(0), Le(1e6)] = 60.0
    start_timeout_s: Annotated[float, Ge(0), Le(1e6)] = 60.0
    timeout_factor: Annotated[float, Gt(1), Le(1e6)] = 10.0
    timeout_floor_s: Annotated[float, Ge(0), Le(1e6)] = 1.0
    retries: Annotated[int, Ge(0), Le(100)] = 2
    restarts: Annotated[int, Ge(1), Le(100)] = 5
    warmup: Annotated[int, Ge(0), Le(1000)] = 1
    repeats: Annotated[int, Ge(1), Le(1000)] = 5
    width: Annotated[float, Gt(0), Le(1)] = 0.01
    statistic: Literal["median", "minimum"] = "median"
    contenders: Annotated[int, Ge(0), Le(1000)] = 10
    rounds: Annotated[int, Ge(1), Le(1000)] = 10
