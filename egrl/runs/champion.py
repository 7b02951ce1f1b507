"""Naming the best of a run that was measured: everything within the noise of the best is measured again, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from egrl.core.archive import Archive
from egrl.core.state import SearchState
from egrl.measure.board import BoardFailure
from egrl.measure.board_executor import BoardExecutor
from egrl.measure.contenders import contenders
from egrl.measure.keeper import GivenUp
from egrl.measure.records import digest
from hwsim.capabilities import HasRace
from hwsim.measure import Measurement, Practice, interleave, speedup_interval
from hwsim.problem import Mapping16, Problem, Status

LEAST_ROUNDS = 3
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
    race = Practice(0, min(LEAST_ROUNDS, config.rounds), config.rounds, config.width, config.statistic)
    try:
        at = 0
        if len(mappings) > 1:
            found = interleave([_sampler(boards, mapping) for mapping in mappings], race, boards.noise)
            at = min(range(len(found)), key=lambda i: found[i].value)
        anew = [_sampler(boards, mapping) for mapping in (boards.baseline, mappings[at])]
        baseline, best = interleave(anew, replace(race, least=config.rounds), boards.noise)
    except (BoardFailure, GivenUp) as error:
        boards.log(f"naming the best: {error}")
        return None
    return Named(tickets[at], mappings[at], best, baseline, len(mappings))


def _sampler(boards: BoardExecutor, mapping: Mapping16) -> Callable[[], float]:
    request, config, keeper = boards.request(mapping), boards.config, boards.living[0]

    def sample() -> float:
        answer = keeper.ask(request, config.timeout_s)
        if answer.status != Status.OK:
            raise BoardFailure(answer.reason or "invalid")
        return Measurement(answer.samples_s, config.statistic).value

    return sample


@dataclass(frozen=True)
class Measured:
    """What an evaluator adds to a summary: the baseline's cost as it was measured, and the table `evaluator`."""

    baseline_cost: float
    evaluator: Mapping[str, Any]


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
    cost = costs[digest(own[at])]
    baseline_cost = costs[digest(problem.baseline.mapping)]
    speedup = baseline_cost / cost
    state.champions[0] = replace(
        champion,
        reward=speedup**2,
        cost=cost,
        speedup=speedup,
        source=str(archive.sources(np.array([tickets[at]]))[0]),
        ticket=tickets[at],
        mapping=own[at],
    )
    fastest = min(racers, key=costs.__getitem__)
    again = (
        f"measured again in turn with {problem.about.rival}: {speedup:.4f}x (the search had"
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
        speedup = baseline_cost / found.best.value
        state.champions[0] = replace(
            champion,
            reward=speedup**2,
            cost=found.best.value,
            speedup=speedup,
            source=str(archive.sources(np.array([found.ticket]))[0]),
            ticket=found.ticket,
            mapping=found.mapping,
        )
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
