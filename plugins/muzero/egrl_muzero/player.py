"""Agents of method `muzero`: one game each, played with the search that the agent was trained with, without noise.

The networks are not trained. Only the potential of the new game (`egrl_muzero.potential`) is learned, from
random plays, as at the beginning of a training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.core import typed_tables
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods.revise import whole
from egrl_muzero.agent import Agent
from egrl_muzero.config import PlayConfig
from egrl_muzero.fitting import check_names, game_of, weights_of
from hwsim.problem import Mapping16, Problem
from hwsim.stepwise import HasGame
from workloads.errors import InputError

if TYPE_CHECKING:
    from policies.store import StoredPolicy

ALONE: dict[str, Any] = {
    "slots": 1,
    "greedy": 1.0,
    "restarts": 0.0,
    "demonstrations": 0,
    "replay": 1,
    "reanalyse": 0.0,
    "noise_fraction": 0.0,
    "temperature": {"initial": 0.0, "final": 0.0},
}
"""What makes an agent play one game as well as it can."""


def player(paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> MuZeroPlayer:
    """InputError where a policy's settings are not those of an agent."""
    return MuZeroPlayer(paths, stored)


class MuZeroPlayer:
    """S agents that play one after the other."""

    def __init__(self, paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> None:
        self._paths, self._stored = paths, stored
        self._configs = [
            typed_tables.build(
                PlayConfig,
                {**policy.metadata["config"], **policy.metadata.get("search", {}), **ALONE},
                str(path),
            )
            for path, policy in zip(paths, stored, strict=True)
        ]

    def greedy(self, problem: Problem) -> Mapping16:
        """int16 [S, N, H]. InputError where the problem is no game, or an agent knows another's tensors by name."""
        if not isinstance(problem, HasGame):
            raise InputError(
                f"{self._paths[0]}: expected a problem that is a game, which an agent of muzero plays,"
                f" found {problem.about.name}"
            )
        return np.stack([self._play(k, problem) for k in range(len(self._paths))])

    def _play(self, k: int, problem: Problem) -> Mapping16:
        """int16 [N, H], one game."""
        path, policy, play = str(self._paths[k]), self._stored[k], self._configs[k]
        check_names(policy, problem, play.network.ids, path)
        context = Context([problem], Archive([problem]), 0, [None])
        agent = Agent([game_of(problem, play)], play, context)
        agent.begin_with(weights_of(policy, agent.net, play, agent.game, path))
        while not agent.finished:
            agent.play()
        return whole(agent.finished[0].mapping, problem)
