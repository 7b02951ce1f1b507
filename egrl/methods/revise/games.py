"""Games that are over, and the order in which a game decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
        """What a checkpoint keeps."""
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
