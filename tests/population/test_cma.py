"""CMA-ES on networks, and that nothing is measured twice."""

from __future__ import annotations

import numpy as np
import pytest

from population.cma import Cma, CmaConfig, covariance
from population.genome import Individual, Network
from population.known import Known

SIZE, SLOTS = 4, 10
TARGET = np.array([1.0, -2.0, 0.5, 3.0])


def reward(weights: np.ndarray) -> float:
    return -float(((weights - TARGET) ** 2).sum())


def first(rng: np.random.Generator) -> list[Individual]:
    return [Individual(Network(rng.normal(size=SIZE).astype(np.float32)), k) for k in range(20)]


def measured(members: list[Individual]) -> list[Individual]:
    return [m.with_fitness(reward(m.genome.weights)) for m in members]


def generation(
    cma: Cma, members: list[Individual], rng: np.random.Generator, learner=None
) -> list[Individual]:
    cma.update(measured(members))
    children = cma.members(SLOTS, learner, lambda: Network(np.zeros(SIZE, np.float32)), rng)
    return [Individual(c.genome, 100 + k, (), c.origin) for k, c in enumerate(children)]


def test_it_begins_at_the_best_network_and_climbs_to_the_optimum():
    rng = np.random.default_rng(0)
    members = first(rng)
    cma = Cma(CmaConfig())
    assert cma.centre is None
    best = max(measured(members), key=lambda m: m.score)
    assert cma.update(measured(members))
    np.testing.assert_array_equal(cma.centre, best.genome.weights)
    for _ in range(80):
        members = generation(cma, members, rng)
    assert max(reward(m.genome.weights) for m in members) > -1e-3


def test_a_state_goes_on_bit_for_bit():
    rng = np.random.default_rng(0)
    members, cma = first(rng), Cma(CmaConfig(patience=30))
    for _ in range(5):
        members = generation(cma, members, rng)
    twin = Cma(CmaConfig(patience=30))
    twin.load_state_dict(cma.state_dict())
    other, again = np.random.default_rng(7), np.random.default_rng(7)
    for _ in range(8):
        one, two = generation(cma, members, other), generation(twin, members, again)
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a.genome.weights, b.genome.weights)
        members = one


def test_the_learner_takes_a_slot_and_a_better_one_is_where_it_begins_again():
    rng = np.random.default_rng(0)
    cma = Cma(CmaConfig(patience=1))
    members = generation(cma, first(rng), rng, learner=TARGET.astype(np.float32))
    assert [m.origin for m in members] == ["learner", *["walk"] * (SLOTS - 1)]
    begins = [cma.update(measured(members)), cma.update(measured(members))]
    assert begins[1]
    np.testing.assert_array_equal(cma.centre, TARGET.astype(np.float32))


def test_failed_measurements_begin_nothing():
    cma = Cma(CmaConfig())
    members = [m.with_fitness(np.nan) for m in first(np.random.default_rng(0))]
    assert not cma.update(members)
    assert cma.centre is None


def test_the_first_covariance_follows_the_networks_begun_with_and_never_degenerates():
    rng = np.random.default_rng(0)
    along = rng.normal(size=(30, 1)) * np.array([1.0, 0, 0, 0]) * 10
    found = covariance(along.astype(np.float32))
    assert found[0, 0] > 4 * found[1, 1] > 0
    assert np.linalg.eigvalsh(found).min() > 0
    np.testing.assert_array_equal(covariance(along[:3].astype(np.float32)), np.eye(4) / 4)


@pytest.mark.parametrize(("setting", "value"), [("sigma", 0.0), ("sigma", np.nan), ("patience", 0)])
def test_settings_are_checked(setting, value):
    with pytest.raises(ValueError, match=f"{setting}: expected"):
        CmaConfig(**{setting: value})


def test_a_known_mapping_is_admitted_once():
    known, mapping = Known(), np.arange(6, dtype=np.int16).reshape(3, 2)
    assert known.admit(mapping)
    assert not known.admit(mapping.copy())
    assert mapping in known
    assert mapping + np.int16(1) not in known
    other = Known()
    other.load_state_dict(known.state_dict())
    assert mapping in other
