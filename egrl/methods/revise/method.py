"""Whole games revised by the game's own rules: some moves change, the game is played again from there, and kept or not.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing" (Science, 1983). Rounds are those of
`egrl.methods.revise.reviser`; what a change is, the game says (of the MMapGame: `hwsim/mmap/revise`).

The first game is greedy play's, the heuristic's, or one with the last choice everywhere; it is proposed as it is.
The walk begins with it, or with the run's start mapping where that returns more. Between two evaluations so many moves
are played again; then the best of these games is proposed if no game was better before, else what the walk has come to.

Deviations: the walk goes by the return that the game gives itself, and not by what is measured. Where a problem
rewards something else than its game does, the champion is the best by that reward all the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from egrl.core.method import Context, Method
from egrl.core.proposals import START, Proposals, proposals
from egrl.core.registry import MethodDefinition
from egrl.methods.revise.elites import Elites, Finished, order, whole
from egrl.methods.revise.reviser import NO_SLOT, FirstShare, HotReturns, ReviseConfig, Reviser, RoundGames
from hwsim.problem import Evaluation, Mapping16, Problem
from hwsim.stepwise import HasGame, RevisableGame
from workloads.errors import InputError

PAUSE_S = 1.0
"""Seconds after which the loop may look at the clock."""
PART = 200_000
"""Moves between two looks at the clock, some 0.3 s."""
LEAST = 10
"""Games worth of moves that they are at least: the first one of each part only plays what is to be revised."""
REVISED = "revised"
"""Source of proposals."""


@dataclass(frozen=True)
class ReviseMethodConfig:
    """Settings of revising alone."""

    start: Annotated[
        Literal["greedy", "heuristic", "nothing"],
        Doc(
            'the first game: "greedy" play, the "heuristic", or "nothing" (the last choice of every'
            " decision); a start mapping of the run that returns more takes its place"
        ),
    ] = "greedy"
    moves: Annotated[
        int,
        Ge(1),
        Le(10**9),
        Doc("moves played between two evaluations, at least ten games; about 600,000 per second"),
    ] = PART
    round: RoundGames = 32.0
    first: FirstShare = 1 / 512
    hot: HotReturns = 0.5


class Revise(Method):
    """See the module."""

    def __init__(self, context: Context, config: ReviseMethodConfig) -> None:
        """Raises InputError where the problem has no greedy play to start with."""
        problem = context.problems[0]
        assert isinstance(problem, HasGame)
        assert isinstance(problem.game, RevisableGame)
        if config.start == "greedy" and problem.game.greedy is None:
            raise InputError(
                f"method.start: expected heuristic or nothing for {problem.about.name}, which has no greedy player,"
                " found greedy"
            )
        self._context, self._config, self._problem, self._game = context, config, problem, problem.game
        self._order = order(problem.game)
        self._elites = Elites(1, 1, context.generator("elites"))
        rounds = ReviseConfig(moves=1.0, round=config.round, first=config.first, hot=config.hot, fresh=0.0)
        self._reviser = Reviser([problem.game], rounds, context)
        least = LEAST * len(self._order)
        self._slice, self._part = max(config.moves, least), max(PART, least)
        self._begun, self._left = False, self._slice
        self._found: Finished | None = None

    def ask(self) -> Proposals | None:
        """The first game, then a game a slice of `moves`; no rows after about a second within a slice."""
        if not self._begun:
            self._begun = True
            return self._propose(self._first(), self._config.start)
        if not len(self._order):
            return None
        begun = time.monotonic()
        while self._left:
            part = min(self._left, self._part)
            self._left -= part
            for game in self._reviser.work(part, self._elites):
                if self._found is None or game.returned > self._found.returned:
                    self._found = game
            if self._left and time.monotonic() - begun >= PAUSE_S:
                return self._nothing()
        found, self._found, self._left = self._found, None, self._slice
        return self._nothing() if found is None else self._propose(found.mapping, REVISED)

    def _propose(self, mapping: Mapping16, source: str) -> Proposals:
        return proposals(whole(mapping, self._problem)[None], source)

    def _nothing(self) -> Proposals:
        return proposals(np.empty((0, *self._problem.space.shape), np.int16), [])

    def _first(self) -> Mapping16:
        """The game that `start` names, played."""
        problem, use = self._problem, self._context.model_use
        if self._config.start == "greedy" and self._game.greedy is not None:
            with use.timed():
                proposal, games = self._game.greedy()
            use.calls += games
        elif self._config.start == "heuristic":
            proposal = problem.baseline.mapping
        else:
            proposal = np.where(problem.space.live, problem.space.num_choices - 1, -1).astype(np.int16)
        return self._keep(proposal)

    def _keep(self, proposal: Mapping16) -> Mapping16:
        """Play a game, and keep it if it is the best; what was decided."""
        use = self._context.model_use
        with use.timed():
            found = self._game.revised(proposal, np.uint64(0), 0, 0.0, 0.0)
        use.calls += found.moves / max(1, len(self._order))
        actions = tuple(found.present.reshape(-1)[self._order].tolist())
        game = Finished(0, NO_SLOT, found.present, found.present_returned, actions)
        self._elites.keep(game)
        self._reviser.note(game)
        return found.present

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Take the run's start mapping as one more game to begin with; all else is known from the game."""
        if proposals.source[0] == START:
            self._keep(evaluation.repaired[0])

    def metrics(self) -> Mapping[str, float]:
        """Games begun so far, and the best return of them."""
        best = self._elites.games[0]
        return {"revisions": float(self._reviser.tried), "returned": best[0].returned if best else np.nan}

    def state_dict(self) -> dict[str, Any]:
        """Where the walk is, the best game, and how much of a slice is left."""
        return {
            "reviser": self._reviser.state(),
            "elites": self._elites.state(),
            "begun": self._begun,
            "left": self._left,
            "found": self._found and self._found.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._reviser.load(state["reviser"])
        self._elites.load(state["elites"])
        self._begun, self._left = bool(state["begun"]), int(state["left"])
        self._found = Finished.of(state["found"]) if state["found"] else None


def serves(problem: Problem) -> str | None:
    """A game is needed that can be played again from any move on."""
    if not isinstance(problem, HasGame):
        return "the problem is no game"
    return None if isinstance(problem.game, RevisableGame) else "its games cannot be played again in part"


DEFINITION = MethodDefinition(ReviseMethodConfig, Revise, serves, {})
