"""The MMapGame as a batched, pure game, and whole games played by proposals: the rules of `hwsim.mmap.rules.moves`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.device import simulate
from hwsim.mmap.layout import Layout
from hwsim.mmap.revise import walk
from hwsim.mmap.rules.moves import (
    find_legal,
    is_over,
    leave_dead_end,
    play,
    play_proposal,
    program_s,
    restart,
)
from hwsim.mmap.rules.outcome import outcome_of
from hwsim.mmap.rules.state import GameState, new_states, new_words, state_of
from hwsim.mmap.tables import Tables
from hwsim.problem import Floats, Mapping16, Profiles
from hwsim.stepwise import RevisableGame, Revised

ACTIONS = ("drop", "copy", "nocopy")


@dataclass(frozen=True)
class Outcomes:
    """The `Outcome` of each of the 3 actions in B games, as arrays. Intervals are closed; (-1, -1) is none.

    Attributes:
        legal: bool [B, 3]; nothing is legal where a game is over.
        first, last, copy_first, copy_last: int32 [B, 3], steps of the interval and of the copy's window.
        offset_bytes: int64 [B, 3], -1 = none.
    """

    legal: NDArray[np.bool_]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    copy_first: NDArray[np.int32]
    copy_last: NDArray[np.int32]
    offset_bytes: NDArray[np.int64]


class MmapGame(RevisableGame):
    """The game of a program on a chip. A state is a `GameState`, rewards are shares.

    The reward of a move is the change of the return over the most seconds that fast memory could save. A move that
    leads to a dead end goes back to the backup (or loses: the return is 0 then), so that rewards always sum to the
    return of the final layout.
    """

    num_actions = len(ACTIONS)

    def __init__(self, tables: Tables, granule_bytes: int) -> None:
        self.tables, self.granule_bytes = tables, granule_bytes
        decisions = int(np.count_nonzero(tables.buffer["granules"]))
        self.max_moves: int = decisions * (1 + len(tables.group))
        self.first_place = int(tables.first)
        self.following: NDArray[np.int64] = np.append(tables.buffer["following"], len(tables.buffer)).astype(
            np.int64
        )

    def reset(self, batch: int) -> GameState:
        """`batch` new games."""
        states = new_states(self.tables, batch)
        _restart_all(self.tables, states)
        return states

    def legal(self, state: GameState) -> NDArray[np.bool_]:
        """bool [B, 3]; nothing is legal where a game is over."""
        return self.outcomes(state).legal

    def outcomes(self, state: GameState) -> Outcomes:
        """What each action would place now."""
        found = _find_outcomes(self.tables, state, new_words(self.tables))
        first, last, copy_first, copy_last = (found[:, :, column].copy() for column in range(1, 5))
        return Outcomes(found[:, :, 0] > 0, first, last, copy_first, copy_last, self._bytes(found[:, :, 5]))

    def step(
        self, state: GameState, action: NDArray[np.int16]
    ) -> tuple[GameState, Floats, NDArray[np.bool_]]:
        """(next state, reward [B], done [B]) of actions int16 [B]; a game that is over stays as it is.

        Raises:
            ValueError: an action is illegal.
        """
        after = GameState._make(part.copy() for part in state)
        return self.advance(after, action)

    def advance(
        self, state: GameState, action: NDArray[np.int16]
    ) -> tuple[GameState, Floats, NDArray[np.bool_]]:
        """`step` that changes the state itself, without a copy.

        Raises:
            ValueError: an action is illegal; the games before it have been advanced.
        """
        given = np.ascontiguousarray(action, np.int16)
        if given.shape != (len(state.game),):
            raise ValueError(f"action: expected shape ({len(state.game)},), received {given.shape}")
        before = state.game["total_s"].copy()
        wrong = _step_all(self.tables, state, given, new_words(self.tables))
        if wrong >= 0:
            raise ValueError(f"action[{wrong}]: expected a legal action, received {given[wrong]}")
        return state, (state.game["total_s"] - before) / self.tables.most_s, self.done(state)

    def done(self, state: GameState) -> NDArray[np.bool_]:
        """bool [B]."""
        return np.asarray((state.game["cursor"] >= len(self.tables.buffer)) | (state.game["lost"] > 0))

    def place(self, state: GameState) -> NDArray[np.int64]:
        """int64 [B], the buffer to decide on; N where a game is over."""
        return np.where(self.done(state), len(self.tables.buffer), state.game["cursor"]).astype(np.int64)

    def mapping(self, state: GameState) -> Mapping16:
        """int16 [B, N, 1], the actions that were played."""
        return state.buffer["action"].astype(np.int16)[:, :, None]

    def total(self, state: GameState) -> Floats:
        """float64 [B], the return so far; 0 where a game is lost."""
        return np.asarray(state.game["total_s"] / self.tables.most_s)

    def take(self, state: GameState, index: NDArray[np.int64]) -> GameState:
        """The games at `index` [B'], copies."""
        return GameState._make(np.take(part, index, axis=0) for part in state)

    def layout(self, state: GameState, row: int) -> Layout:
        """Where one game's buffers lie."""
        rows = state.buffer[row]
        return Layout(
            rows["action"].astype(np.int8),
            self._bytes(rows["offset"]),
            rows["first"].copy(),
            rows["last"].copy(),
            rows["copy_first"].copy(),
            rows["copy_last"].copy(),
            self.tables.step["supply_s"] - state.step[row]["supply_s"],
        )

    def _bytes(self, granules: NDArray[np.int32]) -> NDArray[np.int64]:
        offset = granules.astype(np.int64)
        return np.where(offset >= 0, offset * self.granule_bytes, -1)

    def revised(self, proposal: Mapping16, key: np.uint64, moves: int, hot: float, cold: float) -> Revised:
        """A game int16 [N, 1] changed for the better, see `RevisableGame`."""
        return walk(self.tables, proposal[:, 0], key, moves, hot, cold)

    def play(self, proposals: Mapping16) -> PlayedGames:
        """Play whole games by proposals int16 [B, N]; illegal actions are replaced, dead ends are left."""
        states = new_states(self.tables, 1)
        proposals = np.ascontiguousarray(proposals, np.int16)
        return PlayedGames(*_play_all(self.tables, states, proposals, new_words(self.tables)))

    def layout_of(self, proposal: NDArray[np.int16]) -> Layout:
        """The layout that one proposal int16 [N] is played to."""
        states = new_states(self.tables, 1)
        _play_all(self.tables, states, np.ascontiguousarray(proposal[None], np.int16), new_words(self.tables))
        return self.layout(states, 0)


@dataclass(frozen=True)
class PlayedGames:
    """Whole games, B of them.

    Attributes:
        action: int16 [B, N], what was played; -1 where there was no decision, or the game was lost before it.
        cost_s: float64 [B], the sum of L_I(S), seconds; NaN where the game was lost.
        latency_s: float64 [B], seconds of the program on the simulated device; NaN where the game was lost.
        resets: int64 [B], how often a game went back to its backup.
        took_s: float32 [B, T + 1], seconds of each instruction and of the last copies; NaN where the game was lost.
    """

    action: Mapping16
    cost_s: Floats
    latency_s: Floats
    resets: NDArray[np.int64]
    took_s: Profiles


@kernel
def _restart_all(tables: Tables, states: GameState) -> None:
    """Begin a new game in each row."""
    for row in range(len(states.game)):
        restart(tables, state_of(states, row))


@kernel
def _find_outcomes(tables: Tables, states: GameState, words: NDArray[np.uint64]) -> NDArray[np.int32]:
    """int32 [B, 3, 6], the fields of each action's `Outcome`; nothing is legal where a game is over."""
    rows = len(states.game)
    found = np.full((rows, 3, 6), -1, np.int32)
    for row in range(rows):
        state = state_of(states, row)
        if is_over(tables, state):
            found[row, :, 0] = 0  # all else stays -1
            continue
        for action in range(3):
            outcome = outcome_of(tables, state, action, words)
            found[row, action, 0] = outcome.legal
            found[row, action, 1] = outcome.first
            found[row, action, 2] = outcome.last
            found[row, action, 3] = outcome.copy_first
            found[row, action, 4] = outcome.copy_last
            found[row, action, 5] = outcome.offset
    return found


@kernel
def _step_all(tables: Tables, states: GameState, action: NDArray[np.int16], words: NDArray[np.uint64]) -> int:
    """Play an action in each game that goes on; the first row with an illegal one, -1 = all were legal."""
    for row in range(len(states.game)):
        state = state_of(states, row)
        if is_over(tables, state):
            continue
        outcome = outcome_of(tables, state, action[row], words)
        # `outcome_of` takes any other number for a NoCopy.
        if not outcome.legal or action[row] < 0 or action[row] > 2:
            return row
        play(tables, state, action[row], outcome)
        # A dead end is left within the move that leads to it, so that a player always finds a legal action. One
        # return is enough: at the backup no group is open, so that Drop is legal there.
        if not is_over(tables, state) and not find_legal(tables, state, 0, words)[1].legal:
            leave_dead_end(tables, state)
    return -1


@kernel
def _play_all(
    tables: Tables, states: GameState, proposals: Mapping16, words: NDArray[np.uint64]
) -> tuple[Mapping16, Floats, Floats, NDArray[np.int64], Profiles]:
    """The fields of `PlayedGames`; all games are played in row 0 of `states`, one after the other."""
    rows, buffers = len(proposals), len(tables.buffer)
    played = np.empty(proposals.shape, np.int16)
    cost, latency, resets = np.full(rows, np.nan), np.full(rows, np.nan), np.empty(rows, np.int64)
    took = np.full((rows, len(tables.step) + 1), np.nan, np.float32)
    action, parts = np.empty(buffers, np.int32), np.empty(3)
    first, last = np.empty(buffers, np.int32), np.empty(buffers, np.int32)
    state = state_of(states, 0)
    for row in range(rows):
        play_proposal(tables, state, proposals[row], words)
        for b in range(buffers):
            placed = state.buffer[b]
            played[row, b] = placed.action
            action[b], first[b], last[b] = placed.action, placed.copy_first, placed.copy_last
        # A lost game has no cost: some of its buffers were never decided.
        if not state.game[0].lost:
            cost[row] = program_s(tables, state)
            latency[row] = simulate(tables, action, first, last, parts, took[row])
        resets[row] = state.game[0].resets
    return played, cost, latency, resets, took
