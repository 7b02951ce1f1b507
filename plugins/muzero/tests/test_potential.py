import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egrl_muzero.potential import Potential
from toys import CoinGame

GAMMA = 0.9


def learned() -> Potential:
    potential = Potential([CoinGame(), CoinGame()], GAMMA, 0.5)
    rng = np.random.default_rng(0)
    for _ in range(5):
        for base in potential.base[:-1].tolist():
            place = base + np.arange(6)
            potential.learn(place, rng.random(6), place + 1)
    potential.refresh()
    return potential


def test_the_potential_of_a_place_is_the_discounted_sum_of_what_is_expected_from_it_on():
    potential = Potential([CoinGame()], GAMMA, 1.0)
    rewards = np.arange(1.0, 7.0)
    potential.learn(np.arange(6), rewards, np.arange(1, 7))
    potential.refresh()
    assert potential.value[6] == 0
    for place in range(6):
        expected = sum(r * GAMMA**k for k, r in enumerate(rewards[place:]))
        assert potential.value[place] == pytest.approx(expected)


def test_the_first_rewards_count_equally_and_later_ones_at_the_rate():
    potential = Potential([CoinGame()], 1.0, 0.25)
    for reward in (0.0, 1.0, 2.0, 3.0, 3.0):
        potential.learn(np.array([5]), np.array([reward]), np.array([6]))
    potential.refresh()
    assert potential.value[5] == pytest.approx(1.5 + 0.25 * (3 - 1.5))


@given(st.lists(st.floats(-5, 5), min_size=6, max_size=6))
def test_shaping_changes_every_return_of_a_place_by_its_potential(rewards):
    potential = learned()
    place = np.arange(6)
    shaped = potential.shape(place, np.array(rewards), place + 1)
    for start in range(6):
        discounts = GAMMA ** np.arange(6 - start)
        plain = np.dot(rewards[start:], discounts)
        assert np.dot(shaped[start:], discounts) == pytest.approx(plain - potential.value[start], abs=1e-9)


def test_going_back_costs_the_local_loss_only():
    potential = learned()
    place, after = np.array([4]), np.array([2])
    lost = -(potential.value[2] - GAMMA**2 * potential.value[4])
    local = potential.local(place, np.array([lost]), after)
    assert local[0] == pytest.approx(lost + GAMMA * (potential.value[2] - potential.value[5]))
    shaped = potential.shape(place, np.array([lost]), after)
    on = potential.shape(place, local, np.array([5]))
    assert shaped[0] == pytest.approx(on[0])


def test_moves_that_go_elsewhere_than_on_teach_nothing():
    potential = learned()
    before = potential.value.copy()
    potential.learn(np.array([4]), np.array([-100.0]), np.array([2]))
    potential.refresh()
    assert np.array_equal(before, potential.value)


def test_its_state_can_be_loaded():
    potential, other = learned(), Potential([CoinGame(), CoinGame()], GAMMA, 0.5)
    other.load(potential.state())
    other.refresh()
    assert np.array_equal(other.value, potential.value)
