"""PPO: what it credits, how it draws, several problems at once, and whether it learns."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import kstest

from egrl.core import typed_tables
from egrl.core.archive import Archive
from egrl.core.contracts import GENERATION
from egrl.core.method import Context
from egrl.methods import find_method
from egrl.methods.ppo.learner import PpoConfig, Rollouts
from egrl.methods.ppo.method import PpoMethod
from egrl.methods.ppo.task import (
    DRAFTING,
    EXPLORING,
    IMPROVING,
    OPENING,
    carry_out,
    change_one_decision,
    close_gaps,
    coupled_uniforms,
    in_stages,
    move_nodes,
    open_stage,
    outset,
)
from hwsim.keys import EVALUATION, run_keys
from hwsim.mappings import sample_uniformly
from hwsim.mcm.config import McmConfig
from hwsim.mcm.package import load_package
from hwsim.mcm.problem import McmProblem
from hwsim.problem import Status
from policies.store import load_policy, save_policy
from toys import ToyRagged
from workloads.errors import InputError
from workloads.load import load

SMALL = {"network.layers": 1, "network.width": 8, "network.waves": 2}


@pytest.fixture(scope="module")
def chips():
    """MobileNet on four chips and on three."""
    return [McmProblem(load("mobilenet_v2"), load_package("edge4"), McmConfig(chips=c)) for c in (4, 3)]


def build(problems, init=None, start=None, **settings) -> PpoMethod:
    own = typed_tables.build(PpoConfig, {**SMALL, **settings}, "test")
    starts = [start] + [None] * (len(problems) - 1)
    method = find_method("ppo").build(Context(problems, Archive(problems), 0, starts, init, 1), own)
    assert isinstance(method, PpoMethod)
    return method


def play(method, problems, evaluations):
    found, number = [], 0
    while number < evaluations:
        batch = method.ask().numbered(number)
        problem = problems[batch.problem]
        evaluation = problem.evaluate(batch.mapping, run_keys(0, batch.tickets, EVALUATION))
        method.tell(batch, evaluation)
        number += len(batch)
        found.append((batch, evaluation))
    return found


@pytest.mark.parametrize("coupling", [0.0, 0.9, 1.0])
def test_each_number_of_a_draw_alone_is_uniform(coupling):
    u = coupled_uniforms(np.random.default_rng(0), (800, 40, 1), coupling)
    assert u.min() >= 0
    assert u.max() < 1
    for node in (0, 17, 39):
        assert kstest(u[:, node, 0], "uniform").pvalue > 1e-3


def test_coupled_numbers_are_alike_for_neighbours_and_no_others():
    u = coupled_uniforms(np.random.default_rng(0), (800, 40, 2), 0.9)
    free = coupled_uniforms(np.random.default_rng(0), (800, 40, 2), 0.0)
    assert np.corrcoef(u[:, 10, 0], u[:, 11, 0])[0, 1] > 0.6
    assert np.corrcoef(u[:, 10, 0], u[:, 11, 0])[0, 1] > np.corrcoef(u[:, 10, 0], u[:, 39, 0])[0, 1] + 0.2
    assert abs(np.corrcoef(u[:, 10, 0], u[:, 10, 1])[0, 1]) < 0.15
    assert abs(np.corrcoef(free[:, 10, 0], free[:, 11, 0])[0, 1]) < 0.15


def test_the_outset_of_a_pipeline_is_an_even_split_and_of_others_nothing(chips):
    even = outset(chips[0], "even")
    pipeline = chips[0].space.pipeline
    load = np.bincount(even[:, 0], pipeline.load)
    assert len(load) == chips[0].space.most_choices
    assert np.ptp(load) <= 2 * pipeline.load.max()
    found = chips[0].evaluate(even[None], np.zeros(1, np.uint64))
    assert (found.repaired[0] == even).all()
    assert (outset(chips[0], "nothing") == -1).all()
    assert (outset(ToyRagged(), "even") == -1).all()


def test_what_is_credited_is_what_was_drawn_before_the_problem_mended_it(chips, monkeypatch):
    seen: list[Rollouts] = []
    for credit in ("drawn", "ran"):
        method = build(chips[:1], credit=credit, coupling=0.0, outset="nothing", ordered=False)
        monkeypatch.setattr(method._ppo, "update", lambda parts, rng, examples: (seen.extend(parts), {})[1])
        (batch, evaluation), _ = play(method, chips, GENERATION + 1)
        assert (evaluation.repaired[1:] != batch.mapping[1:]).any()
        credited = batch.mapping if credit == "drawn" else evaluation.repaired
        np.testing.assert_array_equal(seen[-1].action[-1], credited[1:])


def test_old_log_probabilities_are_those_of_the_policy_that_drew():
    problem = ToyRagged()
    method = build([problem], passes=2)
    batch = method.ask()
    part = method._round[0]
    for t in range(2):
        found = method._ppo.log_probs(0, part.before[t])
        taken = np.take_along_axis(found, np.maximum(part.action[t], 0)[..., None].astype(np.int64), -1)[
            ..., 0
        ]
        live = np.broadcast_to(problem.space.live, taken.shape)
        np.testing.assert_allclose(part.log_prob[t][live], taken[live], rtol=1e-4, atol=1e-4)
        assert (part.log_prob[t][~live] == 0).all()
    np.testing.assert_array_equal(part.before[1], part.action[0])
    np.testing.assert_array_equal(batch.mapping[1:], part.action[1])


@pytest.mark.slow
def test_it_learns_what_is_rewarded():
    problem = ToyRagged()
    method = build([problem], begin="outset", **{"learner.learning_rate": 0.01, "learner.entropy": 0.03})
    found = play(method, [problem], 15 * GENERATION)
    drawn = np.array([evaluation.reward[1:].mean() for _, evaluation in found])
    assert drawn[-5:].mean() > drawn[:5].mean() + 0.5 * (problem_best(problem) - drawn[:5].mean())


def test_of_equally_good_mappings_the_cooler_is_gone_on_from(chips):
    problem = chips[0]
    method = build(chips[:1])
    batch = method.ask().numbered(0)
    evaluation = problem.evaluate(batch.mapping, run_keys(0, batch.tickets, EVALUATION))
    equal = dataclasses.replace(evaluation, reward=np.full(len(batch), 0.5))
    method.tell(batch, equal)
    warmth = [float(problem.space.pipeline.heat(mapping[None], 4).sum()) for mapping in evaluation.repaired]
    best = np.flatnonzero(np.array(warmth) == min(warmth))[-1]
    np.testing.assert_array_equal(method._known[0].best, evaluation.repaired[best])


def test_a_stage_is_opened_behind_one_of_the_hottest_where_one_is_left(chips):
    problem, rng = chips[0], np.random.default_rng(0)
    three = (np.arange(len(problem.space.nodes)) * 3 // len(problem.space.nodes)).astype(np.int16)[:, None]
    hottest = int(problem.space.pipeline.heat(three[None], 4)[0, 0].argmax())
    free = dataclasses.replace(problem.space.pipeline, span=None)
    object.__setattr__(problem.space, "pipeline", free)
    found = open_stage(three, problem, rng)
    np.testing.assert_array_equal(found, three + (three > hottest))
    four = outset(problem, "even")
    np.testing.assert_array_equal(open_stage(four, problem, rng), four)
    np.testing.assert_array_equal(close_gaps(found[None]), three[None])


def test_what_the_span_of_edges_asks_is_in_an_opened_stage_from_the_outset():
    problem = McmProblem(load("mobilenet_v2"), load_package("edge4"))
    stages = in_stages(outset(problem, "even")[None] // 2, problem.space.pipeline)[0]
    for seed in range(4):
        found = open_stage(stages, problem, np.random.default_rng(seed))
        assert found.max() == stages.max() + 1
        evaluation = problem.evaluate(close_gaps(found[None]), np.zeros(1, np.uint64))
        np.testing.assert_array_equal(evaluation.repaired, close_gaps(found[None]))


def test_moves_leave_valid_partitions_valid_and_most_nodes_where_they_were(chips):
    problem, rng = chips[0], np.random.default_rng(0)
    before = np.repeat(outset(problem, "even")[None], 50, axis=0)
    wanted = np.where(rng.random(before.shape) < 0.1, rng.integers(0, 4, before.shape), before).astype(
        np.int16
    )
    found = close_gaps(move_nodes(before, wanted, problem.space.pipeline, rng))
    evaluation = problem.evaluate(found, np.arange(50, dtype=np.uint64))
    np.testing.assert_array_equal(evaluation.repaired, found)
    changed = (found != before).mean(axis=(1, 2))
    assert (changed > 0).mean() > 0.9
    assert np.median(changed) < 0.5
    np.testing.assert_array_equal(carry_out(before, wanted, None, rng), wanted)


def test_where_nothing_was_drawn_one_decision_changes_by_the_same_probabilities():
    rng = np.random.default_rng(0)
    before = np.array([[[0], [1], [2]]], np.int16).repeat(2000, axis=0)
    live = np.array([[True], [True], [False]])
    p = np.array([[0.8, 0.2, 0.0], [0.0, 0.9, 0.1], [0.5, 0.5, 0.0]])[None, :, None].repeat(2000, axis=0)
    found = change_one_decision(before, before, p, live, rng)
    changed = (found != before)[:, :, 0]
    assert (changed.sum(axis=1) == 1).all()
    assert not changed[:, 2].any()
    assert abs(changed[:, 0].mean() - 2 / 3) < 0.04
    assert (found[changed[:, 0], 0, 0] == 1).all()
    assert (found[changed[:, 1], 1, 0] == 2).all()
    other = before.copy()
    other[:, 0] = 1
    np.testing.assert_array_equal(change_one_decision(other, before, p, live, rng), other)
    sure = np.broadcast_to(np.eye(3)[:, None], (2000, 3, 1, 3))
    np.testing.assert_array_equal(change_one_decision(before, before, sure, live, rng), before)


@pytest.mark.exhaustive
def test_of_what_sets_out_from_the_best_only_gains_count(chips):
    method = build(chips[:1])
    play(method, chips, 2 * GENERATION)
    method.ask()
    part = method._round[0]
    part.told = True
    part.reward = part.base - np.linspace(0.1, 0.9, len(part.reward))
    after = np.isin(part.group, (IMPROVING, OPENING))
    lost = method._rollouts(part)
    assert lost is not None
    assert np.ptp(lost.target[after]) == 0 < np.ptp(lost.target[~after])
    winner = int(np.flatnonzero(after)[3])
    part.reward[1 + winner] = part.base + 0.2
    won = method._rollouts(part)
    assert won is not None
    assert won.target[winner] > won.target[after].min() == np.median(won.target[after])
    method = build(chips[:1], begin="outset")
    play(method, chips, 2 * GENERATION)
    method.ask()
    part = method._round[0]
    part.reward = part.base - np.linspace(0.1, 0.9, len(part.reward))
    plain = method._rollouts(part)
    assert plain is not None
    assert len(np.unique(plain.target)) == len(plain.target)


def test_until_something_runs_the_best_of_what_does_not_is_gone_on_from(chips):
    problem = McmProblem(load("mobilenet_v2"), load_package("edge4"), McmConfig(solver=False))
    method = build([problem], ordered=False, outset="nothing", **{"network.slope": 0.0})
    [(_, evaluation)] = play(method, [problem], GENERATION)
    assert (evaluation.status == Status.INVALID).all()
    method.ask()
    best = evaluation.repaired[np.flatnonzero(evaluation.reward == evaluation.reward.max())[-1]]
    np.testing.assert_array_equal(method._round[0].before[0][-1], best)
    assert not method._known[0].ran
    assert method._examples(np.random.default_rng(0)) == []


@pytest.mark.slow
def test_examples_are_the_best_after_nothing_and_what_bettered_the_best(chips):
    method = build(chips[:1], outset="nothing", **{"network.slope": 0.0, "network.stay": 1.0})
    told = play(method, chips, 8 * GENERATION)
    method.ask()
    examples = method._examples(np.random.default_rng(0))
    best = max(float(evaluation.reward.max()) for _, evaluation in told)
    [draft] = [example for example in examples if (example.before == -1).all()]
    assert chips[0].evaluate(draft.action[None], np.zeros(1, np.uint64)).reward[0] == best
    steps = [example for example in examples if example is not draft]
    assert steps
    for step in steps:
        before, after = chips[0].evaluate(np.stack([step.before, step.action]), np.zeros(2, np.uint64)).reward
        assert after > before


def test_with_no_epochs_weights_stay_as_they_are(chips):
    method = build(chips[:1], **{"learner.epochs": 0})
    before = method._ppo.weights()
    play(method, chips, 3 * GENERATION)
    np.testing.assert_array_equal(method._ppo.weights(), before)


@pytest.mark.slow
def test_what_is_proposed_for_a_pipeline_keeps_its_order_and_leaves_no_stage_empty(chips):
    method = build(chips[:1])
    for batch, _ in play(method, chips, 3 * GENERATION):
        for mapping in batch.mapping[:, :, 0]:
            source, target = chips[0].space.pipeline.edges
            assert (mapping[source] <= mapping[target]).all()
            assert set(mapping.tolist()) == set(range(mapping.max() + 1))


def problem_best(problem):
    keys = np.arange(4000, dtype=np.uint64)
    return problem.evaluate(sample_uniformly(problem, keys), keys).reward.max()


@pytest.mark.slow
def test_the_best_that_ran_is_what_the_next_round_sets_out_from(chips):
    method = build(chips[:1])
    found = play(method, chips, 3 * GENERATION)
    method.ask()
    rewards = np.concatenate([evaluation.reward for _, evaluation in found])
    ran = np.concatenate([evaluation.repaired for _, evaluation in found])
    part = method._round[0]
    np.testing.assert_array_equal(
        part.before[0][part.group == IMPROVING][0], ran[np.flatnonzero(rewards == rewards.max())[-1]]
    )
    assert (part.before[0][np.isin(part.group, (DRAFTING, EXPLORING))] == -1).all()
    assert [(part.group == kind).sum() for kind in (DRAFTING, EXPLORING)] == [1, 1]
    explorer = 1 + int(np.flatnonzero(part.group == EXPLORING)[0])
    found = chips[0].evaluate(part.mapping[[explorer]], np.zeros(1, np.uint64))
    np.testing.assert_array_equal(found.repaired[0], part.mapping[explorer])


@pytest.mark.exhaustive
def test_rounds_are_dealt_over_problems_with_other_numbers_of_chips(chips):
    problems = [*chips, chips[0], chips[1], chips[0]]
    method = build(problems)
    found = play(method, problems, 5 * 24)
    counts = np.bincount([batch.problem for batch, _ in found for _ in range(len(batch))])
    assert counts.tolist() == [24] * 5
    for batch, _ in found:
        assert (batch.mapping < problems[batch.problem].space.num_choices).all()


def test_a_policy_goes_on_where_it_was_saved_and_on_other_packages(chips, tmp_path):
    first = build(chips[:1])
    play(first, chips, 2 * GENERATION)
    policy = first.policy()
    assert policy is not None
    save_policy(tmp_path / "p.safetensors", policy.weights, policy.metadata)
    init = load_policy(tmp_path / "p.safetensors")
    same = build(chips[:1], init=init)
    np.testing.assert_array_equal(same._ppo.weights(), first._ppo.weights())
    np.testing.assert_array_equal(build(chips[1:], init=init)._ppo.weights(), first._ppo.weights())
    with pytest.raises(InputError, match=r"^--init: features: expected"):
        build([ToyRagged()], init=init)
    with pytest.raises(InputError, match=r"^--init: network.width: expected"):
        build(chips[:1], init=init, **{"network.width": 16})
