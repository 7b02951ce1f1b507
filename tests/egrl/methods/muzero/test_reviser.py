"""Games that are revised between slices of play, and slots that imitate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from players import agent, games, settings

from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods.muzero.elites import Elites
from egrl.methods.muzero.reviser import COOL, FIRST, NO_SLOT, ReviseConfig, Reviser
from egrl.methods.muzero.shown import Shown
from egrl.methods.muzero.table import Finished
from hwsim.problem import Mapping16
from hwsim.stepwise import Revised
from subjects import PROBLEMS
from toys import ToyGame


class Counting:
    """A game of four decisions whose return is their sum; revising it makes one more of them 1."""

    num_actions = 2
    first_place = 0
    following = np.array([1, 2, 3, 4, 4])

    def __init__(self) -> None:
        self.asked: list[tuple[list[int], int, float, float]] = []

    def revised(self, wish: Mapping16, key: np.uint64, moves: int, hot: float, cold: float) -> Revised:
        self.asked.append((wish[:, 0].tolist(), moves, hot, cold))
        after = wish.copy()
        after[int(np.argmin(after)), 0] = 1
        return Revised(after, wish, float(wish.sum()), after, float(after.sum()), 3, moves)


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


@pytest.mark.parametrize(("part", "revises"), [("none", True), ("no-revision", False), ("no-search", False)])
def test_revised_games_are_proposed_as_such_unless_that_part_is_left_out(part, revises):
    problem = PROBLEMS["mmap"]()
    player = agent(problem, settings(ablation=part, **{"revise.moves": 50.0}))
    sources, better = set(), []
    for _ in range(40):
        player.work()
        for game in player.finished:
            sources.add(player.source(game.slot))
            if game.slot == NO_SLOT:
                better.append(game)
        player.finished.clear()
    assert ("revised" in sources) == revises
    assert (player.reviser.tried > 0) == revises
    for game in better:
        found = problem.evaluate(np.maximum(game.mapping, 0)[None], np.zeros(1, np.uint64))
        assert found.reward[0] == pytest.approx(game.returned, abs=1e-12)
    if better:
        assert player.elites.games[0][0].returned >= better[-1].returned


def test_slots_imitate_the_best_game_and_propose_nothing(monkeypatch):
    problem = PROBLEMS["mmap"]()
    player = agent(problem, settings(imitations=2, greedy=0.0, restarts=0.0, stray=0.0))
    imitating = np.flatnonzero(player.shown.imitating).tolist()
    assert imitating == [6, 7]
    assert not player.shown.led.any()  # there is no game to imitate yet
    decided, keep = problem.space.live, player.elites.keep
    known, shown = set(), []

    def noted(game: Any) -> None:
        known.add(tuple(game.mapping[decided].tolist()))
        keep(game)

    monkeypatch.setattr(player.elites, "keep", noted)
    while not player.shown.led[imitating].all():
        player.work()
    began = {slot: player.table.records[slot][-1].since for slot in imitating}
    player.finished.clear()
    for _ in range(30):
        player.work()
        shown += [
            tuple(record.actions)
            for slot in imitating
            for record in player.table.records[slot][:-1]
            if record.since >= began[slot]
        ]
    assert shown
    assert known.issuperset(shown)
    assert not {game.slot for game in player.finished} & set(imitating)


def test_what_is_lost_is_not_proposed():
    problem = PROBLEMS["mmap-lost"]()
    player = agent(problem, settings(**{"revise.moves": 50.0, "revise.hot": 100.0}))
    revised = []
    for _ in range(60):
        player.work()
        revised += [game for game in player.finished if game.slot == NO_SLOT]
        player.finished.clear()
    assert revised
    assert all(min(game.actions) >= 0 for game in revised)
    assert player.reviser.tried > len(revised)


def test_every_problem_keeps_a_slot_that_plays_it():
    shown = Shown(np.arange(5) % 4, np.array([0, 5, 10, 15, 20]), [], 0, 4)
    assert shown.imitating.tolist() == [False] * 4 + [True]


def test_half_of_the_slots_without_demonstrations_play_themselves():
    shown = Shown(np.zeros(8, np.int64), np.array([0, 5]), [np.zeros((4, 1), np.int16)], 2, 100)
    assert shown.demonstrating.tolist() == [False] * 6 + [True] * 2
    assert shown.imitating.tolist() == [False] * 3 + [True] * 3 + [False] * 2


def test_an_agent_that_imitates_and_revises_goes_on_where_it_was():
    problem = PROBLEMS["mmap"]()
    given = settings(imitations=2, greedy=0.0, **{"revise.moves": 50.0})
    one, other = agent(problem, given), agent(problem, given)
    games(one, 20)
    assert one.shown.led.any()
    other.load(one.state())
    assert games(one, 10) == games(other, 10)
    assert one.reviser.tried == other.reviser.tried
