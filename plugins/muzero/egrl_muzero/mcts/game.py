"""A game's own rules as the dynamics of a search: states are embeddings, illegal moves are masked at every node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl_muzero.mcts.search import Recurrent, Root, Step
from hwsim.problem import Floats
from hwsim.stepwise import Game

Evaluate = Callable[[Any], tuple[Any, Any]]
"""States of R games to prior logits [R, A] and values [R]; what is said of games that are over is ignored."""


def game_dynamics(
    game: Game, evaluate: Evaluate, discount: float = 1.0
) -> tuple[Callable[[Any], Root], Recurrent]:
    """(root, recurrent) of a search with the true rules: `root` takes states of games [B, …].

    Every node keeps a state, so a search needs B * (simulations + 1) of them in memory. `discount` is that of a
    move, more than 0.
    """
    if not discount > 0:
        raise ValueError(f"discount: expected more than 0, received {discount}")

    def root(state: Any) -> Root:
        logits, value = evaluate(state)
        return Root(logits, value, state, game.legal(state))

    def recurrent(state: Any, action: NDArray[np.int64]) -> Step:
        after, reward, done = game.step(state, action.astype(np.int16))
        logits, value = evaluate(after)
        return Step(reward, np.where(done, 0.0, discount), logits, value, after, game.legal(after))

    return root, recurrent


def unguided(game: Game) -> Evaluate:
    """What evaluates no state: equal logits and values of 0, so that a search relies on rewards alone."""

    def evaluate(state: Any) -> tuple[Floats, Floats]:
        rows = len(game.legal(state))
        return np.zeros((rows, game.num_actions)), np.zeros(rows)

    return evaluate
