"""Islands survival: nothing good is lost, every evaluation goes to something new, encodings seed one another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.problem import Observation
from policies.network import NetworkConfig
from population.config import Decisions, EvolutionConfig, IslandConfig
from population.create import create as create_population
from population.genome import Individual, Network, boltzmann_from_mapping
from population.island_search import IslandSearch
from population.islands import Islands, survivors
from population.local_search import Immigrant, mapping_of
from population.walk import WalkConfig

NODES = 6
ACTOR = NetworkConfig(depth=1, width=4, attention_heads=1)
COUNTS = np.full((NODES, 2), 3, dtype=np.int16)
LIVE = np.ones((NODES, 2), dtype=np.bool_)
DECISIONS = Decisions(COUNTS, LIVE, 3, 5)
OBSERVATION = Observation(
    np.random.default_rng(0).random((NODES, 5), dtype=np.float32),
    np.stack([np.arange(NODES - 1), np.arange(1, NODES)]),
)
TARGET = np.random.default_rng(3).integers(0, 3, (NODES, 2))


def create(size=12, fraction=0.5, start=(), **other) -> IslandSearch:
    config = EvolutionConfig(size, fraction, island=IslandConfig(**other))
    return create_population(
        np.random.default_rng(0), config, DECISIONS, ACTOR if fraction < 1 else None, start
    )


def maps(population: IslandSearch) -> np.ndarray:
    return population.probabilities(OBSERVATION).argmax(axis=-1).astype(np.int16)


def reward(ran: np.ndarray) -> np.ndarray:
    return (ran == TARGET).mean(axis=(1, 2)).astype(np.float64)


def step(population: IslandSearch, rng: np.random.Generator, learner=None, immigrants=()) -> np.ndarray:
    ran = maps(population)
    fitness = reward(ran)
    population.tell(fitness, learner, rng, ran=ran, immigrants=immigrants)
    return fitness


def scored(scores: list[float]) -> list[Individual]:
    return [
        Individual(Network(np.zeros(1, np.float32)), i).with_fitness(score) for i, score in enumerate(scores)
    ]


@given(st.lists(st.one_of(st.floats(-3, 3), st.just(1.0), st.just(np.nan)), max_size=20), st.integers(1, 6))
def test_survivors_are_the_best_distinct_ones_and_the_newest_of_equals(scores, room):
    kept = survivors(scored(scores), room)
    finite = sorted({s for s in scores if np.isfinite(s)}, reverse=True)
    assert [m.score for m in kept] == finite[:room]
    for m in kept:
        assert m.id == max(i for i, s in enumerate(scores) if s == m.score)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 1.0]), st.booleans())
def test_the_best_ever_seen_of_each_encoding_stays_and_the_shares_too(seed, fraction, learns):
    population = create(fraction=fraction)
    rng = np.random.default_rng(seed)
    shares = [m.encoding for m in population.members]
    best = {"network": -np.inf, "boltzmann": -np.inf}
    for _ in range(5):
        before = list(population.members)
        learner = (
            rng.random(population.weight_format.size, dtype=np.float32) if learns and fraction < 1 else None
        )
        fitness = step(population, rng, learner)
        for member, value in zip(before, fitness, strict=True):
            best[member.encoding] = max(best[member.encoding], value)
        best["boltzmann"] = max(best.values())  # a network's mapping becomes a chromosome, too
        if fraction > 0:
            assert max(m.score for m in population.islands.individuals()) == best["boltzmann"]
        if fraction < 1:
            assert population.best_network is not None
            assert population.best_network.score == best["network"]
        assert [m.encoding for m in population.members] == shares
        assert not {m.id for m in population.members} & {m.id for m in population.islands.individuals()}
        assert population.standings()[0].score == max(best.values())


def test_a_networks_mapping_an_immigrant_and_a_sampled_chromosome_are_anchored_on_what_ran():
    population = create(fraction=0.5)
    ran = maps(population)
    fitness = np.arange(len(ran), dtype=np.float64)
    immigrant = Immigrant(TARGET.astype(np.int16), 99.0)
    population.tell(fitness, None, np.random.default_rng(0), ran=ran, immigrants=[immigrant])
    chromosomes = sorted(population.islands.individuals(), key=lambda m: -m.score)
    np.testing.assert_array_equal(mapping_of(chromosomes[0].genome, LIVE), TARGET)
    for m in chromosomes[1:]:
        np.testing.assert_array_equal(mapping_of(m.genome, LIVE), ran[int(m.score)])
    assert {m.origin for m in chromosomes} >= {"seeded"}


def test_the_best_network_stays_in_the_standing_beside_the_chromosome_made_of_it():
    population, rng = create(), np.random.default_rng(4)
    best: tuple[float, bytes] = (-np.inf, b"")
    for _ in range(8):
        members, fitness = list(population.members), step(population, rng)
        for member, value in zip(members, fitness, strict=True):
            if isinstance(member.genome, Network) and value >= best[0]:
                best = max(best, (value, member.genome.weights.tobytes()), key=lambda pair: pair[0])
        networks = [m for m in population.standings() if isinstance(m.genome, Network)]
        assert networks[0].score == best[0]


def test_the_chromosomes_of_a_started_population_begin_around_the_start():
    start = boltzmann_from_mapping(TARGET.astype(np.int16), COUNTS, 3)
    population = create(size=40, fraction=1.0, start=[start])
    distance = (maps(population) != TARGET).sum(axis=(1, 2))
    assert distance[0] == 0
    assert 0 < np.mean(distance[1:]) < 6


def test_the_learner_is_a_scout_before_every_second_walk():
    population, rng = create(walk=WalkConfig(patience=1)), np.random.default_rng(0)
    weights = np.full(population.weight_format.size, 0.5, dtype=np.float32)
    joined = []
    for _ in range(40):
        step(population, rng, weights)
        if population.walk.centre is None:
            scouts = [m for m in population.members if m.origin == "learner"]
            joined.append((population.walk.number, len(scouts)))
            for scout in scouts:
                np.testing.assert_array_equal(scout.genome.weights, weights)
                assert scout.genome.weights is not weights
    assert len({walk for walk, _ in joined}) > 3
    assert all(count == walk % 2 for walk, count in joined)


def test_failed_measurements_leave_the_survivors_alone():
    population = create()
    rng = np.random.default_rng(0)
    step(population, rng)
    before = [m.id for m in population.islands.individuals()]
    population.tell(np.full(len(population), np.nan), None, rng, ran=maps(population))
    assert [m.id for m in population.islands.individuals()] == before
    fresh = create()
    fresh.tell(np.full(len(fresh), np.nan), None, rng, ran=maps(fresh))
    assert len(fresh.members) == 12
    step(fresh, rng)
    assert np.isfinite(fresh.standings()[0].score)


@pytest.mark.exhaustive
def test_it_solves_a_toy_by_chromosomes_alone_and_a_mixed_one_does_not_fall_back():
    for fraction in (1.0, 0.5):
        population, rng = create(size=20, fraction=fraction), np.random.default_rng(1)
        best = [step(population, rng).max() for _ in range(60)]
        assert population.standings()[0].score == max(best)
        assert max(best) > 0.9


def test_a_restored_population_goes_on_bit_for_bit():
    population, rng = create(), np.random.default_rng(2)
    for _ in range(3):
        step(population, rng)
    restored = type(population)(population.config, DECISIONS, ACTOR)
    restored.load_state_dict(population.state_dict())
    assert "island_of" in population.state_dict()
    other = np.random.default_rng()
    other.bit_generator.state = rng.bit_generator.state
    for _ in range(3):
        np.testing.assert_array_equal(step(population, rng), step(restored, other))
    assert [(m.id, m.parents, m.origin) for m in population.standings()] == [
        (m.id, m.parents, m.origin) for m in restored.standings()
    ]


def test_each_walk_opens_an_island_that_takes_its_mappings_and_the_start_keeps_its_own():
    start = boltzmann_from_mapping(TARGET.astype(np.int16), COUNTS, 3)
    population, rng = create(size=20, start=[start], walk=WalkConfig(patience=10)), np.random.default_rng(0)
    for _ in range(30):
        members, island_of = list(population.members), list(population.island_of)
        walks, newest = population.walk.number, population.islands.newest
        step(population, rng)
        begun = population.walk.number > walks
        assert population.islands.newest == newest + begun
        islands = {island.number: {m.id for m in island.pool} for island in population.islands._islands}
        for member, home in zip(members, island_of, strict=True):
            at = [number for number, ids in islands.items() if member.id in ids]
            moved = (member.encoding == "network" and begun) or home not in islands
            expected = population.islands.newest if moved else home
            assert at in ([], [expected])
    assert population.walk.number > 3


def individual(number: int, score: float) -> Individual:
    return Individual(boltzmann_from_mapping(TARGET.astype(np.int16), COUNTS, 3), number).with_fitness(score)


def test_the_worst_island_goes_but_never_the_best_or_the_newest():
    islands = Islands(size=2, count=3, exploit=1.0)
    islands.add([individual(i, s) for i, s in enumerate([5.0, 4.0, 3.0])], [0, 0, 0])
    assert [m.score for m in islands.individuals()] == [5.0, 4.0]
    for number, score in ((1, 1.0), (2, 2.0)):
        islands.open()
        islands.add([individual(10 * number, score)], [number])
    islands.open()
    assert [i.number for i in islands._islands] == [0, 2, 3]
    islands.add([individual(99, 9.0)], [1])
    assert [[m.score for m in i.pool] for i in islands._islands] == [[5.0, 4.0], [2.0], [9.0]]
    islands.open()
    assert [i.number for i in islands._islands] == [0, 3, 4]


def test_the_only_island_stays():
    islands = Islands(size=2, count=1, exploit=1.0)
    islands.add([individual(1, 5.0)], [0])
    islands.open()
    assert [m.score for m in islands.individuals()] == [5.0]
    assert islands.newest == 0


def test_children_come_from_the_best_island_or_the_newest():
    rng = np.random.default_rng(0)
    islands = Islands(size=5, count=4, exploit=0.7)
    assert islands.draw_island(rng) is None
    for number, score in enumerate((1.0, 3.0, 2.0)):
        islands.add([individual(number, score)], [number])
        islands.open()
    drawn = [islands.draw_island(rng) for _ in range(1000)]
    share = np.mean([island is not None and island.number == 1 for island in drawn])
    assert {island.number for island in drawn if island is not None} == {1, 2}
    assert abs(share - 0.7) < 0.05


def test_what_ran_must_fit():
    population = create()
    with pytest.raises(ValueError, match="ran: expected"):
        population.tell(np.zeros(12), None, np.random.default_rng(0))
