"""Toy problems that pass through the same loop as the real ones, to prove the types by more than one case.

`ToyRagged`   decisions with 1 to 4 choices, some dead, on a graph
`ToyGame`     a sequential game whose legal moves depend on the state
`ToyGrammar`  a derivation graph with shared vertices and dead ends; plans of different lengths
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.canonical import canonical, check_keys, check_mapping, choice_columns, independent_sample
from hwsim.keys import derive
from hwsim.problem import Baseline, Bound, Evaluation, Floats, Keys, Mapping16, Observation, Status, Violation


def evaluation(baseline_cost: float, cost: Floats, repaired: Mapping16) -> Evaluation:
    """Everything ran."""
    rows = len(cost)
    speedup = baseline_cost / cost
    return Evaluation(
        speedup**2,
        cost,
        speedup,
        np.zeros(rows),
        np.full(rows, Status.OK, np.int8),
        np.zeros(rows, np.bool_),
        repaired,
    )


class _Toy:
    """What the toys have in common; `costs` and `settle` make the difference."""

    chip = "none"
    unit = "s"
    workload = "toy"

    def __init__(self, name: str, num_choices: NDArray[np.int16], size_bytes: NDArray[np.int64]) -> None:
        self.name, self.num_choices, self.size_bytes = name, num_choices, size_bytes
        nodes, heads = num_choices.shape
        widest = int(num_choices.max())
        self.nodes = tuple(f"n{i}" for i in range(nodes))
        self.heads = tuple(f"h{i}" for i in range(heads))
        self.labels = tuple(tuple(f"c{c}" for c in range(widest)) for _ in range(heads))
        self.choice_rank = np.tile(np.linspace(0, 1, widest, dtype=np.float32), (heads, 1))
        self.observation: Observation | None = None

    def _finish(self, initial: Mapping16) -> None:
        self.initial = initial
        self.baseline = Baseline(initial, float(self.costs(initial[None])[0]), "initial")

    def costs(self, mapping: Mapping16) -> Floats:
        raise NotImplementedError

    def settle(self, mapping: Mapping16) -> Mapping16:
        return canonical(mapping, self.size_bytes > 0)

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        settled = self.repair(mapping, key)
        return evaluation(self.baseline.cost, self.costs(settled), settled)

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        check_mapping(self, mapping, key)
        return self.settle(mapping)

    def sample(self, probabilities: NDArray[np.floating[Any]], key: Keys) -> Mapping16:
        return self.settle(independent_sample(probabilities, self.num_choices, self.size_bytes > 0, key))

    def judge(self, mapping: Mapping16) -> list[Violation]:
        settled = self.settle(mapping[None])[0]
        wrong = np.argwhere(settled != mapping)
        return [
            Violation("choice", self.nodes[n], float(mapping[n, h]), float(settled[n, h]), "")
            for n, h in wrong
        ]

    def bound(self, time_limit_s: float) -> Bound | None:
        return None

    def fingerprint(self) -> str:
        return hashlib.sha256(repr((self.name, self.num_choices.tolist())).encode()).hexdigest()

    def files(self) -> Mapping[str, str]:
        return {"workload.json": "{}"}


class ToyRagged(_Toy):
    """7 nodes x 2 heads on a ring with a chord; each node has its own number of choices, three are dead."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        num_choices = rng.integers(1, 5, (7, 2)).astype(np.int16)
        size = rng.integers(1, 100, (7, 2))
        size[[1, 3, 6], [0, 1, 0]] = 0
        super().__init__("toy-ragged", num_choices, size)
        self._price = rng.random((7, 2, 4))
        self._finish(canonical(np.zeros((7, 2), np.int16), size > 0))
        x = np.concatenate([rng.random((7, 3)), choice_columns(self.choice_rank, self.initial)], axis=1)
        edges = np.array([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 6, 3]], np.int64)
        self.observation = Observation(x.astype(np.float32), edges)

    def costs(self, mapping: Mapping16) -> Floats:
        """1 + prices of the choices + 0.5 wherever neighbours' last heads differ."""
        n, h = np.nonzero(self.size_bytes > 0)
        own = np.array([math.fsum(self._price[n, h, row[n, h]]) for row in mapping])
        return 1.0 + own + 0.5 * (np.diff(mapping[:, :, 1], axis=1) != 0).sum(axis=1)


@dataclass(frozen=True)
class Purse:
    """State of B toy games: moves and coins left int64 [B], score float64 [B], actions int16 [B, 6], -1 = to come."""

    move: NDArray[np.int64]
    coins: NDArray[np.int64]
    score: Floats
    played: NDArray[np.int16]


class CoinGame:
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


class ToyGame(_Toy):
    """The game as a problem: a mapping [6, 1] is played in order; the dearest legal action replaces an illegal one."""

    def __init__(self) -> None:
        self.game = CoinGame()
        super().__init__("toy-game", np.full((6, 1), 4, np.int16), np.ones((6, 1), np.int64))
        self._finish(np.zeros((6, 1), np.int16))
        x = np.concatenate(
            [np.arange(6)[:, None] / 6, choice_columns(self.choice_rank, self.initial)], axis=1
        )
        self.observation = Observation(x.astype(np.float32), np.array([range(5), range(1, 6)], np.int64))

    def settle(self, mapping: Mapping16) -> Mapping16:
        played = mapping.copy()
        state = self.game.reset(len(mapping))
        for move in range(6):
            legal = self.game.legal(state)
            dearest = (legal * np.arange(4)).max(axis=1)
            played[:, move, 0] = np.minimum(mapping[:, move, 0], dearest)
            state, _, _ = self.game.step(state, played[:, move, 0])
        return played

    def costs(self, mapping: Mapping16) -> Floats:
        state = self.game.reset(len(mapping))
        for move in range(6):
            state, _, _ = self.game.step(state, mapping[:, move, 0])
        return 10.0 / (1.0 + state.score)


Parts = tuple[int, ...]


class Splits:
    """Ways to write a number as a sum of parts 2..5; a vertex is the sorted parts taken so far.

    Taking 2 then 3 leads to the same vertex as 3 then 2; a rest of 1 is a dead end.
    """

    root: Hashable = ()

    def __init__(self, number: int) -> None:
        self.number = number

    def successors(self, vertex: Hashable) -> Sequence[Parts]:
        parts = _parts(vertex)
        rest = self.number - sum(parts)
        return [tuple(sorted((*parts, part))) for part in range(2, min(5, rest) + 1)]

    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        parts = _parts(vertex)
        if sum(parts) != self.number:
            return None
        row = np.full((self.number // 2, 1), -1, np.int16)
        row[: len(parts), 0] = np.array(parts) - 2
        return row


def _parts(vertex: Hashable) -> Parts:
    assert isinstance(vertex, tuple)
    return vertex


class ToyGrammar(_Toy):
    """Split a number into parts; a plan [number // 2, 1] holds part - 2 in rising order, then -1."""

    def __init__(self, number: int = 17) -> None:
        self.number = number
        self.derivation = Splits(self.number)
        rows = self.number // 2
        super().__init__(
            "toy-grammar" if number == 17 else f"toy-grammar-{number}",
            np.full((rows, 1), 4, np.int16),
            np.ones((rows, 1), np.int64),
        )
        self._finish(self.settle(np.zeros((1, rows, 1), np.int16))[0])

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        rows = self.number // 2
        if (
            mapping.dtype != np.int16
            or mapping.shape[1:] != (rows, 1)
            or mapping.max(initial=0) > 3
            or mapping.min(initial=0) < -1
        ):
            raise ValueError(
                f"mapping: expected int16 [B, {rows}, 1] of -1..3, received {mapping.dtype} {mapping.shape}"
            )
        check_keys(key, len(mapping))
        return self.settle(mapping)

    def settle(self, mapping: Mapping16) -> Mapping16:
        return np.stack([self._walk(row[:, 0].tolist()) for row in mapping])

    def _walk(self, wishes: list[int]) -> Mapping16:
        """Derive a complete plan, taking at each step the wished part or the nearest one that leads somewhere."""
        vertex = self.derivation.root
        for wish in [*wishes, *([0] * len(wishes))]:
            plan = self.derivation.mapping(vertex)
            if plan is not None:
                return plan
            rest = self.number - sum(_parts(vertex))
            open_parts = [part for part in range(2, min(5, rest) + 1) if rest - part != 1]
            part = min(open_parts, key=lambda p: (abs(p - 2 - max(wish, 0)), p))
            vertex = tuple(sorted((*_parts(vertex), part)))
        raise AssertionError("a walk of 2 N steps is always complete")

    def costs(self, mapping: Mapping16) -> Floats:
        price = np.array([2.0, 2.5, 5.0, 4.5])
        plans = [row[row >= 0] for row in mapping[:, :, 0]]
        return np.array([math.fsum(price[plan]) + 0.1 * len(plan) ** 2 for plan in plans])

    def sample(self, probabilities: NDArray[np.floating[Any]], key: Keys) -> Mapping16:
        drawn = independent_sample(probabilities, self.num_choices, self.size_bytes > 0, derive(key, 5))
        return self.settle(drawn)


TOYS = {"ragged": ToyRagged, "game": ToyGame, "grammar": ToyGrammar}
