"""The mixed population over generations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.problem import Observation
from policies.network import NetworkConfig
from population.config import Decisions, EvolutionConfig
from population.create import create as create_population
from population.generational import weakest_network
from population.genome import Boltzmann, Network, boltzmann_from_mapping
from population.population import Migrant, Population

NODES = 7
ACTOR = NetworkConfig(depth=1, width=4, attention_heads=1)
COUNTS = np.array([[3, 2]] * NODES, dtype=np.int16)
DECISIONS = Decisions(COUNTS, np.ones((NODES, 2), dtype=bool), 3, 5)
OBSERVATION = Observation(
    np.random.default_rng(0).random((NODES, 5), dtype=np.float32),
    np.stack([np.arange(NODES - 1), np.arange(1, NODES)]),
)
FITNESS = st.one_of(st.floats(-5, 5), st.sampled_from([np.nan, np.inf, -np.inf, 1.0]))


def create(size: int = 20, fraction: float = 0.2, seed: int = 0, **other) -> Population:
    config = EvolutionConfig(size, fraction, "generational", **other)
    actor = None if fraction == 1.0 else ACTOR
    return create_population(np.random.default_rng(seed), config, DECISIONS, actor)


def bits(population: Population) -> dict[int, bytes]:
    return {
        m.id: m.genome.weights.tobytes()
        if isinstance(m.genome, Network)
        else m.genome.prior.tobytes() + m.genome.temperature.tobytes()
        for m in population.members
    }


def origins(population: Population, origin: str) -> int:
    return sum(m.origin == origin for m in population.members)


def shares(population: Population) -> tuple[int, int]:
    networks = sum(m.encoding == "network" for m in population.members)
    return networks, len(population) - networks


@pytest.mark.slow
@given(
    st.sampled_from([(4, 0.0), (4, 0.5), (4, 1.0), (5, 0.2), (20, 0.2), (11, 0.9)]),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.data(),
)
def test_elites_are_never_changed_never_lost_and_shares_never_move(kind, seed, learner, data):
    size, fraction = kind
    population = create(size, fraction, seed)
    rng, expected = np.random.default_rng(seed), shares(population)
    for _ in range(6):
        fitness = np.array(data.draw(st.lists(FITNESS, min_size=size, max_size=size)))
        before, ids = bits(population), np.array([m.id for m in population.members])
        weights = (
            np.full(population.weight_format.size, 9, dtype=np.float32) if learner and fraction < 1 else None
        )
        population.tell(fitness, None if weights is None else Migrant(weights), rng, observation=OBSERVATION)
        usable = np.where(np.isfinite(fitness), fitness, -np.inf)
        best = ids[np.lexsort((ids, -usable))[: population.config.elites]]
        assert [m.id for m in population.members[: population.elites]] == best.tolist()
        after = bits(population)
        assert all(after[i] == before[i] for i in best)
        assert shares(population) == expected
        assert len(after) == size
        assert np.isfinite(population.probabilities(OBSERVATION)).all()


def test_the_learner_takes_the_place_of_the_weakest_network_that_is_no_elite():
    population = create(6, 0.0, crossover_prob=0, mutation_prob=0, tournament=1)
    learner = np.full(population.weight_format.size, 0.5, dtype=np.float32)
    fitness = np.arange(6.0)
    population.tell(fitness, Migrant(learner), np.random.default_rng(0), observation=OBSERVATION)
    entered = [m for m in population.members if m.origin == "learner"]
    assert len(entered) == 1
    assert np.array_equal(entered[0].genome.weights, learner)
    kept = [m.parents[0] for m in population.members[2:] if m.parents]
    unmigrated = create(6, 0.0, crossover_prob=0, mutation_prob=0, tournament=1)
    unmigrated.tell(fitness, None, np.random.default_rng(0), observation=OBSERVATION)
    drawn = [m.parents[0] for m in unmigrated.members[2:]]
    assert sorted(drawn) == sorted([*kept, min(drawn)])


def test_the_weakest_is_found_among_networks_behind_the_elites_by_what_its_parents_reached():
    population = create(8, 0.25)
    order = [m.encoding for m in population.members]
    scores = {m.id: float(i) for i, m in enumerate(population.members)}
    assert weakest_network(population.members, 2, scores) == 2
    assert order[2] == "network"
    assert weakest_network(population.members, 6, scores) is None


def test_learner_weights_are_copied():
    population = create(6, 0.0)
    learner = np.zeros(population.weight_format.size, dtype=np.float32)
    population.tell(np.arange(6.0), Migrant(learner), np.random.default_rng(0), observation=OBSERVATION)
    learner[:] = 7
    assert not any((m.genome.weights == 7).all() for m in population.members)


def test_crossover_happens_as_often_as_asked_and_its_children_have_both_parents():
    rng, crossed, slots = np.random.default_rng(0), 0, 0
    for _ in range(30):
        population = create(20, 0.0, crossover_prob=0.3, mutation_prob=0)
        population.tell(rng.random(20), None, rng, observation=OBSERVATION)
        crossed, slots = crossed + origins(population, "crossover"), slots + 18
    assert crossed / slots == pytest.approx(0.3, abs=0.06)
    population = create(20, 0.0, crossover_prob=1, mutation_prob=0)
    before = {m.id: m.genome.weights for m in population.members}
    population.tell(rng.random(20), None, rng, observation=OBSERVATION)
    for child in population.members[2:]:
        first, second = (before[p] for p in child.parents)
        weights = child.genome.weights
        assert ((weights == first) | (weights == second)).all()
        if first is not second:
            assert not np.array_equal(weights, first)


@pytest.mark.slow
def test_mutation_happens_as_often_as_asked():
    rng = np.random.default_rng(0)
    counts = []
    for probability in (0.0, 0.5, 1.0):
        total = 0
        for _ in range(20):
            population = create(20, 0.5, mutation_prob=probability, crossover_prob=0)
            population.tell(rng.random(20), None, rng, observation=OBSERVATION)
            total += origins(population, "mutation")
        counts.append(total / (20 * 18))
    assert counts == [0.0, pytest.approx(0.5, abs=0.1), 1.0]


def test_a_network_elite_seeds_a_chromosome_with_its_posterior():
    population = create(8, 0.5, crossover_prob=1, mutation_prob=0)
    posterior = population.probabilities(OBSERVATION)
    network = [i for i, m in enumerate(population.members) if m.encoding == "network"]
    fitness = np.zeros(8)
    fitness[network[:2]] = 1.0
    ids = {m.id: i for i, m in enumerate(population.members)}
    population.tell(fitness, None, np.random.default_rng(0), observation=OBSERVATION)
    assert origins(population, "seeded") == 4
    for m in population.members:
        if isinstance(m.genome, Boltzmann):
            assert m.origin == "seeded"
            assert np.allclose(m.genome.prior, posterior[ids[m.parents[0]]], atol=1e-6)


@pytest.mark.slow
def test_a_population_with_selection_climbs_a_toy_reward():
    target = np.random.default_rng(3).integers(0, 2, (NODES, 2))
    rng, population = np.random.default_rng(1), create(20, 0.5)
    score = []
    for _ in range(60):
        p = population.probabilities(OBSERVATION)
        fitness = np.take_along_axis(p, target[None, ..., None], axis=-1).mean(axis=(1, 2, 3))
        score.append(fitness.max())
        population.tell(fitness, None, rng, observation=OBSERVATION)
    assert score[-1] > score[0] + 0.15
    assert (np.diff(score) >= -1e-6).all()


def test_probabilities_come_in_the_order_of_the_members_and_are_masked():
    population = create(10, 0.5)
    together = population.probabilities(OBSERVATION)
    assert together.shape == (10, NODES, 2, 3)
    assert not together[..., 1, 2].any()
    some = population.probabilities(OBSERVATION, np.array([7, 3]))
    assert np.allclose(some, together[[7, 3]], atol=1e-6)


def test_the_standing_follows_the_last_measurement_and_leaves_the_unmeasured_out():
    population = create(6, 0.5)
    population.tell(
        np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.4]), None, np.random.default_rng(0), observation=OBSERVATION
    )
    assert [m.id for m in population.standings()] == [1, 3]
    assert [m.id for m in population.members[:2]] == [1, 3]


def test_start_genomes_take_slots_of_their_encoding():
    genome = boltzmann_from_mapping(np.zeros((NODES, 2), np.int16), COUNTS, 3)
    config = EvolutionConfig(population=5, boltzmann_fraction=0.2)
    population = create_population(np.random.default_rng(0), config, DECISIONS, ACTOR, [genome])
    assert [m.origin for m in population.members] == ["random"] * 4 + ["start"]
    with pytest.raises(ValueError, match="start: expected at most 1 boltzmann genomes, received 2"):
        create_population(np.random.default_rng(0), config, DECISIONS, ACTOR, [genome, genome])


@pytest.mark.parametrize("fraction", [0.0, 0.4, 1.0])
def test_a_restored_population_goes_on_bit_for_bit(fraction):
    def go(population: Population, rng: np.random.Generator, generations: int) -> None:
        for _ in range(generations):
            fitness = population.probabilities(OBSERVATION)[..., 0].mean(axis=(1, 2)).astype(np.float64)
            learner = None if fraction == 1 else rng.random(population.weight_format.size, dtype=np.float32)
            migrant = None if learner is None else Migrant(learner)
            population.tell(fitness, migrant, rng, observation=OBSERVATION)

    rng = np.random.default_rng(5)
    population = create(8, fraction)
    go(population, rng, 3)
    actor = None if fraction == 1 else ACTOR
    restored = type(population)(population.config, DECISIONS, actor)
    restored.load_state_dict(population.state_dict())
    other = np.random.default_rng()
    other.bit_generator.state = rng.bit_generator.state
    assert [m.id for m in restored.standings()] == [m.id for m in population.standings()]
    go(population, rng, 3)
    go(restored, other, 3)
    assert bits(restored) == bits(population)
    assert [(m.id, m.parents, m.origin) for m in restored.members] == [
        (m.id, m.parents, m.origin) for m in population.members
    ]


def test_a_population_of_chromosomes_needs_no_torch():
    code = """
import sys, numpy as np
from hwsim.problem import Observation
from population.config import Decisions, EvolutionConfig
from population.create import create
d = Decisions(np.full((4, 2), 3, np.int16), np.ones((4, 2), bool), 3, 5)
rng = np.random.default_rng(0)
p = create(rng, EvolutionConfig(boltzmann_fraction=1.0), d)
o = Observation(np.zeros((4, 5), np.float32), np.zeros((2, 0), np.int64))
p.tell(np.arange(20.0), None, rng, ran=np.zeros((20, 4, 2), np.int16))
assert "torch" not in sys.modules, "torch was imported"
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("given_settings", "names"),
    [
        ({"population": 3}, "population: expected 4..10000"),
        ({"tournament": 0}, "tournament"),
        ({"boltzmann_fraction": 1.5}, "boltzmann_fraction: expected 0..1, received 1.5"),
    ],
)
def test_settings_that_cannot_be_are_refused(given_settings, names):
    with pytest.raises(ValueError, match=names):
        EvolutionConfig(**given_settings)


def test_fitness_and_learners_that_do_not_fit_are_refused():
    population = create(6, 0.0)
    with pytest.raises(ValueError, match=r"fitness: expected shape \[6\], received \[5\]"):
        population.tell(np.zeros(5), None, np.random.default_rng(0))
    with pytest.raises(ValueError, match="genome weights: expected float32"):
        population.tell(np.zeros(6), Migrant(np.zeros(3, dtype=np.float32)), np.random.default_rng(0))
    with pytest.raises(ValueError, match="actor: expected a NetworkConfig"):
        create_population(np.random.default_rng(0), EvolutionConfig(), DECISIONS)
