"""Naming the best of a run that was measured, and confirming its speedup.

The best of many measurements is partly lucky, or an odd answer. So on every board, unless its costs are said to be
exact, what may be the best is measured again:

    a race        the contenders in turn; if the fastest of them is slower now than its search and the noise allow, its
                  first answer was odd: it counts no more, and the next ones race, `HEATS` times at most
                  of those that are level the one with the fewest changes wins
    a comparison  the winner alternating with the baseline: only this counts, since the winner's luck had no part in it

What can no longer be measured drops out. What fails is tried again as often as anything else (`RetryingBoard.ask`), and
on the next board if this one is given up. The baseline against itself is not measured: it is exactly 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.core.archive import Archive
from egrl.core.mapping_file import names_of
from egrl.measure.board import BoardFailure, excerpt
from egrl.measure.board_executor import BoardExecutor
from egrl.measure.config import EvaluatorConfig
from egrl.measure.confirming import NOISE_DEVIATIONS, contenders
from egrl.measure.evaluator import checked
from egrl.measure.records import digest
from egrl.measure.retrying_board import GivenUp, RetryingBoard
from hwsim.measure import Z95, Measurement, Practice, interleave, relative_noise
from hwsim.paired import Noise, is_same, paired_interval, pooled, student95
from hwsim.problem import Mapping16, Problem, Status

if TYPE_CHECKING:
    from egrl.runs.run import Run

LEAST_ROUNDS = 3
QUIET_ROUNDS = 2
"""Rounds that are enough where no noise is known, if what is measured is what it was."""
LEAST_COMPARISONS = 5
LEAST_REACH = 1e-6
"""A share of the cost below which no difference is odd: what times are rounded to."""
LEVEL = 0.005
"""Mappings whose times in a race differ by less than this share are equally good: the fewest changes decide."""
HEATS = 3
"""So often somebody is named, if the first answers of those before were odd."""

Sampler = Callable[[Mapping16], Callable[[], float]]
"""Gives what measures a mapping int16 [N, H] once, in seconds; infinity: it can no longer be measured."""


@dataclass(frozen=True)
class Named:
    """The best mapping of a run.

    Attributes:
        ticket: its evaluation.
        mapping: int16 [N, H].
        best, baseline: measured in turn with one another after the best was chosen, so that its luck does not count;
            one measurement where the best is the baseline's mapping.
        contenders: how many mappings were measured again to choose it.
        noise: of all that was measured more than once.
        level: how many of these are not told apart from it.
        drift: by which share the baseline takes longer than at the start; 0 where that may be noise.
    """

    ticket: int
    mapping: Mapping16
    best: Measurement
    baseline: Measurement
    contenders: int
    noise: Noise
    level: int = 0
    drift: float = 0.0

    @property
    def speedup(self) -> float:
        """Over the baseline; exactly 1 where it is the baseline's mapping."""
        return self.baseline.value / self.best.value

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the speedup, low and high (closed)."""
        if self.best is self.baseline:
            return 1.0, 1.0
        return paired_interval(self.best, self.baseline, self.noise)

    def table(self) -> dict[str, Any]:
        """What the table `evaluator` of a summary says of it."""
        return {
            "noise": self.noise.relative,
            "contenders": self.contenders,
            "confirmed": True,
            "speedup_interval": list(self.interval),
            "level": self.level,
            "drift": self.drift,
        }


class _Naming:
    """Measures what may be the best again, heat by heat.

    Attributes:
        anew: digest -> seconds by the measurements of the heats, infinite for what can no longer be measured.
    """

    def __init__(
        self,
        sampler: Sampler,
        baseline: Mapping16,
        archive: Archive,
        config: EvaluatorConfig,
        before: Sequence[float],
        noise: float,
    ) -> None:
        """`before`: seconds of the baseline measured before; `noise`: the relative noise that they have."""
        self._sampler, self._baseline, self._archive, self._config = sampler, baseline, archive, config
        self._before, self._noise = list(before), noise
        self._groups: list[Sequence[float]] = []
        self._raced: list[int] = []
        self._left = config.contenders * config.rounds + 2 * config.comparisons
        self._races: dict[str, Measurement] = {}
        self.anew: dict[str, float] = {}

    def name(self) -> Named | None:
        """The best; None where nothing that may be it can be measured. Raises what the sampler raises."""
        for _ in range(HEATS):
            tickets = contenders(self._archive, self._noise, max(self._config.contenders, 1), self.anew)
            fresh = [ticket for ticket in tickets if self._key(ticket) not in self.anew]
            if fresh[:1] != tickets[:1] or len(fresh) + 2 * QUIET_ROUNDS > self._left:
                break
            self._race(fresh)
            if any(not self._odd(ticket) for ticket in self._raced):
                break
        for ticket in self._in_order():
            if math.isfinite(self._worth(ticket)) and (found := self._compare(ticket)) is not None:
                return found
        return None

    def _in_order(self) -> list[int]:
        """Who raced, the fastest first; before all of those within `LEVEL` of it the one with the fewest changes."""
        order = sorted(self._raced, key=self._worth)
        alike = [ticket for ticket in order if self._worth(ticket) <= (1 + LEVEL) * self._worth(order[0])]
        first = min(alike, key=self._changes, default=None)
        return order if first is None else [first, *(ticket for ticket in order if ticket != first)]

    def _changes(self, ticket: int) -> int:
        return int((self._mapping(ticket) != self._baseline).sum())

    def _level(self, ticket: int, noise: Noise) -> int:
        """How many others that raced are not told apart from a mapping by their races."""
        own = self._races[self._key(ticket)]
        others = [self._races[self._key(other)] for other in self._raced if other != ticket]
        apart = [paired_interval(own, each, noise) for each in others if math.isfinite(each.value)]
        return sum(low <= 1 <= high for low, high in apart)

    def _mapping(self, ticket: int) -> Mapping16:
        return self._archive.mappings(np.array([ticket]))[0]

    def _key(self, ticket: int) -> str:
        return digest(self._mapping(ticket))

    def _worth(self, ticket: int) -> float:
        return self.anew[self._key(ticket)]

    def _odd(self, ticket: int) -> bool:
        """Whether the search measured it faster than the noise allows, which few measurements tell badly."""
        cost, known = float(self._archive.column("cost")[ticket]), pooled([*self._groups, self._before])
        reach = NOISE_DEVIATIONS * max(self._noise, known.relative) * student95(known.freedom) / Z95
        return self._worth(ticket) > cost * (1 + max(reach, LEAST_REACH))

    def _race(self, tickets: Sequence[int]) -> None:
        config, least = self._config, LEAST_ROUNDS if self._noise else QUIET_ROUNDS
        rounds = config.rounds if len(tickets) > 1 else 1
        rounds = max(min(rounds, (self._left - 2 * QUIET_ROUNDS) // len(tickets)), 1)
        race = Practice(0, min(least, rounds), rounds, config.width, config.statistic)
        mappings = [self._mapping(ticket) for ticket in tickets]
        found = interleave([self._sampler(mapping) for mapping in mappings], race, self._noise)
        for mapping, measured in zip(mappings, found, strict=True):
            self._keep(mapping, measured)
            self._races[digest(mapping)] = measured
        self._raced += tickets

    def _compare(self, ticket: int) -> Named | None:
        """The comparison with the baseline; None where the mapping can no longer be measured."""
        mapping, raced = self._mapping(ticket), len(self._raced)
        if np.array_equal(mapping, self._baseline):
            own = Measurement(tuple(self._before), self._config.statistic)
            return Named(ticket, mapping, own, own, raced, pooled([*self._groups, self._before]))
        config, least = self._config, LEAST_COMPARISONS if self._noise else QUIET_ROUNDS
        rounds = max(min(config.comparisons, self._left // 2), 1)
        practice = Practice(0, min(least, rounds), rounds, config.width, config.statistic)
        pair = [self._sampler(each) for each in (self._baseline, mapping)]
        reference, best = interleave(pair, practice, self._noise)
        if not math.isfinite(reference.value):
            raise BoardFailure("the baseline can no longer be measured")
        self._keep(mapping, best)
        if not math.isfinite(best.value):
            return None
        same = is_same(self._before, reference.samples)
        groups = [[*self._before, *reference.samples]] if same else [self._before, reference.samples]
        noise = pooled([*self._groups, *groups])
        before = Measurement(tuple(self._before), config.statistic).value
        drift = 0.0 if same else reference.value / before - 1
        return Named(ticket, mapping, best, reference, raced, noise, self._level(ticket, noise), drift)

    def _keep(self, mapping: Mapping16, measured: Measurement) -> None:
        self.anew[digest(mapping)] = measured.value
        self._left -= len(measured.samples)
        if math.isfinite(measured.value):
            self._groups.append(measured.samples)


def choose(boards: BoardExecutor, archive: Archive) -> Named | None:
    """Measure what may be the best again, on the first board that still measures, and name it.

    None where nothing ran, or no board measures any more. Nothing else is measured from then on.
    """
    boards.rest()
    before = boards.measurements.get(digest(boards.baseline))
    known = () if before is None else before.samples_s
    for board in list(boards.living):
        naming = _Naming(
            lambda mapping, board=board: sampler_of(boards, board, mapping),  # type: ignore[misc]
            boards.baseline,
            archive,
            boards.config,
            known,
            boards.noise,
        )
        try:
            return naming.name()
        except (BoardFailure, GivenUp) as error:
            boards.log(f"measuring the best again: {error}")
    return None


def sampler_of(boards: BoardExecutor, board: RetryingBoard, mapping: Mapping16) -> Callable[[], float]:
    own = np.array_equal(mapping, boards.baseline)
    request, config = boards.baseline_request if own else boards.request(mapping), boards.config
    limit_s = boards.usual_limit_s()

    def sample() -> float:
        try:
            answer = board.ask(request, limit_s, ran_before=True)
        except BoardFailure as error:
            boards.log(f"measuring the best again: mapping {digest(mapping)[:12]}: {error}")
            return math.inf
        if answer.status != Status.OK:
            boards.log(
                f"measuring the best again: mapping {digest(mapping)[:12]}: {answer.reason or 'invalid'}"
            )
            return math.inf
        return Measurement(answer.samples_s, config.statistic).value

    return sample


def confirm(
    problem: Problem,
    run: Run,
    before: Sequence[float],
    measure: Callable[[list[dict[str, Any]]], float],
    most: int,
    rounds: int,
) -> Named | None:
    """Name the best of a run whose caller measures; None if nothing has run yet. See `egrl.Search.confirm`.

    `before`: seconds of the baseline so far. If these are one, `LEAST_ROUNDS` more say what the noise is.
    """

    def sampler(mapping: Mapping16) -> Callable[[], float]:
        return lambda: _seconds(measure(names_of(problem, mapping)))

    config = replace(run.config.evaluator, contenders=most, rounds=rounds, comparisons=rounds)
    baseline = problem.evaluate(problem.baseline.mapping[None], np.zeros(1, np.uint64)).repaired[0]
    known = list(before)
    if not relative_noise(known):
        once = sampler(baseline)
        known += [once() for _ in range(LEAST_ROUNDS)]
    return _Naming(sampler, baseline, run.context.archive, config, known, relative_noise(known)).name()


def _seconds(given: Any) -> float:
    """What a caller measured. ValueError if it cannot be seconds."""
    ((found, *more),) = checked([given], "confirm")
    if more or found != found:
        raise ValueError(f"confirm: expected the seconds of one measurement, received {excerpt(given)}")
    return found
