"""Rounds of revisions, whoever asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods.revise import COOL, NO_SLOT, Elites, Finished, ReviseConfig, Reviser
from hwsim.problem import Mapping16
from hwsim.stepwise import RevisableGame, Revised
from toys import CoinGame, ToyGame

FIRST = ReviseConfig.first


class Counting(CoinGame, RevisableGame):
    """A game of four decisions whose return is their sum; revising it makes one more of them 1."""

    num_actions = 2
    first_place = 0
    following = np.array([1, 2, 3, 4, 4])

    def __init__(self) -> None:
        self.asked: list[tuple[list[int], int, float, float]] = []

    def revised(self, proposal: Mapping16, key: np.uint64, moves: int, hot: float, cold: float) -> Revised:
        self.asked.append((proposal[:, 0].tolist(), moves, hot, cold))
        after = proposal.copy()
        after[int(np.argmin(after)), 0] = 1
        return Revised(after, proposal, float(proposal.sum()), after, float(after.sum()), 3, moves)


def context(problem: Any) -> Context:
    return Context([problem], Archive([problem]), 0, [None], None, 1)


def finished(*decided: int) -> Finished:
    return Finished(0, 0, np.array(decided, np.int16)[:, None], float(sum(decided)), decided)


def reviser(game: Any, **given: Any) -> tuple[Reviser, Elites]:
    elites = Elites(1, 4, np.random.default_rng(0))
    return Reviser([game], ReviseConfig(**given), context(ToyGame())), elites


def test_the_best_game_is_revised_step_by_step_and_what_it_has_come_to_is_proposed():
    game = Counting()
    player, elites = reviser(game, moves=2.0, round=1 / FIRST, hot=2.0, fresh=0.0)
    assert player.work(4, elites) == []  # nothing was played yet
    for kept in (finished(0, 1, 0, 0), finished(0, 0, 0, 0)):
        elites.keep(kept)
        player.note(kept)
    (better,) = player.work(4, elites)
    assert (better.returned, better.actions, better.slot) == (2.0, (1, 1, 0, 0), NO_SLOT)
    player.note(finished(1, 1, 1, 0))
    (present,) = player.work(4, elites)  # 3, as well as one that was played
    assert (present.returned, present.actions) == (2.0, (1, 1, 0, 0))
    assert game.asked[0] == ([0, 1, 0, 0], 8, 0.5 * COOL, 0.5 * COOL * (1 - 2 / 4))
    assert game.asked[1] == (
        [1, 1, 0, 0],
        3,
        0.5 * COOL * (1 - 3 / 4),
        0.0,
    )  # to the end of the round of 4 games
    assert game.asked[2] == ([1, 1, 0, 0], 5, 0.5, 0.5 * (1 - 5 / 8))  # one of 8, hotter, from the best
    assert player.tried == 3 * len(game.asked)


def test_some_rounds_begin_with_the_best_game_played_since_the_last():
    game = Counting()
    player, elites = reviser(game, moves=4.0, round=0.5 / FIRST, fresh=1.0)
    elites.keep(finished(1, 1, 0, 0))
    for played in (finished(0, 0, 0, 1), finished(0, 0, 1, 1), finished(0, 1, 0, 0)):
        player.note(played)
    player.work(4, elites)
    assert [asked[0] for asked in game.asked[:2]] == [[0, 0, 1, 1], [1, 0, 1, 1]]


def test_games_that_cannot_be_revised_are_left_alone():
    player, elites = reviser(ToyGame().game, moves=10.0)
    elites.keep(finished(0, 1, 0, 0))
    assert player.work(100, elites) == []
    assert player.tried == 0


def test_a_reviser_goes_on_where_it_was():
    first, game = Counting(), Counting()
    one, elites = reviser(first, moves=1.0, round=1.0, fresh=0.5)
    for kept in (finished(0, 1, 0, 0), finished(0, 0, 1, 1)):
        elites.keep(kept)
        one.note(kept)
    for _ in range(3):
        one.work(4, elites)
    other, _ = reviser(game, moves=1.0, round=1.0, fresh=0.5)
    other.load(one.state())
    first.asked.clear()
    for _ in range(6):
        mine, its = one.work(4, elites), other.work(4, elites)
        assert [(g.returned, g.actions) for g in mine] == [(g.returned, g.actions) for g in its]
    assert game.asked == first.asked
    assert one.tried == other.tried


def test_checkpoints_have_the_keys_of_earlier_ones_and_restore_a_game_that_is_revised():
    game = Counting()
    player, elites = reviser(game, moves=2.0, round=1 / FIRST, hot=2.0, fresh=0.0)
    elites.keep(finished(0, 1, 0, 0))
    player.note(finished(0, 1, 0, 0))
    player.work(4, elites)
    state = player.state()
    assert set(state["walks"][0]) == {"wish", "rounds", "done", "rate", "number", "fresh", "best"}
    other, _ = reviser(Counting(), moves=2.0, round=1 / FIRST, hot=2.0, fresh=0.0)
    other.load(state)
    assert state["walks"][0]["wish"] is not None
    assert repr(other._walks) == repr(player._walks)
