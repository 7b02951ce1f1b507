import numpy as np
import pytest

from egrl_muzero.table import Table
from toys import CoinGame

FAR = 10**6


def play(table: Table, moves: int, seed: int = 0, seen: dict | None = None) -> list:
    rng = np.random.default_rng(seed)
    finished = []
    for _ in range(moves):
        if seen is not None:
            for slot, coins in enumerate(table.observe()["coins"][:, 0].tolist()):
                seen[table.time, slot] = coins
        legal = table.legal()
        finished += table.move((rng.random(legal.shape) * legal).argmax(axis=1)).finished
    return finished


def test_rewards_are_times_the_number_of_decisions_and_places_are_numbered_through():
    table = Table([CoinGame(), CoinGame()], 4)
    moved = table.move(np.array([1, 1, 2, 2]))
    assert moved.reward.tolist() == pytest.approx([6.0, 6.0, 6 * 2**0.5, 6 * 2**0.5])
    assert moved.place.tolist() == [0, 7, 0, 7]
    assert moved.after.tolist() == [1, 8, 1, 8]
    assert not moved.done.any()


def test_a_game_that_is_over_is_handed_out_and_begun_anew():
    table = Table([CoinGame()], 2)
    for _ in range(5):
        assert not table.move(np.array([0, 1])).finished
    moved = table.move(np.array([0, 1]))
    assert [game.slot for game in moved.finished] == [0, 1]
    assert moved.finished[1].mapping.ravel().tolist() == [1] * 6
    assert moved.finished[1].actions == (1,) * 6
    assert moved.finished[1].returned == pytest.approx(sum(1 + 0.3 * k * (k % 2) for k in range(6)))
    assert moved.after.tolist() == [6, 6]
    assert table.place().tolist() == [0, 0]


def test_slots_are_scattered_by_random_play_and_those_that_stay_are_not():
    table = Table([CoinGame()], 6)
    table.scatter(np.random.default_rng(0).random((6, 7)), np.arange(6) == 5)
    assert table.place().tolist() == [0, 1, 2, 3, 4, 0]
    assert (table.records[3][0].since, table.records[3][0].given) == (0, 3)
    assert table.time == 0


def test_what_was_seen_follows_from_the_moves():
    table, seen, again = Table([CoinGame(), CoinGame()], 6), {}, {}
    table.scatter(np.random.default_rng(0).random((6, 7)), np.zeros(6, bool))
    table.opening = lambda slot: (1,) * (slot % 3)
    play(table, 20, seen=seen)
    other = Table([CoinGame(), CoinGame()], 6)
    first = 9
    table.forget(first)
    other.load(table.state(), first, lambda t, s, o: again.__setitem__((t, s), int(o["coins"][0, 0])))
    assert again == {key: coins for key, coins in seen.items() if key[0] >= first}
    assert np.array_equal(other.place(), table.place())
    other.opening = table.opening
    assert [game.mapping.tolist() for game in play(other, 12, 1)] == [
        game.mapping.tolist() for game in play(table, 12, 1)
    ]


def test_games_that_are_needed_no_more_are_forgotten():
    table = Table([CoinGame()], 1)
    play(table, 20)
    table.forget(13)
    assert [record.since for record in table.records[0]] == [12, 18]
    table.forget(FAR)
    assert len(table.records[0]) == 1


def test_fewer_slots_than_problems_are_refused():
    with pytest.raises(ValueError, match="slots: expected at least 2"):
        Table([CoinGame(), CoinGame()], 1)


def test_a_new_game_begins_with_the_moves_of_its_opening():
    table = Table([CoinGame()], 2)
    table.opening = lambda slot: (2, 1) if slot else ()
    play(table, 6)
    assert table.place().tolist() == [0, 2]
    for _ in range(4):
        moved = table.move(np.array([0, 0]))
    assert moved.finished[0].actions == (2, 1, 0, 0, 0, 0)
    assert moved.finished[0].mapping.ravel().tolist() == [2, 1, 0, 0, 0, 0]
    assert moved.finished[0].returned == pytest.approx(2**0.5 + 1.3)
