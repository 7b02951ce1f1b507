"""Games that are revised between slices of play, and slots that imitate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents import agent, games, settings
from egrl.methods.revise import NO_SLOT
from egrl_muzero.agent import Shown
from subjects import PROBLEMS


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("part", "revises"),
    [
        pytest.param("none", True, marks=pytest.mark.exhaustive),
        ("no-revision", False),
        pytest.param("no-search", False, marks=pytest.mark.exhaustive),
    ],
)
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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_an_agent_that_imitates_and_revises_goes_on_where_it_was():
    problem = PROBLEMS["mmap"]()
    given = settings(imitations=2, greedy=0.0, **{"revise.moves": 50.0})
    one, other = agent(problem, given), agent(problem, given)
    games(one, 20)
    assert one.shown.led.any()
    other.load(one.state())
    assert games(one, 10) == games(other, 10)
    assert one.reviser.tried == other.reviser.tried
