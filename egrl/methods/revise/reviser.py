"""The best games revised: played again with some moves changed, by the game's own rules and without looking.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing" (Science, 1983).

A search plans one move and expects all later ones to be as usual. Where several decisions must change together, no
single move is better than usual; a revised game is, whatever its moves look like one by one. Networks are not asked for
it, so that a thousand moves are played again in the time of one that is planned.

A *round* begins with the best game known, or with the best played since the last round; its temperature falls to 0. The
first rounds are short, so that what begins far away, or has little time, is cooled, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from egrl.core.method import Context
from egrl.methods.revise.elites import Elites, Finished, order
from hwsim.problem import Mapping16
from hwsim.stepwise import Game, RevisableGame, Revised

COOL = 1 / 5
REVISE = 15
"""Stream of keys."""
NO_SLOT = -1
"""Slot of a game that was revised."""


RoundGames = Annotated[
    float,
    Gt(0),
    Le(1e6),
    Doc(
        "games per decision that a round of annealing begins; the first round has a share of it,"
        " each further one twice as many"
    ),
]
FirstShare = Annotated[float, Gt(0), Le(1), Doc("share of `round` that the first round has")]
HotReturns = Annotated[
    float,
    Ge(0),
    Le(1e6),
    Doc(
        "first temperature of every second round, in returns of the average decision; the others have a fifth of it"
    ),
]


@dataclass(frozen=True)
class ReviseConfig:
    """How much is revised, and how."""

    moves: Annotated[
        float, Ge(0), Le(1e6), Doc("moves played in revisions per planned move; 0: nothing is revised")
    ] = 1000.0
    round: RoundGames = 32.0
    first: FirstShare = 1 / 16
    hot: HotReturns = 0.5
    fresh: Annotated[
        float, Ge(0), Le(1), Doc("share of rounds that begin with the best game played since the last one")
    ] = 0.25


@dataclass
class _Walk:
    """Where the revisions of one problem's games are.

    Attributes:
        proposal: int16 [N, H], the game that is revised; None between two rounds.
        rounds: begun so far.
        done: games begun in this round; rate: games a move in its latest part; number: of the next part of a walk.
        fresh: the best game played since the last round, with its return.
        best: the greatest return so far, of any game.
    """

    proposal: Mapping16 | None = None
    rounds: int = 0
    done: int = 0
    rate: float = 0.0
    number: int = 0
    fresh: tuple[float, Mapping16] | None = None
    best: float = -np.inf


class Reviser:
    """See the module; games that cannot be revised are left alone.

    Attributes:
        tried: games begun so far.
    """

    def __init__(self, games: Sequence[Game], config: ReviseConfig, context: Context) -> None:
        self._games, self._config, self._context = list(games), config, context
        self._orders = [order(game) for game in games]
        self._walks = [_Walk() for _ in games]
        self._rng = context.generator("revisions")
        self.tried = 0

    def note(self, game: Finished) -> None:
        """A game was played."""
        walk = self._walks[game.problem]
        walk.best = max(walk.best, game.returned)
        if walk.fresh is None or game.returned > walk.fresh[0]:
            walk.fresh = (game.returned, game.mapping)

    def work(self, moves: int, elites: Elites) -> list[Finished]:
        """A game of each problem, while so many moves were planned: the best of all where there is a new one, else what
        the revisions have come to, so that something is measured now and then where games are long. What is new and
        best is kept among the elites.
        """
        proposed = []
        quota = int(self._config.moves * moves / len(self._games))
        for g, game in enumerate(self._games):
            if quota and isinstance(game, RevisableGame) and len(self._orders[g]) and elites.games[g]:
                found = self._walk(g, game, quota, elites)
                if min(found.actions) >= 0:
                    proposed.append(found)
        return proposed

    def _walk(self, g: int, game: RevisableGame, quota: int, elites: Elites) -> Finished:
        walk, proposed = self._walks[g], None
        while quota > 0:
            if walk.proposal is None:
                self._begin(g, elites.games[g][0].mapping)
            found = self._part(g, game, quota)
            quota -= max(1, found.moves)
            if found.returned > walk.best:
                walk.best = found.returned
                proposed = self._finished(g, found.mapping, found.returned)
                if min(proposed.actions) >= 0:  # a lost game decides nothing in the end
                    elites.keep(proposed)
        return proposed or self._finished(g, found.present, found.present_returned)

    def _part(self, g: int, game: RevisableGame, quota: int) -> Revised:
        """Go on with a round for so many moves, or to its end."""
        config, walk, decisions = self._config, self._walks[g], len(self._orders[g])
        assert walk.proposal is not None
        length = config.round * decisions * min(1.0, config.first * 2.0 ** min(walk.rounds - 1, 60))
        moves = math.ceil((length - walk.done) / walk.rate)
        ends = length if moves <= quota else walk.done + quota * walk.rate
        first = config.hot / decisions * (COOL if walk.rounds % 2 else 1.0)
        hot, cold = (first * (1 - done / length) for done in (walk.done, ends))
        key = self._context.keys(REVISE, walk.number * len(self._games) + g, 1)[0]
        use = self._context.model_use
        with use.timed():
            found = game.revised(walk.proposal, key, min(moves, quota), hot, cold)
        use.calls += found.moves / decisions
        walk.number += 1
        walk.done += found.tried
        walk.rate = max(1, found.tried) / max(1, found.moves)
        walk.proposal = found.proposal if moves > quota and walk.done < length else None
        self.tried += found.tried
        return found

    def _finished(self, g: int, mapping: Mapping16, returned: float) -> Finished:
        return Finished(g, NO_SLOT, mapping, returned, tuple(mapping.reshape(-1)[self._orders[g]].tolist()))

    def _begin(self, g: int, best: Mapping16) -> None:
        """A new round."""
        walk, fresh = self._walks[g], self._rng.random() < self._config.fresh
        walk.proposal = walk.fresh[1] if fresh and walk.fresh is not None else best
        walk.rounds, walk.done, walk.fresh = walk.rounds + 1, 0, None
        walk.rate = walk.rate or 1 / len(self._orders[g])  # as if every game were played to its end

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        walks = [vars(walk) | {"fresh": list(walk.fresh) if walk.fresh else None} for walk in self._walks]
        return {
            "walks": [{"wish": walk.pop("proposal"), **walk} for walk in walks],
            "rng": self._rng.bit_generator.state,
            "tried": self.tried,
        }

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self._walks = []
        for walk in state["walks"]:
            fresh = tuple(walk["fresh"]) if walk["fresh"] else None
            own = {name: value for name, value in walk.items() if name != "wish"}
            self._walks.append(_Walk(**own | {"proposal": walk["wish"], "fresh": fresh}))
        self._rng.bit_generator.state = state["rng"]
        self.tried = int(state["tried"])
