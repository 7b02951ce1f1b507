"""The default population: who may have children, what these are, and migration."""

from __future__ import annotations

import numpy as np
import pytest

from policies.network import NetworkConfig
from policies.places import Places
from population.chromosomes import CHANGES, Chromosomes, mapping_of, of_unit_spread
from population.config import Decisions, EvolutionConfig, Ranked
from population.create import create as create_population
from population.genome import Boltzmann, Individual, Network, boltzmann_from_mapping
from population.plus import CANDIDATES, MIGRATION, PARENTS, Plus, survivors
from population.population import Immigrant, Migrant

NODES, CHOICES = 12, 3
COUNTS = np.full((NODES, 2), CHOICES, np.int16)
LIVE = np.ones((NODES, 2), np.bool_)
NAMES = ("one", "size")
ACTOR = NetworkConfig(depth=1, width=8, attention_heads=2)


def place(scores: np.ndarray, free: np.ndarray) -> np.ndarray:
    """A placer without limits: each tensor goes where its score is highest."""
    mapping = np.zeros((len(scores), NODES, 2), np.int16)
    node, head = np.divmod(np.arange(2 * NODES), 2)
    mapping[:, node, head] = scores.argmax(axis=2)
    return mapping


def decisions(ranked: bool = True, trained: bool = False) -> Decisions:
    rng = np.random.default_rng(0)
    node, head = np.divmod(np.arange(2 * NODES), 2)
    features = rng.normal(size=(2 * NODES, CHOICES, len(NAMES))).astype(np.float32)
    features[:, 0] = 0
    edges = np.stack([np.arange(NODES - 1), np.arange(1, NODES)])
    seen = Ranked(Places(node, head, features, (NODES, 2), edges), NAMES, place, True, trained)
    return Decisions(COUNTS, LIVE, CHOICES, 5, ranked=seen if ranked else None)


def population(
    trained: bool = False,
    rules: list[np.ndarray] | None = None,
    trunk: np.ndarray | None = None,
    **other,
) -> Plus:
    given, config = decisions(trained=trained), EvolutionConfig(**other)
    found = create_population(np.random.default_rng(1), config, given, ACTOR, rules=rules or [], trunk=trunk)
    assert isinstance(found, Plus)
    return found


def readings(of: Plus, rng: np.random.Generator) -> np.ndarray:
    mapping = np.zeros((len(of), NODES, 2), np.int16)
    networks = [k for k, m in enumerate(of.members) if m.encoding == "network"]
    others = np.setdiff1d(np.arange(len(of)), networks)
    if networks:
        mapping[networks] = place(*of.scores(np.array(networks)))
    if len(others):
        mapping[others] = of.read(others, rng)
    return mapping


def generation(of: Plus, rng: np.random.Generator, migrant=None, **other) -> tuple[np.ndarray, np.ndarray]:
    """One generation, whose fitness is the share of decisions that take the last choice. Returns what ran, and that."""
    ran = readings(of, rng)
    fitness = (ran == CHOICES - 1).mean(axis=(1, 2))
    of.tell(fitness, migrant, rng, ran=ran, **other)
    return ran, fitness


def test_the_first_generation_begins_with_rules_and_shares_its_trunk():
    rng = np.random.default_rng(2)
    rules = [rng.normal(size=2 * 2 * len(NAMES) + 1).astype(np.float32) for _ in range(20)]
    found = population(trained=True, rules=rules)
    networks = [m.genome.weights for m in found.members if isinstance(m.genome, Network)]
    assert np.array_equal([w[: len(rules[0])] for w in networks], rules[:10])
    last = [w[found.policies.trunk.stop :] for w in networks]
    assert len({row.tobytes() for row in last}) == 10
    assert max(np.abs(row).max() for row in last) < 0.1
    chromosomes = [m.genome for m in found.members if isinstance(m.genome, Boltzmann)]
    seeds = [Individual(found.policies.of_rule(rule, rng), 0) for rule in rules[10:]]
    scores, free = found.policies.scores(seeds)
    for genome, own, share in zip(chromosomes, scores, free, strict=True):
        expected = of_unit_spread(own).reshape(NODES, 2, CHOICES)
        assert np.corrcoef(genome.prior.reshape(-1), expected.reshape(-1))[0, 1] > 0.9
        assert genome.free == pytest.approx(share)


def test_a_trunk_that_is_given_is_everybodys():
    trunk = np.full(population().weight_format.size, 0.25, np.float32)
    found = create_population(np.random.default_rng(1), EvolutionConfig(), decisions(), ACTOR, trunk=trunk)
    inside = found.policies.trunk
    assert inside.stop - inside.start > 100
    for member in found.members:
        if isinstance(member.genome, Network):
            assert (member.genome.weights[inside] == 0.25).all()
            assert (member.genome.weights[: inside.start] != 0.25).any()


def test_parents_are_the_best_of_all_that_were_measured_and_keep_their_fitness():
    found, rng = population(), np.random.default_rng(0)
    everyone: list[float] = []
    for _ in range(5):
        ids = {m.id for m in found.members}
        _, fitness = generation(found, rng)
        everyone += np.unique(fitness).tolist()
        assert not ids & {m.id for m in found.members}  # all are new
    best = sorted(set(everyone), reverse=True)[:PARENTS]
    assert [m.score for m in found.chromosomes] == pytest.approx(best)
    scores = [m.score for m in found.networks]
    assert scores == sorted(scores, reverse=True)
    assert found.standings()[0].score == best[0]


def test_it_climbs():
    found, rng = population(), np.random.default_rng(0)
    first = generation(found, rng)[1].max()
    for _ in range(60):
        best = generation(found, rng)[1].max()
    assert best > max(first + 0.2, 0.85)


def test_no_child_of_a_chromosome_ran_before_or_is_proposed_twice():
    found, rng = population(), np.random.default_rng(0)
    seen: set[bytes] = set()
    for _ in range(6):
        ran, _ = generation(found, rng)
        seen |= {row.tobytes() for row in ran}
        children = [row.tobytes() for row in found.readings]
        assert len(set(children)) == len(children) == 10
        assert not seen & set(children)


def test_a_critic_chooses_among_children():
    def judge(mapping: np.ndarray) -> np.ndarray:
        judged.append(len(mapping))
        return -(mapping == CHOICES - 1).mean(axis=(1, 2))

    judged: list[int] = []
    gained = []
    for chosen in (None, judge):
        found, rng = population(), np.random.default_rng(0)
        generation(found, rng, judge=chosen)
        gained.append((found.readings == CHOICES - 1).mean())
    assert judged == [10 * CANDIDATES]
    assert gained[1] > gained[0]


def test_a_migrant_joins_every_few_generations_with_its_own_fitness_and_costs_no_measurement():
    found, rng = population(), np.random.default_rng(0)
    better = found.members[0].genome.weights + 1
    for generations in range(1, 2 * MIGRATION + 1):
        generation(found, rng, migrant=Migrant(better + found.generation // MIGRATION, 2.0 + generations))
        assert found.offered == found.accepted == found.alive == generations // MIGRATION
        assert not any(m.origin == "learner" for m in found.members)
    assert [m.score for m in found.networks[:2]] == [2.0 + 2 * MIGRATION, 2.0 + MIGRATION]
    assert found.networks[0].origin == "learner"


def test_a_migrant_that_is_a_network_already_is_not_offered_again():
    found, rng = population(), np.random.default_rng(0)
    for _ in range(3 * MIGRATION):
        generation(found, rng, migrant=Migrant(np.ones(found.weight_format.size, np.float32), 2.0))
    assert (found.offered, found.alive) == (1, 1)


def test_a_migrant_that_is_worse_than_all_parents_is_not_accepted():
    found, rng = population(), np.random.default_rng(0)
    while len(found.networks) < PARENTS:
        generation(found, rng)
    for _ in range(MIGRATION):
        generation(found, rng, migrant=Migrant(np.ones(found.weight_format.size, np.float32), -1.0))
    assert (found.offered, found.accepted, found.alive) == (1, 0, 0)


def test_a_migrant_whose_own_mapping_did_not_run_takes_the_slot_of_a_child():
    found, rng = population(), np.random.default_rng(0)
    good = found.members[0].genome.weights.copy()
    for _ in range(2 * MIGRATION):
        generation(found, rng, migrant=Migrant(good))
    assert (found.offered, found.accepted) == (2, 1)  # the second has just come
    assert found.alive == 1
    bad, rng = population(), np.random.default_rng(0)
    for k in range(60):
        generation(bad, rng, migrant=Migrant(np.full_like(good, -9)) if k < MIGRATION else None)
    assert (bad.offered, bad.alive) == (1, 0)


def test_what_others_measured_may_have_children():
    found, rng = population(boltzmann_fraction=1.0), np.random.default_rng(0)
    other = np.full((NODES, 2), CHOICES - 1, np.int16)
    generation(found, rng, immigrants=[Immigrant(other, 2.0)])
    best = found.chromosomes[0]
    assert best.score == 2.0
    assert np.array_equal(mapping_of(best.genome, LIVE), other)
    assert any(m.parents == (best.id,) for m in found.members)
    assert (found.readings[0] != other).any()


def test_networks_are_crossed_and_step_along_differences_of_the_first():
    trunk = np.full(population().weight_format.size, 0.25, np.float32)
    found, rng = population(trunk=trunk, boltzmann_fraction=0.0, crossover_prob=0.5), np.random.default_rng(0)
    generation(found, rng)
    origins = [m.origin for m in found.members]
    assert {"crossover", "mutation"} == set(origins)
    inside = found.policies.trunk
    parents = {m.id: m.genome.weights for m in found.networks}
    for member in found.members:
        changed = (member.genome.weights[inside] != parents[member.parents[0]][inside]).mean()
        assert changed < 0.2  # a shared trunk has no differences: only single weights mutate
        assert (
            member.genome.weights[: inside.start] != parents[member.parents[0]][: inside.start]
        ).mean() > 0.5


def test_fresh_temperatures_change_few_decisions_and_follow_the_chromosome():
    make, rng = Chromosomes(decisions()), np.random.default_rng(0)
    ran = rng.integers(0, CHOICES, (NODES, 2)).astype(np.int16)
    genome = make.anchored(ran)
    noise = rng.gumbel(size=(4000, *genome.prior.shape))
    drawn = (genome.prior + genome.temperature[..., None] * noise).argmax(axis=-1)
    assert (drawn != ran).sum(axis=(1, 2)).mean() == pytest.approx(CHANGES, rel=0.3)
    kept = make.anchored(ran, np.full((NODES, 2), 0.3, np.float32))
    assert (kept.temperature == np.float32(0.3)).all()


def test_what_moved_is_placed_first_and_scores_say_what_takes_its_place():
    given = decisions()
    make, rng = Chromosomes(given), np.random.default_rng(0)
    ran = np.ones((NODES, 2), np.int16)
    ran[:3] = 0
    scores = 0.5 * rng.normal(size=(2 * NODES, CHOICES)).astype(np.float32) * np.array([0, 1, 1], np.float32)
    moves = population()._moves
    child = make.child(make.anchored(ran), scores, moves, np.random.default_rng(3))
    moved = moves.propose(ran, np.random.default_rng(3))
    prior = given.ranked.places.scores_of(child.prior[None])[0].reshape(NODES, 2, CHOICES)
    changed = (moved != ran) & (moved > 0)
    assert changed.any()
    same = (moved == ran) & (moved > 0)
    assert prior[changed].max(axis=-1).min() > prior[same].max(axis=-1).max() - 1.0
    assert (prior[moved == 0] < 0).sum() >= (moved == 0).sum()  # what is slow stays slow
    assert (prior[moved > 0][:, 1:] > 0).all()  # what is fast is placed in one of the faster memories
    assert np.array_equal(place(prior.reshape(1, -1, CHOICES), np.zeros(1))[0], moved)


def test_of_equal_fitness_only_the_newest_survives():
    pool = [
        Individual(Network(np.zeros(1, np.float32)), k).with_fitness(f)
        for k, f in enumerate([1, 2, 2, np.nan])
    ]
    assert [m.id for m in survivors(pool, 5)] == [2, 0]
    assert [m.id for m in survivors(pool, 1)] == [2]


def test_where_no_placer_reads_them_random_chromosomes_are_children_of_the_start():
    genome = boltzmann_from_mapping(np.zeros((NODES, 2), np.int16), COUNTS, CHOICES)
    found = create_population(
        np.random.default_rng(0), EvolutionConfig(), decisions(ranked=False), ACTOR, [genome]
    )
    own = [m for m in found.members if isinstance(m.genome, Boltzmann)]
    assert [m.origin for m in own] == ["start"] + ["random"] * 9
    moved = [(mapping_of(m.genome, LIVE) != 0).sum() for m in own[1:]]
    assert 0 < np.mean(moved) < NODES


@pytest.mark.parametrize("when", [0, 1, 3])
def test_it_goes_on_from_a_checkpoint_bit_for_bit(when):
    first, rng = population(), np.random.default_rng(0)
    for _ in range(when):
        generation(first, rng, migrant=Migrant(np.zeros(first.weight_format.size, np.float32)))
    second, again = population(), np.random.default_rng()
    second.load_state_dict(first.state_dict())
    again.bit_generator.state = rng.bit_generator.state
    for _ in range(2):
        (ran, fitness), (other, same) = generation(first, rng), generation(second, again)
        assert np.array_equal(ran, other)
        assert np.array_equal(fitness, same)


def test_nothing_that_runs_leaves_a_population_that_still_proposes():
    found, rng = population(), np.random.default_rng(0)
    for _ in range(3):
        ran = readings(found, rng)
        found.tell(np.full(len(found), np.nan), None, rng, ran=ran)
        assert [m.encoding for m in found.members].count("boltzmann") == 10
    assert found.standings() == []
