"""Naming the best of a run that was measured: everything within the noise of the best is measured again, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.core.archive import Archive
from egrl.core.loop import Champion, SearchState
from egrl.core.mapping_file import names_of
from egrl.measure.board import BoardFailure, excerpt
from egrl.measure.board_executor import BoardExecutor
from egrl.measure.config import EvaluatorConfig
from egrl.measure.confirming import contenders
from egrl.measure.evaluator import checked
from egrl.measure.records import digest
from egrl.measure.retrying_board import GivenUp
from hwsim.capabilities import HasRace
from hwsim.fewest import evaluations, front
from hwsim.measure import Measurement, Practice, interleave, relative_noise, speedup_interval
from hwsim.nearest import EQUAL, nearest, unsuitable
from hwsim.problem import Mapping16, Problem, Status

if TYPE_CHECKING:
    from egrl.runs.run import Run

LEAST_ROUNDS = 3
PROVED = 8
"""Of the evaluations of `egrl simplify` one in so many looks for the mapping nearest to the baseline that is as fast as
a proven one."""
RACERS = 8
"""Mappings of a run that are raced where the problem measures on this machine …"""
RACE_NOISE = 0.15
"""… and the relative noise that is assumed there: neighbours on a shared machine."""


@dataclass(frozen=True)
class Named:
    """The best mapping of a run.

    Attributes:
        ticket: its evaluation.
        mapping: int16 [N, H].
        best, baseline: measured in turn with one another after the best was chosen, so that its luck does not count.
        contenders: how many mappings within the noise of the best were measured again to choose it.
    """

    ticket: int
    mapping: Mapping16
    best: Measurement
    baseline: Measurement
    contenders: int

    def table(self) -> dict[str, Any]:
        """What the table `evaluator` of a summary says of it."""
        noise = self.best.noise or relative_noise(self.baseline.samples)
        return {
            "noise": noise,
            "contenders": self.contenders,
            "speedup_interval": list(speedup_interval(self.best, self.baseline)),
        }


def choose(boards: BoardExecutor, archive: Archive, tickets: Sequence[int]) -> Named | None:
    """Measure mappings again, in turn, on the first board that still measures, and name the best of them.

    `tickets` are evaluations of different mappings, best first. None where there are none, or one can no longer be
    measured. Nothing else is measured from then on.
    """
    config = boards.config
    mappings = [archive.mappings(np.array([ticket]))[0] for ticket in tickets]
    if not mappings:
        return None
    boards.rest()
    if not boards.living:
        return None
    try:
        return in_turn(
            lambda m: _sampler(boards, m), boards.baseline, mappings, tickets, config, boards.noise
        )
    except (BoardFailure, GivenUp) as error:
        boards.log(f"naming the best: {error}")
        return None


def in_turn(
    sampler: Callable[[Mapping16], Callable[[], float]],
    baseline: Mapping16,
    mappings: Sequence[Mapping16],
    tickets: Sequence[int],
    config: EvaluatorConfig,
    noise: float,
) -> Named:
    """Measure mappings int16 [N, H] in turn and choose one; then measure it alternating with the baseline.

    `sampler` gives what measures a mapping once, in seconds. At least one mapping, each with its ticket.
    """
    race = Practice(0, min(LEAST_ROUNDS, config.rounds), config.rounds, config.width, config.statistic)
    at = 0
    if len(mappings) > 1:
        found = interleave([sampler(mapping) for mapping in mappings], race, noise)
        at = min(range(len(found)), key=lambda i: found[i].value)
    anew = [sampler(mapping) for mapping in (baseline, mappings[at])]
    reference, best = interleave(anew, replace(race, least=config.rounds), noise)
    return Named(tickets[at], mappings[at], best, reference, len(mappings))


def confirm(
    problem: Problem,
    run: Run,
    noise: float,
    measure: Callable[[list[dict[str, Any]]], float],
    most: int,
    rounds: int,
) -> Named | None:
    """Name the best of a run whose caller measures; None if nothing has run yet. See `egrl.Search.confirm`.

    If the `noise` is not known, that of `LEAST_ROUNDS` measurements of the baseline stands for it.
    """

    def sampler(mapping: Mapping16) -> Callable[[], float]:
        return lambda: _seconds(measure(names_of(problem, mapping)))

    archive, config = run.context.archive, replace(run.config.evaluator, contenders=most, rounds=rounds)
    baseline = problem.evaluate(problem.baseline.mapping[None], np.zeros(1, np.uint64)).repaired[0]
    if not noise:
        once = sampler(baseline)
        noise = relative_noise([once() for _ in range(LEAST_ROUNDS)])
    tickets = contenders(archive, noise, most)
    if not tickets:
        return None
    mappings = [archive.mappings(np.array([ticket]))[0] for ticket in tickets]
    return in_turn(sampler, baseline, mappings, tickets, config, noise)


def _seconds(given: Any) -> float:
    """What a caller measured. ValueError if it cannot be seconds."""
    ((found, *more),) = checked([given], "confirm")
    if more or found != found:
        raise ValueError(f"confirm: expected the seconds of one measurement, received {excerpt(given)}")
    return found


def champion_of_named(champion: Champion, archive: Archive, found: Named) -> Champion:
    """The champion of a problem, where what was named is that; its cost and speedup are those measured anew."""
    return _instead(champion, archive, found.ticket, found.mapping, found.best.value, found.baseline.value)


def _instead(
    champion: Champion, archive: Archive, ticket: int, mapping: Mapping16, cost: float, baseline_cost: float
) -> Champion:
    """An evaluation's mapping as the champion, with costs that were measured again."""
    return replace(
        champion,
        reward=(baseline_cost / cost) ** 2,
        cost=cost,
        speedup=baseline_cost / cost,
        source=str(archive.sources(np.array([ticket]))[0]),
        ticket=ticket,
        mapping=mapping,
    )


def _sampler(boards: BoardExecutor, mapping: Mapping16) -> Callable[[], float]:
    request, config, board = boards.request(mapping), boards.config, boards.living[0]

    def sample() -> float:
        answer = board.ask(request, config.timeout_s)
        if answer.status != Status.OK:
            raise BoardFailure(answer.reason or "invalid")
        return Measurement(answer.samples_s, config.statistic).value

    return sample


@dataclass(frozen=True)
class Measured:
    """What an evaluator adds to a summary: the baseline's cost as it was measured, and the table `evaluator`."""

    baseline_cost: float
    evaluator: Mapping[str, Any]


def nearest_best(problem: Problem, state: SearchState, proves: bool) -> SearchState:
    """The state with the mapping nearest to the baseline of those that are as fast as the champion, by the model.

    If the method `proves` (`Method.proves`), it is searched for, beside undoing the champion's changes.
    """
    champion = state.champions[0]
    if champion is None or problem.judge(champion.mapping) or unsuitable(problem):
        return state
    found = [nearest(problem, champion.mapping)]
    if proves:
        walked = front(problem, found[0], max(evaluations(problem) // PROVED, 1))
        as_fast = np.flatnonzero(np.abs(walked.cost - walked.goal[1]) <= EQUAL * walked.goal[1])
        found += [walked.mapping[at] for at in as_fast]
    mapping = min(found, key=lambda each: int((each != problem.baseline.mapping).sum()))
    return replace(state, champions=[replace(champion, mapping=mapping), *state.champions[1:]])


@dataclass(frozen=True)
class Raced:
    """What a race at the end of a run says: lines for people, of what it found and what is remembered; and what the
    baseline took in it.
    """

    notes: tuple[str, ...]
    baseline_cost: float


def race_the_best(problem: Problem, archive: Archive, state: SearchState) -> Raced | None:
    """Where a problem measures on this machine: time its best mappings, its baseline and what it knows again, in turn.

    The champion of `state` becomes the fastest of the run's own; the problem remembers the fastest of all. None where
    the problem does not measure or nothing was found.
    """
    champion, tickets = state.champions[0], contenders(archive, RACE_NOISE, RACERS)
    if not isinstance(problem, HasRace) or champion is None or not tickets:
        return None
    own = [archive.mappings(np.array([ticket]))[0] for ticket in tickets]
    known = problem.race.known()
    others = [problem.baseline.mapping, *([] if known is None else [known])]
    racers = {digest(mapping): mapping for mapping in [*own, *others]}
    costs = dict(zip(racers, problem.race.costs(np.stack(list(racers.values()))).tolist(), strict=True))
    at = min(range(len(own)), key=lambda number: costs[digest(own[number])])
    baseline_cost = costs[digest(problem.baseline.mapping)]
    best = _instead(champion, archive, tickets[at], own[at], costs[digest(own[at])], baseline_cost)
    state.champions[0] = best
    fastest = min(racers, key=costs.__getitem__)
    again = (
        f"measured again in turn with {problem.about.baseline_name}: {best.speedup:.4f}x (the search had"
        f" {champion.speedup:.4f}x)"
    )
    remembered = problem.race.remember(racers[fastest], costs[fastest])
    return Raced((again, remembered) if remembered else (again,), baseline_cost)


def name_the_best(boards: BoardExecutor, archive: Archive, state: SearchState, complete: bool) -> Measured:
    """What the summary says of a run that was measured. Where the run is complete and the evaluator noisy, its best
    mappings are measured again first, and the champion of `state` becomes the one that holds.
    """
    busy, begun, baseline_cost, found = boards.usage().busy, time.monotonic(), boards.baseline_cost, None
    if complete and boards.noise and boards.config.contenders:
        found = choose(boards, archive, contenders(archive, boards.noise, boards.config.contenders))
    champion = state.champions[0]
    if found is not None and champion is not None:
        baseline_cost = found.baseline.value
        state.champions[0] = champion_of_named(champion, archive, found)
    usage = boards.usage()
    return Measured(
        baseline_cost,
        {
            "stations": usage.boards,
            "requests": usage.requests,
            "failures": usage.failures,
            "restarts": usage.restarts,
            "busy": round(busy, 4),
            "noise": boards.noise,
            "contenders": 0 if found is None else found.contenders,
            "speedup_interval": None if found is None else list(speedup_interval(found.best, found.baseline)),
            "naming_seconds": round(time.monotonic() - begun, 3),
        },
    )
