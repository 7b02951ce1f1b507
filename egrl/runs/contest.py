"""Mappings measured against each other on a board: all in turn, as often as a budget in requests allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egrl.measure.board_executor import BoardExecutor
from egrl.runs.naming import sampler_of
from hwsim.measure import Measurement, Practice, interleave
from hwsim.paired import Noise, is_same, paired_interval, pooled
from hwsim.problem import Mapping16
from workloads.errors import InputError, RunFailure

LEAST_ROUNDS = 2


@dataclass(frozen=True)
class Contest:
    """M mappings that were measured in turn; the first is the baseline's.

    Attributes:
        measured: of each mapping; infinite where it cannot be measured.
        noise: of these and of what was known of the baseline.
        same: False where the baseline does not take what it took in the run before.
    """

    measured: Sequence[Measurement]
    noise: Noise
    same: bool = True

    def runs(self, at: int) -> bool:
        """Whether a mapping could be measured."""
        return math.isfinite(self.measured[at].value)

    def speedup(self, at: int, over: int = 0) -> float:
        """The speedup of one mapping over another."""
        return self.measured[over].value / self.measured[at].value

    def interval(self, at: int, over: int = 0) -> tuple[float, float]:
        """The 95 % interval of that, low and high (closed)."""
        if at == over:
            return 1.0, 1.0
        return paired_interval(self.measured[at], self.measured[over], self.noise)

    def kept(self, at: int, of: int) -> tuple[float, float, float]:
        """The share of the gain of mapping `of` that another one keeps: as measured, and its 95 % interval.

        Of what `of` gains as measured; infinite where that is nothing.
        """
        gain = math.log(self.speedup(of))
        beside = (self.speedup(at, of), *self.interval(at, of))
        if gain <= 0:
            return (math.inf, -math.inf, math.inf)
        value, low, high = (1 + math.log(each) / gain for each in beside)
        return value, low, high


def contest(
    boards: BoardExecutor,
    mappings: Sequence[Mapping16],
    requests: int,
    known: Sequence[Sequence[float]] = (),
) -> Contest:
    """Measure different mappings int16 [N, H] in turn, the baseline's first among them, in so many requests.

    `known`: groups of samples of the baseline from before, which count for the noise if it takes as long as then.
    InputError where the requests are too few, RunFailure where the baseline cannot be measured.
    """
    rounds = requests // len(mappings)
    if rounds < LEAST_ROUNDS:
        least = LEAST_ROUNDS * len(mappings)
        raise InputError(f"--requests {requests}: expected at least {least}, {LEAST_ROUNDS} for each mapping")
    practice = Practice(0, rounds, rounds, 0.0, boards.config.statistic)
    measured = interleave([sampler_of(boards, boards.boards[0], m) for m in mappings], practice)
    if not math.isfinite(measured[0].value):
        raise RunFailure("--evaluator: the baseline cannot be measured; see what the evaluator says of it")
    same = all(is_same(group, measured[0].samples) for group in known if group)
    groups = [each.samples for each in measured if math.isfinite(each.value)]
    noise = pooled([*groups, *(known if same else ())])
    return Contest(measured, noise, same)


def unlike(mappings: Sequence[Mapping16]) -> list[int]:
    """The numbers of mappings that equal none before them."""
    seen: dict[bytes, int] = {}
    for number, mapping in enumerate(mappings):
        seen.setdefault(np.ascontiguousarray(mapping).tobytes(), number)
    return list(seen.values())
