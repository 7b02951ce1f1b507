"""What method `muzero` promises beyond the conformance suite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from agents import agent, games, settings
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods import find_method
from egrl_muzero.learner import _among
from egrl_muzero.targets import ends_of
from egrl_muzero.trainer import RECENT
from hwsim.problem import Status
from subjects import PROBLEMS
from toys import ToyGame
from workloads.errors import InputError


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["gumbel", pytest.param("puct", marks=pytest.mark.exhaustive)])
def test_two_threads_play_and_learn_as_one_does(policy):
    problem = ToyGame()
    given = settings(**{"search": policy, "updates": 4, "temperature.steps": 20})
    one, two = agent(problem, given, 1), agent(problem, given, 2)
    assert games(one, 12) == games(two, 12)
    assert np.array_equal(one.learner.state()["weights"], two.learner.state()["weights"])


def test_what_returns_end_in_is_valued_anew_by_the_networks_of_now():
    player = agent(ToyGame(), settings(replay=10_000, **{"learner.unroll": 1, "learner.steps": 3}))
    games(player, 4)
    ring, window = player.ring, player.ring.window(0)
    known = ring.scalars["value"][: ring.end].copy()
    ring.scalars["value"][:] = 99.0
    time, slot = player.trainer.reanalyse(window)
    searched = {(t + k, b) for t, b in zip(time.tolist(), slot.tolist(), strict=True) for k in (0, 1)}
    when, where = ends_of(ring, window.end, time, slot, 1, 3)
    ends = set(zip(when.tolist(), where.tolist(), strict=True))
    assert ends - searched
    changed = {(t, b) for t, b in np.argwhere(ring.scalars["value"][: len(known)] != 99.0).tolist()}
    assert changed == {(t, b) for t, b in searched | ends if t < window.end}
    row, column = np.array(sorted(ends - searched)).T
    seen, place = ring.seen(row, column), ring.scalars["place"][row, column]
    said = player.chooser.values(seen, ring.legal[row, column], place)
    assert ring.scalars["value"][row, column] == pytest.approx(said, rel=1e-6)


def test_greedy_slots_of_a_puct_search_take_the_most_visited_move_without_noise():
    given = {"search": "puct", "greedy": 0.5, "noise_fraction": 1.0, "simulations": 12}
    quiet, noisy = (settings(**given | {"noise_alpha": alpha}) for alpha in (1.0, 0.03))
    chosen = []
    for each in (quiet, noisy):
        player = agent(ToyGame(), each)
        table = player.table
        seen, legal, place = table.observe(), table.legal(), table.place()
        action, policy, _ = player.chooser.choose(seen, legal, place)
        greedy = player.chooser.greedy
        assert np.array_equal(action[greedy], policy[greedy].argmax(axis=1))
        chosen.append(policy)
    assert np.array_equal(chosen[0][greedy], chosen[1][greedy])
    assert not np.array_equal(chosen[0][~greedy], chosen[1][~greedy])


def test_without_search_only_the_latest_moves_that_a_policy_was_drawn_for_teach():
    player = agent(ToyGame(), settings(ablation="no-search", replay=10_000))
    games(player, 3 * RECENT)
    window = player.ring.window(0)
    assert window.first == 0
    time, slot = player.trainer._draw(window, 1000)
    assert min(time) == window.end - RECENT * player._config.chunk
    assert set(slot) == set(np.flatnonzero(~player.chooser.greedy))
    assert player.chooser.greedy.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [
        {"learner.learning_rate": 0.005},
        pytest.param({"learner.learning_rate": 0.003, "ablation": "no-search"}, marks=pytest.mark.exhaustive),
    ],
)
def test_learning_finds_better_games_than_random_play(way):
    problem = ToyGame()
    changes = {"slots": 8, "chunk": 6, "updates": 8, "simulations": 8, "replay": 500, "restarts": 0.0}
    networks = {"network.width": 32, "network.hidden": 32, "network.bins": 41, "network.support": 10.0}
    learner = {"learner.batch": 64, "learner.steps": 6, "discount.first": 0.99}
    quiet = {"stray": 0.0, "coherent_scale": 0.0}
    given = settings(**changes, **networks, **learner, **quiet, **way)
    player = agent(problem, given)
    returned = []
    for _ in range(80):
        player.work()
        returned += [game.returned for game in player.finished]
        player.finished.clear()
    best = max(returned)
    assert np.mean(returned[-40:]) > 0.9 * best
    assert np.mean(returned[-40:]) > 1.15 * np.mean(returned[:16])


def test_what_is_illegal_has_no_part_in_a_policy():
    logits = torch.tensor([[1.0, 2.0, 3.0], [0.0, 5.0, 0.0], [1.0, 1.0, 1.0]])
    legal = torch.tensor([[True, False, True], [False, True, False], [False, False, False]])
    found = _among(logits, legal).exp()
    assert found[0].tolist() == pytest.approx([1 / (1 + np.e**2), 0.0, 1 / (1 + np.e**-2)])
    assert found[1].tolist() == [0.0, 1.0, 0.0]
    assert found[2].tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.exhaustive
def test_demonstrations_are_played_and_never_proposed():
    problem = PROBLEMS["mmap"]()
    given = settings(demonstrations=1, greedy=0.0, restarts=0.0)
    player = agent(problem, given, shown=True)
    shown = tuple(problem.baseline.mapping[problem.space.live].tolist())
    led = len(player.table) - 1
    for _ in range(len(shown) // given.chunk + 1):
        player.work()
    assert player.table.records[led][0].actions == list(shown)
    assert all(game.slot != led for game in player.finished)


def test_without_learning_the_networks_stay_as_they_are():
    player = agent(ToyGame(), settings(ablation="no-learning"))
    before = player.learner.state()["weights"].copy()
    games(player, 6)
    assert np.array_equal(player.learner.state()["weights"], before)


@pytest.mark.slow
def test_new_games_begin_with_parts_of_the_best_ones():
    player = agent(ToyGame(), settings(restarts=1.0, elites=1, greedy=0.0))
    games(player, 20)
    best = player.elites.games[0][0].actions
    begun = [
        record for records in player.table.records for record in records if record.given and record.since
    ]
    assert begun
    assert any(tuple(record.actions[: record.given]) == best[: record.given] for record in begun)


def test_coherent_noise_is_another_policy_for_a_whole_game_and_the_rest_is_drawn_each_move():
    player = agent(
        ToyGame(), settings(coherent_scale=50.0, gumbel_scale=5.0, greedy=0.0, stray=0.0, slots=64)
    )
    seen, legal, place = player.table.observe(), player.table.legal(), player.table.place()
    first, again = (player.chooser.choose(seen, legal, place)[0] for _ in range(2))
    coherent = np.arange(64) % 2 == 1
    strong = coherent & (np.arange(64) > 16)
    assert np.array_equal(first[strong], again[strong])
    assert (first[~coherent] != again[~coherent]).any()
    for slot in range(64):
        player.chooser.begin(slot)
    other = player.chooser.choose(seen, legal, place)[0]
    assert (other[strong] != first[strong]).any()


def test_a_slot_that_strays_does_one_and_the_same():
    chooser = agent(ToyGame(), settings(stray=2.0, greedy=0.0, slots=64)).chooser
    legal = np.ones((64, ToyGame().game.num_actions), np.bool_)
    lasted = 0
    for _ in range(200):
        left, same = chooser.state()["left"].copy(), chooser.state()["same"].copy()
        action, astray = chooser.stray(np.zeros(64, np.int64), legal)
        going = left > 0
        assert np.array_equal(action[going], same[going])
        assert np.array_equal(astray, action != 0)
        lasted += int(going.sum())
    assert lasted > 100


def test_stray_moves_are_legal_and_only_where_there_is_noise():
    player = agent(ToyGame(), settings(stray=20.0, greedy=0.5))
    for _ in range(4):
        player.work()
    strayed = player.ring.scalars["stray"][: player.ring.end]
    assert not strayed[:, :4].any()
    assert strayed[:, 4:].any()
    slots = np.arange(strayed.shape[1])
    for time in range(min(player.ring.end, player.ring.rows)):
        assert player.ring.legal[time, slots, player.ring.scalars["action"][time]].all()


@pytest.mark.exhaustive
def test_lost_games_are_proposed_whole_and_are_invalid():
    problem = PROBLEMS["mmap-lost"]()
    context = Context([problem], Archive([problem]), 0, [None], None, 1)
    method = find_method("muzero").build(context, settings(chunk=64, updates=0))
    lost = 0
    for _ in range(12):
        asked = method.ask()
        assert asked is not None
        found = problem.evaluate(asked.mapping, np.zeros(len(asked), np.uint64))
        lost += int((found.status == Status.INVALID).sum())
    assert lost > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slots": 1, "demonstrations": 1}, "method.slots: expected at least 2 for 1 workloads"),
        ({"slots": 8, "chunk": 8, "replay": 12}, "method.replay: expected room for more than .* 64 moves"),
        ({"dynamics": "rules"}, "method.reanalyse: expected 0 with method.dynamics=rules"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, said):
    problem = ToyGame()
    context = Context([problem], Archive([problem]), 0, [None], None, 1)
    with pytest.raises(InputError, match=said):
        find_method("muzero").build(context, settings(**changes))


def test_named_tensors_are_refused_over_several_programs():
    problems = [ToyGame(), ToyGame()]
    context = Context(problems, Archive(problems), 0, [None, None], None, 1)
    with pytest.raises(InputError, match=r"method\.network\.ids: expected 0 for 2 workloads"):
        find_method("muzero").build(context, settings())
    assert find_method("muzero").build(context, settings(**{"network.ids": 0})).ask() is not None


def test_a_policy_of_other_networks_is_refused():
    problem = ToyGame()
    context = Context([problem], Archive([problem]), 0, [None], None, 1)
    first = find_method("muzero").build(context, settings())
    policy = first.policy()
    assert policy is not None
    other = replace(context, seed=1)
    assert not np.array_equal(weights(find_method("muzero").build(other, settings())), weights(first))
    assert np.array_equal(
        weights(find_method("muzero").build(replace(other, init=policy), settings())), weights(first)
    )
    with pytest.raises(InputError, match=r"--init: network\.width: expected"):
        find_method("muzero").build(replace(context, init=policy), settings(**{"network.width": 12}))


def weights(method: Any) -> Any:
    return np.concatenate([array.ravel() for array in method.policy().weights.values()])
