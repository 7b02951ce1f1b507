"""Genomes, mutation and crossover."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.boltzmann import boltzmann
from policies.weight_vector import Segment, WeightFormat
from population.config import EvolutionConfig
from population.genome import (
    Boltzmann,
    Individual,
    Network,
    boltzmann_from_mapping,
    boltzmann_from_probabilities,
    random_boltzmann,
)
from population.operators import global_random, tournament
from population.population import rank
from population.variation import (
    COLDEST,
    HOTTEST,
    NetworkMutation,
    cross_boltzmann,
    cross_network,
    mutate_boltzmann,
    mutate_network,
)

LAYOUT = WeightFormat(
    (
        Segment("lin.weight", (40, 50), 0),
        Segment("lin.bias", (40,), 2000),
        Segment("attention", (1, 4, 10), 2040),
        Segment("last", (3, 7), 2080),
    )
)
SEEDS = st.integers(0, 2**32 - 1)
COUNTS = np.array([[3, 2], [1, 3], [2, 2], [3, 3]], dtype=np.int16)
LIVE = np.array([[1, 1], [1, 0], [0, 1], [1, 1]], dtype=bool)


def weights(seed: int = 0) -> Network:
    return Network(np.random.default_rng(seed).standard_normal(LAYOUT.size, dtype=np.float32))


@given(SEEDS)
def test_mutation_changes_at_most_five_percent_of_each_tensor_and_leaves_the_parent_alone(seed):
    parent = weights()
    before = parent.weights.copy()
    child = mutate_network(parent, LAYOUT, np.random.default_rng(seed))
    assert np.array_equal(parent.weights, before)
    assert child.weights.dtype == np.float32
    changed = child.weights != before
    for segment in LAYOUT.segments:
        assert changed[segment.offset : segment.end].sum() <= max(1, 0.05 * segment.size)


def test_mutation_reaches_every_tensor_attention_vectors_and_biases_too():
    rng, parent = np.random.default_rng(0), weights()
    changed = np.zeros(LAYOUT.size, dtype=bool)
    for _ in range(200):
        changed |= mutate_network(parent, LAYOUT, rng).weights != parent.weights
    for segment in LAYOUT.segments:
        assert changed[segment.offset : segment.end].mean() > 0.8


def test_an_ordinary_mutation_moves_a_weight_by_about_a_tenth_of_itself():
    rng, parent = np.random.default_rng(1), Network(np.full(LAYOUT.size, 2, dtype=np.float32))
    plain = NetworkMutation(super_probability=0, reset_probability=0)
    steps = np.concatenate(
        [(w := mutate_network(parent, LAYOUT, rng, plain).weights)[w != 2] - 2 for _ in range(100)]
    )
    assert np.std(steps) == pytest.approx(0.2, rel=0.1)


def test_resets_forget_the_old_weight_and_super_mutations_go_ten_times_as_far():
    rng, parent = np.random.default_rng(2), Network(np.full(LAYOUT.size, 50, dtype=np.float32))
    reset = mutate_network(
        parent, LAYOUT, rng, NetworkMutation(reset_probability=1, super_probability=0)
    ).weights
    assert np.abs(reset[reset != 50]).max() < 1
    far = mutate_network(
        parent, LAYOUT, rng, NetworkMutation(reset_probability=0, super_probability=1)
    ).weights
    assert np.std(far[far != 50] - 50) == pytest.approx(50, rel=0.4)


@given(SEEDS)
def test_crossover_of_weights_takes_whole_rows_and_something_of_both(seed):
    zeros, ones = Network(np.zeros(LAYOUT.size, np.float32)), Network(np.ones(LAYOUT.size, np.float32))
    child = cross_network(zeros, ones, LAYOUT, np.random.default_rng(seed)).weights
    cut = int((child == 0).sum())
    assert 0 < cut < LAYOUT.size
    assert (child[:cut] == 0).all()
    assert cut in LAYOUT.row_starts


@given(SEEDS, st.integers(1, 6))
def test_crossover_of_chromosomes_keeps_nodes_whole_and_something_of_both(seed, nodes):
    first = Boltzmann(np.zeros((nodes, 2, 3), np.float32), np.full((nodes, 2), 1, np.float32))
    second = Boltzmann(np.ones((nodes, 2, 3), np.float32), np.full((nodes, 2), 2, np.float32))
    child = cross_boltzmann(first, second, np.random.default_rng(seed))
    from_second = child.prior[:, 0, 0] == 1
    assert np.array_equal(from_second, np.sort(from_second))
    assert np.array_equal(child.temperature, np.where(from_second, 2, 1)[:, None].repeat(2, 1))
    assert nodes == 1 or 0 < from_second.sum() < nodes


@given(SEEDS)
def test_a_mutated_chromosome_stays_a_policy_within_its_temperature_bounds(seed):
    rng = np.random.default_rng(seed)
    genome = random_boltzmann(COUNTS, 3, rng)
    for _ in range(20):
        genome = mutate_boltzmann(genome, COUNTS, LIVE, 1.0, rng)
    assert (genome.temperature >= np.float32(COLDEST)).all()
    assert (genome.temperature <= np.float32(HOTTEST)).all()
    out = boltzmann(genome.prior, genome.temperature, COUNTS)
    assert np.allclose(out.sum(-1), 1, atol=1e-5)
    assert not out[np.arange(3) >= COUNTS[..., None]].any()


def test_exchanges_touch_live_decisions_with_a_choice_and_are_few():
    rng = np.random.default_rng(0)
    sharp = boltzmann_from_mapping(np.zeros((4, 2), np.int16), COUNTS, 3)
    exchanged = np.zeros((4, 2))
    for _ in range(500):
        child = mutate_boltzmann(sharp, COUNTS, LIVE, 1.0, rng)
        exchanged += child.prior.argmax(-1) != 0
    assert np.array_equal(exchanged > 0, LIVE & (COUNTS > 1))
    assert exchanged.sum() / 500 == pytest.approx(1, abs=0.2)
    printed = mutate_boltzmann(sharp, COUNTS, LIVE, 0.0, rng)
    assert not printed.prior.argmax(-1).any()


def test_a_chromosome_made_from_a_mapping_makes_each_choice_as_certainly_as_asked():
    mapping = np.array([[2, 1], [0, -1], [-1, 0], [1, 2]], dtype=np.int16)
    genome = boltzmann_from_mapping(mapping, COUNTS, 3, certainty=0.99)
    out = boltzmann(genome.prior, genome.temperature, COUNTS)
    for n, h in np.argwhere((mapping >= 0) & (COUNTS > 1)):
        assert out[n, h, mapping[n, h]] == pytest.approx(0.99, abs=1e-3)
    assert out[1, 1] == pytest.approx(np.full(3, 1 / 3), abs=1e-6)
    assert out[1, 0, 0] == 1


@pytest.mark.parametrize("mapping", [np.full((4, 2), 3), np.full((4, 2), -2), np.zeros((3, 2))])
def test_a_mapping_that_cannot_be_is_refused(mapping):
    with pytest.raises(ValueError, match="mapping: expected"):
        boltzmann_from_mapping(mapping.astype(np.int16), COUNTS, 3)


def test_a_chromosome_made_from_probabilities_decides_about_as_they_do():
    rng = np.random.default_rng(4)
    p = rng.dirichlet((0.5, 0.5, 0.5), (100, 2)).astype(np.float32)
    counts = np.full((100, 2), 3, dtype=np.int16)
    genome = boltzmann_from_probabilities(p, counts)
    assert np.array_equal(genome.prior, p)
    out = boltzmann(genome.prior, genome.temperature, counts)
    assert np.abs(out - p).sum(-1).mean() / 2 < 0.06
    hot = boltzmann(p, np.full((100, 2), 5, np.float32), counts)
    assert np.abs(hot - p).sum(-1).mean() / 2 > 0.2


def test_a_random_chromosome_has_a_normalised_prior_and_a_temperature_in_its_range():
    counts = np.full((500, 2), 3, dtype=np.int16)
    genome = random_boltzmann(counts, 3, np.random.default_rng(0))
    assert np.allclose(genome.prior.sum(-1), 1, atol=1e-5)
    assert 0.1 <= genome.temperature.min() < 0.3
    assert 9.8 < genome.temperature.max() <= 10


def individuals(scores: list[float]) -> list[Individual]:
    return [Individual(Network(np.zeros(1, np.float32)), i).with_fitness(s) for i, s in enumerate(scores)]


def test_ranking_puts_the_older_first_among_equals_and_what_is_not_finite_last():
    members = individuals([1.0, np.nan, 2.0, np.inf, 2.0, -np.inf, 0.0])
    assert [m.id for m in rank(members)] == [2, 4, 0, 6, 1, 3, 5]


@given(
    st.lists(st.one_of(st.floats(-10, 10), st.sampled_from([np.nan, np.inf])), min_size=2, max_size=8), SEEDS
)
def test_what_is_not_finite_never_wins_a_tournament_against_something_finite(scores, seed):
    members = individuals(scores)
    for winner in tournament(members, 20, 64, np.random.default_rng(seed)):
        assert np.isfinite(winner.score) or not np.isfinite(scores).any()


def test_a_larger_tournament_presses_harder():
    members = individuals([float(i) for i in range(10)])
    rng = np.random.default_rng(0)
    mean = {size: np.mean([w.score for w in tournament(members, 500, size, rng)]) for size in (1, 3, 7)}
    assert mean[1] == pytest.approx(4.5, abs=0.4)
    assert mean[1] < mean[3] < mean[7]


def test_the_global_random_state_is_as_before_even_after_an_error():
    before = random.getstate()
    tournament(individuals([1.0, 2.0]), 5, 2, np.random.default_rng(0))
    with pytest.raises(KeyError), global_random(np.random.default_rng(1)):
        {}[random.random()]
    assert random.getstate() == before


def test_there_are_always_two_elites_and_always_an_open_slot():
    assert [EvolutionConfig(n).elites for n in (4, 20, 50)] == [2, 2, 5]
    assert EvolutionConfig(4, elite_fraction=1.0).elites == 3
    with pytest.raises(ValueError, match="mutation_prob: expected 0"):
        EvolutionConfig(mutation_prob=1.5)
