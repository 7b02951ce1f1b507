"""SAC over rankings: its critic against plain linear algebra, its noise, its proposals, and that it goes on."""

from __future__ import annotations

import numpy as np
import pytest

from egrl.core import typed_tables
from egrl.core.archive import Archive, Proposals, proposals
from egrl.core.method import Context
from egrl.methods import find_method
from egrl.methods.egrl.placement_critic import MIN_ROWS, PlacementCritic
from egrl.methods.egrl.ranking_sac import STEP
from egrl.methods.placed import place, placed_by_network
from hwsim.keys import run_keys
from hwsim.mappings import sample_uniformly
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from policies.store import save_policy
from workloads.load import load

BY_HAND = {"shipped": False}


@pytest.fixture(scope="module")
def resnet() -> NnpiProblem:
    return NnpiProblem(load("resnet50"), load_chip("nnpi"))


def made(problem, **settings):
    definition = find_method("pg")
    config = typed_tables.build(definition.config, settings, "test")
    context = Context([problem], Archive([problem]), 2, [None])
    return definition.build(context, config), context


def measure(method, context: Context, batch: Proposals) -> np.ndarray:
    """The costs of a round."""
    batch = batch.numbered(len(context.archive))
    found = context.problems[0].evaluate(batch.mapping, np.zeros(len(batch), np.uint64))
    context.archive.append(batch, found)
    method.tell(batch, found)
    return found.cost


def drawn(problem, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What runs of random mappings, int16 [B, N, H], and its log costs."""
    found = problem.evaluate(
        sample_uniformly(problem, run_keys(seed, np.arange(rows), seed)), np.zeros(rows, np.uint64)
    )
    return found.repaired, np.log(found.cost)


def critic_of(problem, rows: int) -> tuple[PlacementCritic, np.ndarray, np.ndarray]:
    """A critic, the mappings int16 [B, N, H] that it learned from, and their log costs."""
    places, names = made(problem)[0]._parts.ranking.places, made(problem)[0]._parts.ranking.names
    mapping, cost = drawn(problem, rows, 0)
    critic = PlacementCritic(places, names)
    critic.add(mapping, cost)
    return critic, mapping, cost


def test_inputs_are_sums_of_features_over_what_lies_in_each_memory(resnet):
    critic, mapping, _ = critic_of(resnet, 3)
    places, features = critic._places, critic._features
    plain = []
    for head in range(places.shape[1]):
        for memory in range(1, features.shape[1]):
            total = np.zeros(features.shape[2])
            for tensor, node in enumerate(places.node):
                if places.head[tensor] == head and mapping[1, node, head] == memory:
                    total += features[tensor, memory]
            plain.append(total)
    np.testing.assert_allclose(critic.inputs(mapping)[1], np.concatenate(plain), rtol=1e-4, atol=1e-3)


def test_the_posterior_is_that_of_a_gaussian_process_with_the_same_kernel(resnet):
    critic, mapping, cost = critic_of(resnet, 60)
    mean, deviation = critic.judge(mapping[:7])
    fit = critic._fit
    x = (critic._inputs - fit.mean) * fit.scale
    z, far = (np.minimum(cost, cost.min() + 0.5) - fit.middle) / fit.spread, None
    far = (np.minimum(cost, cost.min() + 0.5) - cost.min()) / fit.spread
    found = []
    for noise in (1e-3, 1e-2, 1e-1):
        for variance in (1.0, 3.0):
            kernel = variance * x @ x.T + 1.0
            whole = kernel + np.diag(noise * (0.1 + far**2 / 4) / (1 + 1e-6 * noise * (0.1 + far**2 / 4)))
            evidence = -0.5 * z @ np.linalg.solve(whole, z) - 0.5 * np.linalg.slogdet(whole)[1]
            solved = np.linalg.solve(whole, np.column_stack([z, kernel[:, :7]]))
            spread = np.diag(kernel)[:7] - np.einsum("ij,ij->j", kernel[:, :7], solved[:, 1:])
            found.append((evidence, kernel[:7] @ solved[:, 0], np.sqrt(spread)))
    _, expected, spread = max(found, key=lambda each: each[0])
    np.testing.assert_allclose(mean, fit.middle + fit.spread * expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(deviation, fit.spread * spread, rtol=0.02)


def test_the_critic_tells_better_mappings_from_worse_ones(resnet):
    critic, _, _ = critic_of(resnet, 200)
    other, cost = drawn(resnet, 100, 1)
    assert np.corrcoef(critic.judge(other)[0], cost)[0, 1] > 0.6


def test_it_begins_with_the_mapping_of_the_shipped_network_or_of_the_rule_by_hand(resnet):
    # The last layer of the Graph U-Net adds little, and not nothing.
    own = made(resnet)[0].ask().mapping[0]
    assert (own != placed_by_network(resnet)[0]).mean() < 0.1
    assert (made(resnet, **BY_HAND)[0].ask().mapping[0] != own).mean() > 0.1


@pytest.mark.parametrize("rate", [0.01, 0.0])
def test_it_proposes_nothing_that_ran_and_its_own_mapping_first_if_that_is_new(resnet, rate):
    method, context = made(resnet, **{"learner.ranking.learning_rate": rate})
    seen: set[bytes] = set()
    for turn in range(5):
        batch = method.ask()
        own = method._learner._own()[0].tobytes()
        rows = [row.tobytes() for row in batch.mapping]
        assert len(set(rows)) == len(rows)
        assert not seen & set(rows)
        assert own == rows[0] if own not in seen else turn > 0
        measure(method, context, batch)
        seen |= set(rows)


@pytest.mark.parametrize("rate", [0.01, 0.0])
def test_a_migrant_comes_with_what_its_own_mapping_was_worth_whenever_and_by_whomever_that_was_measured(
    resnet, rate
):
    method, context = made(resnet, **{"learner.ranking.learning_rate": rate})
    learner = method._learner
    assert learner.migrant().fitness is None  # nothing ran yet
    batch = proposals(learner._own(), "network").numbered(0)
    learner.observe(batch, resnet.evaluate(batch.mapping, np.zeros(1, np.uint64)))
    for _ in range(5):
        own = resnet.evaluate(learner._own(), np.zeros(1, np.uint64))
        assert learner.migrant().fitness == own.reward[0]
        measure(method, context, method.ask())


def test_the_actor_learns_to_place_what_its_critic_thinks_better_and_a_frozen_one_stays(resnet):
    for rate in (0.01, 0.0):
        learner = made(resnet, **BY_HAND, **{"learner.ranking.learning_rate": rate})[0]._learner
        rng = np.random.default_rng(0)
        mapping = np.concatenate([learner._drawn(10, rng) for _ in range(10)])
        batch = proposals(mapping, "network").numbered(0)
        learner.observe(batch, resnet.evaluate(mapping, np.zeros(len(mapping), np.uint64)))
        first = learner._own()
        for _ in range(12):
            learner._imagine_and_learn(rng)
        own = learner._own()
        judged = learner._critic.judge(np.concatenate([own, first]))[0]
        assert judged[0] < judged[1] - 0.02 if rate else np.array_equal(own, first)


def test_the_noise_falls_by_a_factor_a_round_until_the_entropy_is_reached(resnet):
    method, context = made(resnet)
    sigma = []
    for _ in range(4):
        measure(method, context, method.ask())
        sigma.append(method._learner._sigma)
    np.testing.assert_allclose(sigma, 0.5 * np.exp(-STEP * np.array([0, 1, 2, 3])), rtol=1e-6)
    learner = method._learner
    learner._fit_entropy(np.repeat(resnet.baseline.mapping[None], 8, axis=0))  # no entropy at all
    assert learner._sigma == pytest.approx(sigma[-1] * np.exp(STEP))
    assert learner.metrics()["entropy"] == 0


def test_it_begins_to_imagine_with_enough_results_whoever_measured_them(resnet):
    method, context = made(resnet)
    assert method._learner.judge is None
    mapping = sample_uniformly(resnet, run_keys(0, np.arange(MIN_ROWS), 0))
    batch = proposals(mapping, "twin").numbered(0)
    found = resnet.evaluate(mapping, np.zeros(len(mapping), np.uint64))
    context.archive.append(batch, found)
    method._learner.observe(batch, found)
    assert method._learner.judge is not None
    method.ask()
    assert method._learner._training.rounds == 6


def test_failed_measurements_teach_nothing(resnet):
    method, context = made(resnet)
    batch = method.ask().numbered(0)
    found = resnet.evaluate(batch.mapping, np.zeros(len(batch), np.uint64))
    failed = type(found)(**{**vars(found), "status": np.full(len(batch), 3, found.status.dtype)})
    assert not failed.usable.any()
    context.archive.append(batch, failed)
    method.tell(batch, failed)
    assert len(method._learner._critic._cost) == 0


def test_it_goes_on_from_a_checkpoint_bit_for_bit(resnet):
    (first, context), (second, _) = made(resnet), made(resnet)
    for _ in range(2):
        measure(first, context, first.ask())
    second.load_state_dict(first.state_dict())
    again = second.ask()
    rows = first.ask()
    assert np.array_equal(rows.mapping, again.mapping)
    assert np.array_equal(*(m._learner._training.module.weights() for m in (first, second)))


def test_its_policy_places_what_it_proposes(resnet, tmp_path):
    method, context = made(resnet)
    for _ in range(2):
        measure(method, context, method.ask())
    policy = method.policy()
    save_policy(tmp_path / "p.safetensors", policy.weights, policy.metadata)
    expected = method._learner._own()[0]
    assert np.array_equal(place(resnet, tmp_path / "p.safetensors", judged=False).mapping, expected)
