"""A sequential game whose legal moves depend on the state, as a problem."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.mappings import choice_columns, independent_sample
from hwsim.problem import About, Baseline, Bound, Evaluation, Floats, Keys, Mapping16, Observation, Violation
from hwsim.space import Space
from hwsim.stepwise import Arrays, Game, RevisableGame, Revised


@dataclass(frozen=True)
class Purse:
    """State of B toy games: moves and coins left int64 [B], score float64 [B], actions int16 [B, 6], -1 = to come."""

    move: NDArray[np.int64]
    coins: NDArray[np.int64]
    score: Floats
    played: NDArray[np.int16]


class CoinGame(Game):
    """Six moves; action a costs a coins of 7 and pays a price that grows with the move. Unpaid moves are 0."""

    num_actions = 4
    max_moves = 6
    coins = 7
    first_place = 0
    following = np.array([1, 2, 3, 4, 5, 6, 6])

    def reset(self, batch: int) -> Purse:
        return Purse(
            np.zeros(batch, np.int64),
            np.full(batch, self.coins),
            np.zeros(batch),
            np.full((batch, 6), -1, np.int16),
        )

    def legal(self, state: Purse) -> NDArray[np.bool_]:
        affordable = np.arange(self.num_actions) <= state.coins[:, None]
        return affordable & (state.move < self.max_moves)[:, None]

    def step(self, state: Purse, action: NDArray[np.int16]) -> tuple[Purse, Floats, NDArray[np.bool_]]:
        reward = np.sqrt(action) * (1 + 0.3 * state.move * (state.move % 2))
        played = state.played.copy()
        on = state.move < self.max_moves
        played[on, state.move[on]] = action[on]
        after = Purse(state.move + 1, state.coins - action, state.score + reward, played)
        return after, reward, after.move >= self.max_moves

    def observe(self, state: Purse) -> dict[str, NDArray[Any]]:
        return {"move": state.move, "coins": state.coins}

    def place(self, state: Purse) -> NDArray[np.int64]:
        return state.move.copy()

    def mapping(self, state: Purse) -> Mapping16:
        return state.played[:, :, None].copy()

    def take(self, state: Purse, index: NDArray[np.int64]) -> Purse:
        return Purse(
            state.move[index].copy(),
            state.coins[index].copy(),
            state.score[index].copy(),
            state.played[index].copy(),
        )


def played(game: CoinGame, mapping: Mapping16) -> tuple[Mapping16, Floats]:
    """Mappings [B, 6, 1] with the dearest legal action for each illegal one, and their returns [B]."""
    out, state = mapping.copy(), game.reset(len(mapping))
    for move in range(6):
        dearest = (game.legal(state) * np.arange(4)).max(axis=1)
        out[:, move, 0] = np.minimum(mapping[:, move, 0], dearest)
        state, _, _ = game.step(state, out[:, move, 0])
    return out, state.score


class ToyGame:
    """The game as a problem: a mapping [6, 1] is played in order; the dearest legal action replaces an illegal one."""

    def __init__(self) -> None:
        self.game = CoinGame()
        self.about = About("toy-game", "toy", "none")
        self.space = Space([f"n{i}" for i in range(6)], ["h0"], np.full((6, 1), 4, np.int16))
        initial = self.space.initial
        self.baseline = Baseline(initial, float(self._costs(initial[None])[0]), "initial")
        x = np.concatenate(
            [np.arange(6)[:, None] / 6, choice_columns(self.space.choice_rank, initial)], axis=1
        )
        self.observation = Observation(x.astype(np.float32), np.array([range(5), range(1, 6)], np.int64))

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """What the game pays makes its cost less."""
        settled, ran = self.repair(mapping, key), np.ones(len(mapping), np.bool_)
        return Evaluation.of_costs(self._costs(settled), self.baseline.cost, ran, settled, np.zeros(len(ran)))

    def sample(self, probabilities: NDArray[np.floating[Any]] | None, key: Keys) -> Mapping16:
        """Draw every action by itself, and play them."""
        return played(self.game, independent_sample(self.space, probabilities, key))[0]

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        """Games with legal actions."""
        self.space.check(mapping, key)
        return played(self.game, mapping)[0]

    def _costs(self, mapping: Mapping16) -> Floats:
        state = self.game.reset(len(mapping))
        for move in range(6):
            state, _, _ = self.game.step(state, mapping[:, move, 0])
        return 10.0 / (1.0 + state.score)

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Coins that are spent but were never there."""
        spent = int(mapping.sum())
        return (
            [Violation("coins", "the game", spent, CoinGame.coins, "coins")] if spent > CoinGame.coins else []
        )

    def fingerprint(self) -> str:
        """Of the rules."""
        return hashlib.sha256(b"toy-game").hexdigest()


class CoinTable(CoinGame, RevisableGame):
    """The game with what search can do without: moves in place, games that are played again, and a view."""

    arrays, view_schema = Arrays(), 1

    def __init__(self, shown: tuple[str, ...] = ("move", "coins")) -> None:
        self._shown = shown

    def seen_by(self, view: tuple[str, ...]) -> CoinTable:
        """The game with the observations that a view names."""
        return CoinTable(view)

    def observe(self, state: Purse) -> dict[str, NDArray[Any]]:
        return {name: array for name, array in super().observe(state).items() if name in self._shown}

    def advance(self, state: Purse, action: NDArray[np.int16]) -> tuple[Purse, Floats, NDArray[np.bool_]]:
        after, reward, done = self.step(state, action)
        for name in ("move", "coins", "score", "played"):
            getattr(state, name)[...] = getattr(after, name)
        return state, reward, done

    def revised(self, proposal: Mapping16, key: np.uint64, moves: int, hot: float, cold: float) -> Revised:
        """Games with one action changed, as many as the moves allow; a better one is gone on with."""
        rng, tried = np.random.default_rng(int(key)), max(1, moves // self.max_moves)
        best = played(self, proposal[None])
        for _ in range(tried):
            changed = best[0].copy()
            changed[0, rng.integers(self.max_moves), 0] = rng.integers(self.num_actions)
            found = played(self, changed[0][None])
            best = found if found[1][0] > best[1][0] else best
        mapping, returned = best[0][0], float(best[1][0])
        return Revised(mapping, mapping, returned, mapping, returned, tried, tried * self.max_moves)

    def greedy(self) -> tuple[Mapping16, int]:
        """A coin at every move, while there is one."""
        return played(self, np.full((1, 6, 1), 1, np.int16))[0][0], 1


class ToyCoins(ToyGame):
    """The game on such a table; no reward is above that of the best of all games, which is known after a while."""

    def __init__(self) -> None:
        super().__init__()
        self.game = CoinTable()

    def bound(self, time_limit_s: float) -> Bound:
        """By trying all games; at once, by the game that could pay for the dearest action at every move."""
        every = np.stack(np.meshgrid(*[np.arange(4, dtype=np.int16)] * 6), axis=-1).reshape(-1, 6, 1)
        dearest = np.full((1, 6, 1), 3, np.int16)
        paid = played(self.game, every)[1] if time_limit_s > 0 else _unlimited(self.game, dearest)
        cost = 10.0 / (1.0 + float(paid.max()))
        reward = (self.baseline.cost / cost) ** 2
        return Bound(cost, reward, "all were tried" if time_limit_s > 0 else "as many coins as it takes", 0.0)


def _unlimited(game: CoinGame, mapping: Mapping16) -> Floats:
    state = game.reset(len(mapping))
    for move in range(6):
        state, _, _ = game.step(state, mapping[:, move, 0])
    return state.score
