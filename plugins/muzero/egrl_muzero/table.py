"""Games of several problems played side by side, slot by slot; a game that ends makes room for a new one.

All slots move together, so that networks see one batch. What was played in a slot is remembered as far as it is
needed to play it again: states and observations are functions of the moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import ModelUse
from egrl.methods.revise import Finished, order
from egrl_muzero.mcts.embeddings import map_leaves
from hwsim.problem import Floats
from hwsim.stepwise import Game

Seen = dict[str, NDArray[Any]]


@dataclass
class Record:
    """The moves of one game in one slot.

    Attributes:
        since: time of the first move that was made with all slots.
        actions: the moves, `given` ones that the game began with first.
        returned: the sum of their rewards.
    """

    since: int
    actions: list[int] = field(default_factory=list)
    given: int = 0
    returned: float = 0.0

    @property
    def end(self) -> int:
        """The time after its last move so far."""
        return self.since + len(self.actions) - self.given


@dataclass(frozen=True)
class Moved:
    """The results of one move in each of B slots.

    Attributes:
        reward: float64 [B], times the number of decisions: a return of 1 is a reward of 1 a move.
        place, after: int64 [B], places before and after, numbered through all problems.
        done: bool [B].
        finished: the games that are over now.
    """

    reward: Floats
    place: NDArray[np.int64]
    after: NDArray[np.int64]
    done: NDArray[np.bool_]
    finished: list[Finished]


class Table:
    """B slots; slot b plays the game of problem b mod P.

    Attributes:
        problem: int64 [B], the problem of each slot.
        unit: float64 [P], what rewards of each game are multiplied by: its number of decisions.
        time: moves that all slots have made together.
        opening: gives the moves with which a new game in a slot begins.
        records: for each slot the games that are remembered, the last one under way.
    """

    def __init__(self, games: Sequence[Game], slots: int, use: ModelUse | None = None) -> None:
        """`use` counts what is played: a move is the share of a game that it decides."""
        if slots < len(games):
            raise ValueError(f"slots: expected at least {len(games)}, one a problem, received {slots}")
        self._games = list(games)
        self.use = use or ModelUse()
        self.problem = np.arange(slots) % len(games)
        self._rows = [np.flatnonzero(self.problem == g) for g in range(len(games))]
        self._states = [game.reset(len(rows)) for game, rows in zip(games, self._rows, strict=True)]
        self._base = np.cumsum([0, *[len(game.following) for game in games]])
        self.unit = np.array([len(order(game)) for game in games], np.float64)
        self.time = 0
        self.opening: Callable[[int], Sequence[int]] = lambda slot: ()
        self.records = [[Record(0)] for _ in range(slots)]

    def __len__(self) -> int:
        return len(self.problem)

    def _together(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Arrays of each problem's slots -> one array [B, …] in the order of slots."""
        out = np.empty((len(self), *parts[0].shape[1:]), parts[0].dtype)
        for rows, part in zip(self._rows, parts, strict=True):
            out[rows] = part
        return out

    def place(self) -> NDArray[np.int64]:
        """int64 [B], numbered through all problems."""
        return self._together(
            [g.place(s) + b for g, s, b in zip(self._games, self._states, self._base, strict=False)]
        )

    def legal(self) -> NDArray[np.bool_]:
        """bool [B, A]."""
        return self._together([g.legal(s) for g, s in zip(self._games, self._states, strict=True)])

    def observe(self) -> Seen:
        """The observation of each game, arrays [B, …], with `progress` float32 [B], the share of places behind it."""
        seen = [self.seen(g, state) for g, state in enumerate(self._states)]
        return {name: self._together([each[name] for each in seen]) for name in seen[0]}

    def seen(self, problem: int, state: Any) -> Seen:
        """The observations of R games of one problem, as `observe`."""
        game = self._games[problem]
        seen = {
            name: array if array.ndim > 1 else array[:, None] for name, array in game.observe(state).items()
        }
        return seen | {"progress": (game.place(state) / len(game.following)).astype(np.float32)}

    def state_of(self, problem: int) -> Any:
        """The states of the slots that play one problem's game; not to be changed."""
        return self._states[problem]

    def move(self, action: NDArray[np.int64]) -> Moved:
        """Play an action int64 [B] in each slot; games that end are begun anew. ValueError where one is illegal."""
        place = self.place()
        reward, done = np.empty(len(self)), np.empty(len(self), np.bool_)
        for g, rows in enumerate(self._rows):
            game = self._games[g]
            with self.use.timed():
                self._states[g], reward[rows], done[rows] = _advance(game, self._states[g], action[rows])
            self.use.calls += len(rows) / max(1.0, self.unit[g])
        after = self.place()
        for b, taken in enumerate(action.tolist()):
            self.records[b][-1].actions.append(taken)
            self.records[b][-1].returned += float(reward[b])
        self.time += 1
        finished = [self._renew(b) for b in np.flatnonzero(done).tolist()]
        return Moved(reward * self.unit[self.problem], place, after, done, finished)

    def _renew(self, slot: int) -> Finished:
        g = int(self.problem[slot])
        row = int(np.searchsorted(self._rows[g], slot))
        game, state = self._games[g], self._states[g]
        mapping = game.mapping(game.take(state, np.array([row])))[0]
        over = self.records[slot][-1]
        new, record = self._begin(g, self.opening(slot))
        _put(state, row, new)
        self.records[slot].append(record)
        return Finished(g, slot, mapping, over.returned, tuple(over.actions))

    def _begin(self, problem: int, moves: Sequence[int]) -> tuple[Any, Record]:
        """A game that begins with some moves; they must not end it."""
        game, record = self._games[problem], Record(self.time, list(moves), len(moves))
        state = game.reset(1)
        for action in moves:
            state, reward, _ = _advance(game, state, np.array([action]))
            record.returned += float(reward[0])
        return state, record

    def scatter(self, draws: NDArray[np.float64], stay: NDArray[np.bool_]) -> None:
        """Before the first move: play slot b's game by random legal moves to about the share b / B of its decisions.

        Args:
            draws: float64 [B, M], M being the most decisions of a game; each chooses a legal action.
            stay: bool [B], slots that begin at the beginning.
        """
        goals = [0 if stay[b] else int(b / len(self) * self.unit[self.problem[b]]) for b in range(len(self))]
        for b, goal in enumerate(goals):
            game = self._games[int(self.problem[b])]
            state, moves = game.reset(1), list[int]()
            for k in range(goal):
                legal = np.flatnonzero(game.legal(state)[0])
                if not len(legal):
                    raise ValueError(f"game of slot {b}: expected legal moves, found none after {k}")
                taken = int(legal[int(draws[b, k] * len(legal))])
                state, _, done = _advance(game, state, np.array([taken]))
                moves.append(taken)
                if done[0]:
                    state, moves = game.reset(1), []
            row = int(np.searchsorted(self._rows[int(self.problem[b])], b))
            begun, record = self._begin(int(self.problem[b]), moves)
            _put(self._states[int(self.problem[b])], row, begun)
            self.records[b] = [record]

    def forget(self, before: int) -> None:
        """Drop games that ended before a time: they are not needed to see again what was seen since."""
        for records in self.records:
            while len(records) > 1 and records[0].end <= before:
                records.pop(0)

    # ---- checkpoints

    def state(self) -> dict[str, Any]:
        """Time and moves."""
        flat = [record for records in self.records for record in records]
        return {
            "time": self.time,
            "count": np.array([len(records) for records in self.records]),
            "since": np.array([record.since for record in flat]),
            "given": np.array([record.given for record in flat]),
            "returned": np.array([record.returned for record in flat]),
            "length": np.array([len(record.actions) for record in flat]),
            "actions": np.array([a for record in flat for a in record.actions], np.int16),
        }

    def load(self, state: dict[str, Any], first: int, see: Callable[[int, int, Seen], None]) -> None:
        """Play all moves of a `state` again; `see(time, slot, what is seen)` for each move since time `first`."""
        self.time = int(state["time"])
        begins = np.cumsum([0, *np.asarray(state["length"]).tolist()])
        actions, at = np.asarray(state["actions"]), 0
        for b, count in enumerate(np.asarray(state["count"]).tolist()):
            self.records[b] = []
            for _ in range(count):
                moves = actions[begins[at] : begins[at + 1]].tolist()
                record = Record(int(state["since"][at]), moves, int(state["given"][at]))
                record.returned = float(state["returned"][at])
                self.records[b].append(record)
                at += 1
            self._play_again(b, first, see)

    def _play_again(self, slot: int, first: int, see: Callable[[int, int, Seen], None]) -> None:
        g = int(self.problem[slot])
        game = self._games[g]
        state = game.reset(1)
        for record in self.records[slot]:
            state = game.reset(1)
            for time, action in enumerate(record.actions, start=record.since - record.given):
                if time >= max(first, record.since):
                    see(time, slot, self.seen(g, state))
                state, _, _ = _advance(game, state, np.array([action]))
        _put(self._states[g], int(np.searchsorted(self._rows[g], slot)), state)


def _advance(game: Game, state: Any, action: NDArray[np.int64]) -> tuple[Any, Floats, NDArray[np.bool_]]:
    """A step, in the state itself where the game can do that."""
    return game.advance(state, action.astype(np.int16))


def _put(states: Any, row: int, one: Any) -> None:
    """Write a batch of one game into a row, in place."""

    def write(kept: NDArray[Any], new: NDArray[Any]) -> None:
        kept[row] = new[0]

    map_leaves(write, states, one)
