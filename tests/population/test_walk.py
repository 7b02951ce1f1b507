"""The walk of the networks: scouts, mirrored pairs, where the centre goes, and when it is given up."""

from __future__ import annotations

import numpy as np
import pytest

from population.genome import Child, Individual, Network
from population.walk import Ascent, Walk, WalkConfig

SIZE = 40


def fresh(rng: np.random.Generator):
    return lambda: Network(rng.standard_normal(SIZE, dtype=np.float32))


def measured(children: list[Child], reward) -> list[Individual]:
    return [
        Individual(c.genome, i, c.parents, c.origin).with_fitness(reward(c.genome.weights))
        for i, c in enumerate(children)
        if isinstance(c.genome, Network)
    ]


def walked(walk: Walk, reward, generations: int, slots=10, learner=None, seed=0) -> list[float]:
    """The best reward of each generation."""
    rng = np.random.default_rng(seed)
    best = []
    for _ in range(generations):
        networks = measured(walk.members(slots, learner, fresh(rng), rng), reward)
        best.append(max(m.score for m in networks))
        walk.update(networks)
    return best


def test_it_begins_at_the_best_scout_and_its_members_are_mirrored_around_the_centre():
    walk, rng = Walk(WalkConfig(sigma=0.5)), np.random.default_rng(0)
    scouts = walk.members(5, None, fresh(rng), rng)
    assert [c.origin for c in scouts] == ["random"] * 5
    networks = measured(scouts, lambda w: float(w[0]))
    assert walk.update(networks)
    best = max(networks, key=lambda m: m.score)
    np.testing.assert_array_equal(walk.centre, best.genome.weights)
    children = walk.members(5, None, fresh(rng), rng)
    assert [c.origin for c in children] == ["centre", "walk", "walk", "walk", "walk"]
    around = np.stack([c.genome.weights for c in children[1:]]) - walk.centre
    np.testing.assert_allclose(around[:2], -around[2:], atol=1e-6)
    assert 0.35 < around.std() < 0.65
    assert [c.origin for c in walk.members(4, None, fresh(rng), rng)] == ["walk"] * 4


def test_the_centre_climbs():
    target = np.random.default_rng(9).standard_normal(SIZE).astype(np.float32)
    walk = Walk(WalkConfig(sigma=0.1, learning_rate=0.05, patience=10_000))
    best = walked(walk, lambda w: -float(np.square(w - target).mean()), 200)
    assert best[0] < -0.8
    assert best[-1] > -0.3
    assert walk.number == 1


def test_a_walk_that_finds_nothing_better_is_given_up_and_another_begins_elsewhere():
    walk = Walk(WalkConfig(patience=30))
    walked(walk, lambda w: 1.0, 1)
    first = walk.centre
    walked(walk, lambda w: 1.0, 3)
    assert walk.centre is None
    walked(walk, lambda w: 1.0, 1, seed=5)
    assert walk.number == 2
    assert not np.array_equal(first, walk.centre)


def test_a_gain_within_the_margin_is_no_gain():
    walk, rng = Walk(WalkConfig(patience=30)), np.random.default_rng(0)
    walk.update(measured(walk.members(10, None, fresh(rng), rng), lambda w: 1.0))
    for gain, idle in ((1e-5, 10), (2e-5, 20), (0.1, 0), (0.1, 10)):
        walk.update(measured(walk.members(10, None, fresh(rng), rng), lambda w, gain=gain: 1.0 + gain))
        assert walk.idle == idle


def test_every_second_walk_may_begin_at_the_learner():
    learner = np.full(SIZE, 3.0, np.float32)
    walk = Walk(WalkConfig(patience=9))
    begun = []
    rng = np.random.default_rng(0)
    for _ in range(12):
        children = walk.members(10, learner, fresh(rng), rng)
        if walk.update(measured(children, lambda w: float(np.array_equal(w, learner)))):
            begun.append(np.array_equal(walk.centre, learner))
    assert begun[:4] == [False, True, False, True]


def test_failed_measurements_neither_begin_a_walk_nor_end_the_search():
    walk, rng = Walk(WalkConfig(patience=20)), np.random.default_rng(0)
    assert not walk.update(measured(walk.members(6, None, fresh(rng), rng), lambda w: np.nan))
    assert walk.centre is None
    assert walk.update(measured(walk.members(6, None, fresh(rng), rng), lambda w: 1.0))
    centre = walk.centre
    walk.update(measured(walk.members(6, None, fresh(rng), rng), lambda w: np.nan))
    np.testing.assert_array_equal(walk.centre, centre)


def test_a_restored_walk_goes_on_bit_for_bit():
    def reward(w: np.ndarray) -> float:
        return float(w[:5].sum())

    walk = Walk(WalkConfig(patience=50))
    walked(walk, reward, 5)
    other = Walk(walk.config)
    other.load_state_dict(walk.state_dict())
    assert walked(walk, reward, 20, seed=3) == walked(other, reward, 20, seed=3)


def test_ascent_is_adam():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    weights = torch.zeros(6, requires_grad=True)
    adam, ascent, ours = torch.optim.Adam([weights], lr=0.1), Ascent.of(6), np.zeros(6, np.float32)
    for _ in range(7):
        gradient = rng.standard_normal(6).astype(np.float32)
        weights.grad = -torch.from_numpy(gradient)
        adam.step()
        ours = ours + ascent.step(gradient, 0.1)
    np.testing.assert_allclose(ours, weights.detach().numpy(), rtol=1e-4)


@pytest.mark.parametrize("wrong", [{"sigma": 0.0}, {"learning_rate": -1.0}, {"patience": 0}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        WalkConfig(**wrong)
