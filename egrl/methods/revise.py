"""Whole games revised by the game's own rules: some moves change, the game is played again from there, and kept or not.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing" (Science, 1983). Rounds are those of
`egrl.methods.revise`; what a change is, the game says (of the MMapGame: `hwsim/mmap/revise`).

The first game is greedy play's, the heuristic's, or one with the last choice everywhere; it is proposed as it is.
The walk begins with it, or with the run's start mapping where that returns more. Between two evaluations so many moves
are played again; then the best of these games is proposed if no game was better before, else what the walk has come to.

Deviations: the walk goes by the return that the game gives itself, and not by what is measured. Where a problem
rewards something else than its game does, the champion is the best by that reward all the same.

The best games revised: played again with some moves changed, by the game's own rules and without looking.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing" (Science, 1983).

A search plans one move and expects all later ones to be as usual. Where several decisions must change together, no
single move is better than usual; a revised game is, whatever its moves look like one by one. Networks are not asked for
it, so that a thousand moves are played again in the time of one that is planned.

A *round* begins with the best game known, or with the best played since the last round; its temperature falls to 0. The
first rounds are short, so that what begins far away, or has little time, is cooled, too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl.core.archive import START, Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition
from hwsim.problem import Evaluation, Mapping16, Problem
from hwsim.stepwise import Game, HasGame, RevisableGame, Revised
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
    """Settings of revising alone.

    Example:
        >>> import egrl
        >>> from egrl.methods.revise import ReviseMethodConfig
        >>> result = egrl.search("alexnet", method=ReviseMethodConfig(), evals=3, problem="mmap")
        >>> result.speedup >= 1.0
        True
    """

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
