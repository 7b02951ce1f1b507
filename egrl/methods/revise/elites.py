"""The best games so far, and new games that begin with a part of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Mapping16, Problem
from hwsim.stepwise import Game


@dataclass(frozen=True)
class Finished:
    """A game that is over: which problem's, in which slot, what was decided (int16 [N, H]), and how."""

    problem: int
    slot: int
    mapping: Mapping16
    returned: float
    actions: tuple[int, ...]

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {**vars(self), "actions": np.array(self.actions, np.int16)}

    @staticmethod
    def of(state: Mapping[str, Any]) -> Finished:
        """The inverse of `state`."""
        return Finished(**{**state, "actions": tuple(state["actions"].tolist())})


def order(game: Game) -> NDArray[np.int64]:
    """The places from the first decision to the last, without the end."""
    found, place, end = [], game.first_place, len(game.following) - 1
    while place != end:
        found.append(place)
        place = int(game.following[place])
    return np.array(found, np.int64)


def whole(mapping: Mapping16, problem: Problem) -> Mapping16:
    """Mappings [..., N, H] in which decisions that a lost game never came to have their first choice."""
    return np.where((mapping < 0) & problem.space.live, 0, mapping).astype(np.int16)


class Elite(NamedTuple):
    """A game: its return, its moves, what it decided (int16 [N, H])."""

    returned: float
    actions: tuple[int, ...]
    mapping: Mapping16


class Elites:
    """The best `count` games of each of P problems; the earliest, if several are equal.

    Attributes:
        games: for each problem, the best first.
    """

    def __init__(self, problems: int, count: int, rng: np.random.Generator) -> None:
        self.games: list[list[Elite]] = [[] for _ in range(problems)]
        self._count, self._rng = count, rng

    def keep(self, game: Finished) -> None:
        """Keep a game where it is among the best of its problem."""
        best = self.games[game.problem]
        if all(kept.actions != game.actions for kept in best):
            best.append(Elite(game.returned, game.actions, game.mapping))
            best.sort(key=lambda kept: -kept.returned)
            del best[self._count :]

    def opening(self, problem: int, share: float) -> tuple[int, ...]:
        """The first moves of one of the best games, as many as chance has it; in a `share` of calls, else none."""
        best = self.games[problem]
        if not best or self._rng.random() >= share:
            return ()
        actions = best[int(self._rng.integers(len(best)))].actions
        return actions[: int(self._rng.integers(len(actions)))]

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {
            "games": [
                [[elite.returned, np.array(elite.actions, np.int16), elite.mapping] for elite in best]
                for best in self.games
            ],
            "rng": self._rng.bit_generator.state,
        }

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.games = [
            [Elite(float(returned), tuple(actions.tolist()), mapping) for returned, actions, mapping in best]
            for best in state["games"]
        ]
        self._rng.bit_generator.state = state["rng"]
