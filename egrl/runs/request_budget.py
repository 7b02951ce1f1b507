"""A budget in requests to boards: how many mappings it allows, and how often the best are measured again.

    requests = the baseline, before anything else + one request per evaluation + one per generation, which measures
               the best again + naming the best, at the end

Deviation from what boards are otherwise asked: no mapping is measured again during the search, and a fifth of the
requests names the best. What fails and is tried again comes on top; what comes again is not asked again.
"""

from __future__ import annotations

from typing import Any

from egrl.measure.config import EvaluatorConfig
from egrl.measure.references import BASELINE_SAMPLES
from workloads.errors import InputError

NAMING = 0.2
"""Share of the requests that may name the best; assumption: one in five keeps a champion from being luck."""
MOST = EvaluatorConfig.contenders
"""Contenders, and rounds, at most: as without a budget in requests."""
DEFAULT = 100
"""Requests to a board where no budget is given: minutes on most, where evaluations by the thousand would take days."""
FEW = 40
"""Below so many there are no two contenders that are measured again to name the best."""
LEARNING = ("egrl", "twin")
"""Methods that learn a model of the board, which takes measurements."""
COUNTED = ("repeats", "contenders", "rounds")
"""Settings of an evaluator that follow from how many requests there are."""


def settings(requests: int) -> dict[str, Any]:
    """The settings of an evaluator by name, unless the user sets others.

    As many contenders as rounds of measuring them in turn, as many as the share for it allows.
    """
    fitting = [count for count in range(1, MOST + 1) if _naming(count, count) <= NAMING * requests]
    return {
        "repeats": 1,
        "contenders": fitting[-1] if fitting else 0,
        "rounds": fitting[-1] if fitting else 1,
    }


def said(requests: int, evaluations: int, method: str) -> str:
    """A budget in words: what of it goes where, and what is lost where it is below `FEW`."""
    others = requests - evaluations
    text = (
        f"--requests {requests}: {evaluations} evaluations; measuring the baseline, and the best again, takes at most"
        f" the other {others}"
    )
    if requests >= FEW:
        return text
    model = f", and the model of the board that {method} learns has little data" if method in LEARNING else ""
    return f"{text}; with fewer than {FEW} the best is chosen by one measurement of each mapping{model}"


def _naming(contenders: int, rounds: int) -> int:
    """Requests that name the best, at most: the contenders in turn, then the best of them and the baseline."""
    return (contenders + 2) * rounds if contenders else 0


def evaluations(requests: int, config: EvaluatorConfig, generation_evals: int) -> int:
    """Evaluations that leave enough of so many requests for everything else.

    InputError where there are none, or a mapping may be measured more than once.
    """
    if config.repeats != 1:
        raise InputError(
            f"--set evaluator.repeats: expected 1 with --requests, which counts them, found {config.repeats}"
        )
    others = config.warmup + BASELINE_SAMPLES + _naming(config.contenders, config.rounds)
    if requests <= others:
        raise InputError(
            f"--requests: expected more than {others}, which the baseline and naming the best may need, found"
            f" {requests}"
        )
    left = requests - others
    # One after every whole generation but the last: the most n with n + (n - 1) // generation_evals <= left.
    return left - left // (generation_evals + 1) if config.confirm else left
