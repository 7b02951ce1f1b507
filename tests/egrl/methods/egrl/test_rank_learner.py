"""The learner whose network ranks: what it begins with and proposes, and that it learns what that was worth."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

import egrl
from egrl.core import typed_tables
from egrl.core.archive import Archive, proposals
from egrl.core.method import Context, Costs
from egrl.methods import find_method
from egrl.methods.egrl.rank_learner import RankLearner
from egrl.methods.egrl.ranking import Ranking
from egrl.methods.egrl.sac_learner import SacLearner
from egrl.methods.placed import place, placed_by_network
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from policies.shipped import rules
from policies.store import save_policy
from toys import ToyRagged
from workloads.errors import Notice
from workloads.load import load

CONTEXT = {"network.name": "context", "network.width": 8}
RANDOM = {"learner.rank.shipped": False, "learner.rank.width": 8}


@pytest.fixture(scope="module")
def resnet():
    return NnpiProblem(load("resnet50"), load_chip("nnpi"))


def made(problem, method="pg", init=None, measured=False, **settings):
    definition = find_method(method)
    alone = {"twin": "off", "profile_model.use": "off"}
    config = typed_tables.build(definition.config, {**alone, **settings}, "test")
    context = Context([problem], Archive([problem]), 2, [None], init, costs=Costs(measured))
    return definition.build(context, config)


def tell(method, rows, problem):
    """The results of a round. Returns its costs."""
    evaluation = problem.evaluate(rows.mapping, np.zeros(len(rows), np.uint64))
    method._context.archive.append(rows, evaluation)
    method.tell(rows, evaluation)
    return evaluation.cost


def flat(policy):
    return np.concatenate([array.reshape(-1) for array in policy.weights.values()])


def test_networks_that_are_placed_have_the_ranking_learner_and_others_sac(resnet):
    assert isinstance(made(resnet, "egrl")._learner, RankLearner)
    assert isinstance(made(resnet, "egrl", readout="greedy")._learner, SacLearner)
    assert isinstance(made(ToyRagged(), "egrl")._learner, SacLearner)


def test_it_begins_with_the_mapping_of_the_shipped_network(resnet):
    rows = made(resnet, **{"learner.rank.per_round": 3}).ask()
    assert np.array_equal(rows.mapping[0], placed_by_network(resnet)[0])
    assert set(rows.source) == {"learner"}
    other = made(resnet, **{**RANDOM, "learner.rank.per_round": 3}).ask()
    assert not np.array_equal(other.mapping[0], rows.mapping[0])


def test_its_rollouts_are_mirrored_around_its_own_scores(resnet):
    learner, placed_ = made(resnet)._learner, []
    keys = np.zeros(41, np.uint64)
    with patch.object(Ranking, "place", lambda _, scores, share: placed_.append((scores, share))):
        learner.rollouts(keys)
    own, drawn = placed_[0][0][0, :, 1:], placed_[0][0][1:, :, 1:]
    np.testing.assert_allclose((drawn[:20] + drawn[20:]) / 2, np.repeat(own[None], 20, axis=0), atol=1e-3)
    assert (drawn - own).std() == pytest.approx(0.5, rel=0.05)
    assert len(set(placed_[0][1])) == 41


def test_its_own_mapping_gets_better_by_what_its_rollouts_were_worth(resnet):
    method, own = made(resnet, **RANDOM), []
    for number in range(20):
        rows = method.ask().numbered(21 * number)
        own.append(float(tell(method, rows, resnet)[0]))
    assert np.mean(own[-4:]) < 0.99 * np.mean(own[:4])


def test_of_what_others_measured_it_takes_the_least_cost_alone(resnet):
    method = made(resnet, **RANDOM)
    learner, before = method._learner, flat(method.policy())
    rows = replace(proposals(resnet.baseline.mapping[None], "twin"), ticket=np.arange(1))
    evaluation = resnet.evaluate(rows.mapping, np.zeros(1, np.uint64))
    method._context.archive.append(rows, replace(evaluation, speedup=evaluation.speedup * 2))
    learner.add(rows.tickets, evaluation.usable)
    assert learner._least == pytest.approx(0.5)
    assert np.array_equal(flat(method.policy()), before)


@pytest.mark.parametrize("method", ["pg", "rank"])
def test_a_board_of_another_speed_teaches_the_same(method):
    """The model's seconds of the baseline are not those of a board."""
    learned = []
    for factor in (1.0, 4.0):
        settings = ["method.learner.rank.shipped=false"] if method == "pg" else []
        search = egrl.Search("alexnet", method=method, seed=0, settings=settings, start="compiler")
        while search.evaluations < 70:
            batch = search.ask()
            search.tell(batch, factor * search.problem.evaluate(batch.proposals.mapping, batch.key).cost)
        learned.append(flat(search._loop._method.policy()))
    np.testing.assert_allclose(learned[0], learned[1], rtol=1e-3, atol=1e-5)
    assert np.isfinite(learned[0]).all()


def test_it_goes_on_from_a_checkpoint_within_a_round(resnet):
    first, second = made(resnet, **RANDOM), made(resnet, **RANDOM)
    tell(first, first.ask().numbered(0), resnet)
    rows = first.ask().numbered(21)
    second.load_state_dict(first.state_dict())
    second._context.archive.append(
        replace(rows, ticket=np.arange(21)), resnet.evaluate(rows.mapping, np.zeros(21, np.uint64))
    )
    for method in (first, second):
        tell(method, rows, resnet)
    assert np.array_equal(flat(first.policy()), flat(second.policy()))


def observed(problem, told=True, measured=True, **settings):
    """A learner's method after the compiler's mapping was measured, with its profile or without."""
    method = made(problem, measured=measured, **settings)
    rows = proposals(problem.baseline.mapping[None], "start").numbered(0)
    evaluation = problem.evaluate(rows.mapping, np.zeros(1, np.uint64))
    evaluation = evaluation if told else replace(evaluation, parts=None)
    method._context.archive.append(rows, evaluation)
    method.observe(rows, evaluation)
    return method


def test_its_network_reads_the_profile_of_the_fastest_mapping(resnet):
    reads, plain = observed(resnet), observed(resnet, told=False)
    rows, others = reads.ask().numbered(1), plain.ask()
    names = resnet.placer.feature_names
    assert reads._learner._rankers.names == names + resnet.placer.profile_names
    assert plain._learner._rankers.names == names
    assert not np.array_equal(rows.mapping, others.mapping)
    learner = reads._learner
    took = resnet.evaluate(resnet.baseline.mapping[None], np.zeros(1, np.uint64)).parts[0]
    assert np.array_equal(
        learner._places.features[:, :, len(resnet.placer.feature_names) :],
        resnet.placer.of_profile(resnet.baseline.mapping, took),
    )
    cost = tell(reads, rows, resnet)
    assert cost.min() < resnet.baseline.cost
    assert np.array_equal(learner._seen.mapping, rows.mapping[np.argmin(cost)])
    reads.ask()
    assert np.array_equal(learner._shown.mapping, rows.mapping[np.argmin(cost)])


def test_profiles_are_read_only_of_a_board_before_the_first_round_and_if_the_settings_say_so(resnet):
    off = observed(resnet, **{"learner.rank.profile": False})
    late, own = made(resnet, measured=True), observed(resnet, **CONTEXT)
    of_model = observed(resnet, measured=False)
    for method, first in ((off, 1), (late, 0), (own, 1), (of_model, 1)):
        tell(method, method.ask().numbered(first), resnet)
        method.ask()
        assert method._learner._rankers.names == resnet.placer.feature_names


def test_a_learner_that_reads_profiles_goes_on_from_a_checkpoint(resnet):
    first, second = observed(resnet), observed(resnet)
    tell(first, first.ask().numbered(1), resnet)
    rows = first.ask().numbered(22)
    second.load_state_dict(first.state_dict())
    archive = first._context.archive
    before = np.arange(1, 22)
    second._context.archive.append(
        proposals(archive.mappings(before), ["learner"] * 21).numbered(1),
        resnet.evaluate(archive.mappings(before), np.zeros(21, np.uint64)),
    )
    for method in (first, second):
        tell(method, rows, resnet)
    assert np.array_equal(first.ask().mapping, second.ask().mapping)
    assert np.array_equal(flat(first.policy()), flat(second.policy()))


def test_its_policy_is_used_elsewhere_as_one_that_sees_no_profile(resnet, tmp_path):
    method = observed(resnet)
    method.ask()
    stored, other = method.policy(), NnpiProblem(load("resnet18"), load_chip("nnpi"))
    save_policy(tmp_path / "p.safetensors", stored.weights, stored.metadata)
    placed = place(other, tmp_path / "p.safetensors", judged=False)
    assert other.judge(placed.mapping) == []
    narrow = {"network.name": "context", "network.width": 48}
    begun = made(other, "ea", init=stored, **narrow)
    assert len(begun.policy().metadata["feature_names"]) == len(other.placer.feature_names)
    assert np.array_equal(begun.ask().mapping[0], placed.mapping)


def test_its_weights_migrate_to_networks_of_its_kind_alone(resnet):
    assert made(resnet, "egrl")._learner.migrant() is None
    assert made(resnet, "egrl", **CONTEXT)._learner.migrant() is not None
    assert made(resnet, "egrl", **CONTEXT, **{"learner.migration": False})._learner.migrant() is None


def test_a_policy_to_begin_with_takes_the_place_of_the_shipped_network(resnet):
    stored = made(resnet, **RANDOM, **CONTEXT).policy()
    again = made(resnet, init=stored, **CONTEXT).policy()
    np.testing.assert_allclose(flat(again), flat(stored), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["sage", "mlp"])
def test_it_trains_the_network_of_the_population(resnet, name):
    """A fresh one begins with the best of the shipped rules; a policy of its kind takes its place; both migrate."""
    chosen = {"network.name": name, "network.width": 8, "network.depth": 1}
    fresh = made(resnet, **chosen)
    best = rules(resnet.placer.feature_names, 2)[0]
    assert np.array_equal(fresh._learner._weights()[: len(best)], best)
    stored = made(resnet, "ea", **chosen).policy()
    begun = made(resnet, init=stored, **chosen)
    np.testing.assert_allclose(flat(begun.policy()), flat(stored), rtol=1e-3, atol=1e-4)
    assert made(resnet, "egrl", **chosen)._learner.migrant() is not None


def test_settings_of_the_learner_that_a_run_does_not_have_are_named(resnet, recwarn):
    made(resnet)
    made(resnet, "egrl")
    made(ToyRagged(), "egrl")
    assert not recwarn.list
    with pytest.warns(
        Notice, match=r"^method\.learner\.gradient_steps, method\.learner\.shared: without effect"
    ):
        made(resnet, "egrl", **{"learner.gradient_steps": 0.5, "learner.shared": False})
    with pytest.warns(Notice, match=r"^method\.learner\.rank: without effect on this learner, which is SAC"):
        made(ToyRagged(), "egrl", **{"learner.rank.per_round": 3})
