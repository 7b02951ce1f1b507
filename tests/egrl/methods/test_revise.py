"""The method `revise`: what it begins with, what it proposes, and what it counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egrl.core.archive import START, Archive, proposals
from egrl.core.method import Context
from egrl.methods import find_method
from egrl.methods import revise as revise_module
from egrl.methods.revise import DEFINITION, Revise, ReviseMethodConfig
from gate import gate
from hwsim.problem import Mapping16, Problem
from subjects import PROBLEMS
from toys import ToyCoins, ToyGame
from workloads.errors import InputError

KEY = np.zeros(1, np.uint64)
MOVES = 20_000


@pytest.fixture(scope="module")
def problem() -> Problem:
    return PROBLEMS["mmap"]()


def revise(problem: Any, **given: Any) -> tuple[Revise, Context]:
    context = Context([problem], Archive([problem]), 0, [None])
    return Revise(context, ReviseMethodConfig(**{"moves": MOVES, "hot": 0.0, **given})), context


def asked(player: Revise) -> tuple[Mapping16, str]:
    batch = player.ask()
    assert batch is not None
    assert len(batch) == 1
    return batch.mapping[0], str(batch.source[0])


def reward(problem: Problem, mapping: Mapping16) -> float:
    return float(problem.evaluate(mapping[None], KEY).reward[0])


@pytest.mark.slow
@pytest.mark.parametrize("start", gate(["greedy", "heuristic", "nothing"], ("heuristic",)))
def test_the_first_game_is_what_start_names_and_later_ones_are_no_worse(problem, start):
    player, _ = revise(problem, start=start)
    wish = {
        "greedy": lambda: problem.game.greedy()[0],
        "heuristic": lambda: problem.baseline.mapping,
        "nothing": lambda: np.full(problem.space.shape, 2, np.int16),
    }[start]()
    first, source = asked(player)
    assert source == start
    np.testing.assert_array_equal(first, problem.evaluate(np.maximum(wish, 0)[None], KEY).repaired[0])
    rewards = []
    for _ in range(12):
        mapping, source = asked(player)
        assert source == "revised"
        rewards.append(reward(problem, mapping))
    begun_with = reward(problem, first)
    assert max(rewards) > begun_with or start == "greedy"  # which is hard to beat here
    assert player.metrics()["returned"] == pytest.approx(max(begun_with, *rewards), abs=1e-12)
    assert player.metrics()["revisions"] > 100


@pytest.mark.slow
def test_a_new_best_game_is_proposed_at_once(problem):
    player, _ = revise(problem, start="nothing")
    asked(player)
    best = player.metrics()["returned"]
    improved = 0
    for _ in range(12):
        mapping, _ = asked(player)
        if player.metrics()["returned"] > best:
            best = player.metrics()["returned"]
            assert reward(problem, mapping) == pytest.approx(best, abs=1e-12)
            improved += 1
    assert improved > 0


@pytest.mark.slow
def test_a_start_mapping_that_returns_more_is_what_is_revised(problem):
    good, _ = revise(problem)
    for _ in range(20):
        asked(good)
    best = good.metrics()["returned"]
    player, _ = revise(problem, start="nothing")
    known = good._elites.games[0][0].mapping
    player.tell(proposals(known[None], START), problem.evaluate(known[None], KEY))
    first, source = asked(player)
    assert source == "nothing"
    assert reward(problem, first) < best
    assert player.metrics()["returned"] == pytest.approx(best, abs=1e-12)
    mapping, _ = asked(player)
    assert reward(problem, mapping) > best - 0.01


def test_games_played_beside_evaluations_are_counted_by_their_share(problem):
    player, context = revise(problem)
    asked(player)
    decisions, first = int(problem.space.live.sum()), context.model_use.calls
    assert first == pytest.approx(problem.game.greedy()[1] + 1)
    asked(player)
    assert MOVES / decisions <= context.model_use.calls - first < 2 * MOVES / decisions
    assert context.model_use.seconds > 0


@pytest.mark.slow
def test_a_long_slice_lets_the_loop_look_at_the_clock_and_gives_the_same_games(problem, monkeypatch):
    monkeypatch.setattr(revise_module, "PART", MOVES // 2)
    patient, _ = revise(problem)
    hurried, _ = revise(problem)
    expected = [asked(patient)[0] for _ in range(5)]
    asked(hurried)
    monkeypatch.setattr(revise_module, "PAUSE_S", 0.0)
    found, pauses = [], 0
    while len(found) < 4:
        batch = hurried.ask()
        if len(batch):
            found.append(batch.mapping[0])
        else:
            pauses += 1
            other, _ = revise(problem)
            other.load_state_dict(hurried.state_dict())
            hurried = other
    assert pauses >= 4
    np.testing.assert_array_equal(found, expected[1:])


def test_a_slice_plays_more_than_the_game_that_it_revises():
    player, _ = revise(ToyCoins(), moves=1)
    asked(player)
    asked(player)
    assert player.metrics()["revisions"] >= 5


@pytest.mark.exhaustive
def test_lost_games_are_not_proposed():
    player, _ = revise(PROBLEMS["mmap-lost"](), hot=100.0, start="nothing")
    first = player.ask()
    assert first is not None
    for _ in range(20):
        batch = player.ask()
        assert batch is not None
        assert (batch.mapping[:, player._problem.space.live] >= 0).all()


def test_it_says_why_it_cannot_revise():
    assert "no game" in str(DEFINITION.serves(PROBLEMS["nnpi"]()))
    assert "played again" in str(DEFINITION.serves(ToyGame()))
    assert find_method("revise").serves(ToyCoins()) is None


def test_greedy_play_is_asked_only_of_a_problem_that_has_it():
    class Without(ToyCoins):
        def __init__(self):
            super().__init__()
            self.game.greedy = None

    with pytest.raises(InputError, match=r"method\.start: expected heuristic or nothing .* found greedy"):
        revise(Without())
    mapping, source = asked(revise(Without(), start="nothing")[0])
    assert (mapping.shape, source) == ((6, 1), "nothing")
