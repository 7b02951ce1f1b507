"""The best games so far, and new games that begin with a part of one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from egrl.play.table import Finished


class Elites:
    """The best `count` games of each of P problems; of equal ones the earlier.

    Attributes:
        games: for each problem (return, actions), the best first.
    """

    def __init__(self, problems: int, count: int, rng: np.random.Generator) -> None:
        self.games: list[list[tuple[float, tuple[int, ...]]]] = [[] for _ in range(problems)]
        self._count, self._rng = count, rng

    def keep(self, game: Finished) -> None:
        """Keep a game where it is among the best of its problem."""
        best = self.games[game.problem]
        if all(actions != game.actions for _, actions in best):
            best.append((game.returned, game.actions))
            best.sort(key=lambda kept: -kept[0])
            del best[self._count :]

    def opening(self, problem: int, share: float) -> tuple[int, ...]:
        """The first moves of one of the best games, as many as chance has it; in a `share` of calls, else none."""
        best = self.games[problem]
        if not best or self._rng.random() >= share:
            return ()
        actions = best[int(self._rng.integers(len(best)))][1]
        return actions[: int(self._rng.integers(len(actions)))]

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {
            "games": [
                [[returned, np.array(actions, np.int16)] for returned, actions in best] for best in self.games
            ],
            "rng": self._rng.bit_generator.state,
        }

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.games = [
            [(float(returned), tuple(actions.tolist())) for returned, actions in best]
            for best in state["games"]
        ]
        self._rng.bit_generator.state = state["rng"]
