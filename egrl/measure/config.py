"""How an evaluator is used, the table [evaluator] of a configuration, and what it is called there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from workloads.errors import InputError

Function = Callable[[Sequence[Mapping[str, Any]]], Any]
LOG = "evaluator.log"
"""File of a run folder: what went wrong with the evaluator, a line each."""
BASELINE_SAMPLES = 5
PATIENCE = ("timeout_s", "start_timeout_s", "timeout_factor", "timeout_floor_s", "retries", "restarts")
"""Time limits and numbers of attempts, which may change when a run is resumed."""


@dataclass(frozen=True)
class EvaluatorConfig:
    """How an evaluator is used: `--set evaluator.KEY=VALUE`. It has no effect without `--evaluator`."""

    timeout_s: Annotated[float, Gt(0), Le(1e6), Doc("seconds after which a request counts as a time-out")] = (
        60.0
    )
    start_timeout_s: Annotated[
        float, Ge(0), Le(1e6), Doc("seconds that the first request after a start may take beyond `timeout_s`")
    ] = 60.0
    timeout_factor: Annotated[
        float,
        Gt(1),
        Le(1e6),
        Doc("a request also times out after this many times the duration of the best mapping's request"),
    ] = 10.0
    timeout_floor_s: Annotated[
        float, Ge(0), Le(1e6), Doc("seconds below which `timeout_factor` ends no request")
    ] = 1.0
    retries: Annotated[
        int, Ge(0), Le(100), Doc("how often a request is repeated if it got no usable answer")
    ] = 2
    restarts: Annotated[
        int,
        Ge(1),
        Le(100),
        Doc("how often a board that died or fell silent is started again before it is given up"),
    ] = 5
    warmup: Annotated[
        int, Ge(0), Le(1000), Doc("measurements of the baseline that are discarded at the start")
    ] = 1
    repeats: Annotated[
        int,
        Ge(1),
        Le(1000),
        Doc("most measurements of a mapping that may be the best; the noise decides how many are needed"),
    ] = 5
    width: Annotated[
        float,
        Gt(0),
        Le(1),
        Doc("measuring again ends at this half-width of the 95% interval, as a share of the latency"),
    ] = 0.01
    statistic: Annotated[
        Literal["median", "minimum"], Doc("which statistic of the samples is the latency")
    ] = "median"
    confirm: Annotated[
        bool,
        Doc("if true, the leading mapping is measured again once per generation, for confirmed_speedup"),
    ] = True
    contenders: Annotated[
        int,
        Ge(0),
        Le(1000),
        Doc("mappings within the noise of the best that are measured again at the end (0: none)"),
    ] = 10
    rounds: Annotated[int, Ge(1), Le(1000), Doc("most rounds of measuring the contenders again, in turn")] = (
        10
    )
    comparisons: Annotated[
        int,
        Ge(1),
        Le(1000),
        Doc(
            "most measurements of the best and of the baseline at the end, alternating, which confirm the speedup"
        ),
    ] = 20
    exact: Annotated[
        bool, Doc("if true, equal mappings always take equally long (a simulator): nothing is measured again")
    ] = False


PYTHON = "python:"
"""How the name of a function begins where that of a command would stand."""
REPORTED = "told:seconds"
"""What a config holds in place of an evaluator's command if the caller reports the seconds."""


def name_of(evaluator: str | Function) -> str:
    """What a config holds of an evaluator: the command, or the function's name. InputError where it is neither."""
    if isinstance(evaluator, str):
        if not evaluator.strip():
            raise InputError("--evaluator: expected a command, found an empty one")
        return evaluator
    if not callable(evaluator):
        raise InputError(f"evaluator: expected a command or a function, found {evaluator!r}")
    kind = getattr(evaluator, "__qualname__", type(evaluator).__qualname__)
    return f"{PYTHON}{getattr(evaluator, '__module__', '')}.{kind}"


def is_command(name: str) -> bool:
    """Whether what a config holds of an evaluator is a command, which can be started again."""
    return bool(name) and name != REPORTED and not name.startswith(PYTHON)
