"""The champion of a run at its end: measured again, raced, or nearest to the baseline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from egrl.core.archive import Archive
from egrl.core.loop import Champion, SearchState
from egrl.measure.board_executor import BoardExecutor
from egrl.measure.confirming import contenders
from egrl.measure.records import digest
from egrl.runs.naming import Named, choose
from egrl.runs.text import short_baseline_text
from hwsim.capabilities import HasRace
from hwsim.fewest import evaluations, front
from hwsim.nearest import EQUAL, nearest, unsuitable
from hwsim.problem import Mapping16, Problem

PROVED = 8
"""One in so many of the evaluations of `egrl simplify` looks for the mapping nearest to the baseline that is as fast as
a proven one."""
RACERS = 8
"""Mappings of a run that are raced where the problem measures on this machine …"""
RACE_NOISE = 0.15
"""… and the relative noise that is assumed there: neighbours on a shared machine."""


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
        f"measured again in turn with {short_baseline_text(problem.about)}: {best.speedup:.4f}x (the search had"
        f" {champion.speedup:.4f}x)"
    )
    remembered = problem.race.remember(racers[fastest], costs[fastest])
    return Raced((again, remembered) if remembered else (again,), baseline_cost)


def name_the_best(boards: BoardExecutor, archive: Archive, state: SearchState, complete: bool) -> Measured:
    """What the summary says of a run that was measured. Where the run is complete and costs are not exact, its best
    mappings are measured again first, and the champion of `state` becomes the one that holds.
    """
    busy, begun, baseline_cost, config = (
        boards.usage().busy,
        time.monotonic(),
        boards.baseline_cost,
        boards.config,
    )
    again = complete and not config.exact and config.contenders > 0
    found, champion = choose(boards, archive) if again else None, state.champions[0]
    if found is not None and champion is not None:
        baseline_cost = found.baseline.value
        state.champions[0] = champion_of_named(champion, archive, found)
    usage = boards.usage()
    named = {"noise": boards.noise, "contenders": 0, "confirmed": config.exact, "speedup_interval": None}
    return Measured(
        baseline_cost,
        {
            "stations": usage.boards,
            "requests": usage.requests,
            "failures": usage.failures,
            "restarts": usage.restarts,
            "busy": round(busy, 4),
            **(named if found is None else found.table()),
            "naming_seconds": round(time.monotonic() - begun, 3),
        },
    )
