"""The learner of PPO: its loss against plain numbers, and its state."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from egrl.methods.ppo.learner import Ppo, PpoLearnerConfig
from egrl.methods.ppo.task import Example, Rollouts, Task
from policies.graph import prepare
from policies.graphsage import GraphSageConfig
from toys import ToyRagged


def learner(seed=0, **settings) -> Ppo:
    problem = ToyRagged()
    seen = problem.observation
    task = Task(problem, seen.x, prepare(seen.edge_index, len(seen.x)), torch.device("cpu"))
    shape = GraphSageConfig(layers=1, width=8, waves=2)
    return Ppo(PpoLearnerConfig(**settings), shape, [task], np.random.default_rng(seed), "cpu")


def rollouts(ppo: Ppo, seed=1, rows=6, passes=2) -> Rollouts:
    """Legal draws with old log-probabilities that are not the policy's."""
    problem, rng = ToyRagged(), np.random.default_rng(seed)
    live = problem.space.live
    shape = (passes, rows, *live.shape)
    drawn = rng.integers(0, np.maximum(problem.space.num_choices, 1), shape)
    action = np.where(live, drawn, -1).astype(np.int16)
    before = np.concatenate([np.full_like(action[:1], -1), action[:-1]])
    log_prob = np.zeros(shape, np.float32)
    for t in range(passes):
        found = ppo.log_probs(0, before[t])
        taken = np.take_along_axis(found, np.maximum(action[t], 0)[..., None].astype(np.int64), -1)[..., 0]
        log_prob[t] = np.where(live, taken + rng.normal(0, 0.4, taken.shape), 0)
    return Rollouts(
        0, before, action, log_prob, rng.normal(size=rows).astype(np.float32), np.arange(rows) % 2
    )


def test_the_loss_of_a_step_is_that_of_plain_numbers():
    ppo = learner()
    data = rollouts(ppo)
    advantages = ppo._advantages(data)
    problem = ToyRagged()
    live = problem.space.live
    loss = entropy = 0.0
    for t in range(2):
        log_probs = ppo.log_probs(0, data.before[t])
        for r in range(6):
            for n, h in zip(*np.nonzero(live), strict=True):
                row = log_probs[r, n, h, : problem.space.num_choices[n, h]].astype(float)
                ratio = math.exp(row[data.action[t, r, n, h]] - data.log_prob[t, r, n, h])
                a = float(advantages[t, r])
                loss -= min(ratio * a, min(max(ratio, 0.8), 1.2) * a)
                entropy -= float((np.exp(row) * row).sum())
    found = ppo._step([(data, advantages)], [])
    assert found["policy_loss"] == pytest.approx(loss / 12 / live.sum(), rel=1e-4, abs=1e-5)
    assert found["entropy"] == pytest.approx(entropy / 12 / live.sum(), rel=1e-4)
    assert found["clipped"] > 0


def test_the_loss_of_an_example_is_its_cross_entropy_a_decision_that_changed():
    ppo, problem = learner(), ToyRagged()
    live = problem.space.live
    before = np.where(live, 0, -1).astype(np.int16)
    action = np.where(live, problem.space.num_choices - 1, -1).astype(np.int16)
    log_probs = ppo.log_probs(0, before[None])[0]
    loss = -sum(float(log_probs[n, h, action[n, h]]) for n, h in zip(*np.nonzero(live), strict=True))
    changed = int((action != before).sum())
    assert changed > 0
    assert ppo._imitate(Example(0, before, action), 0.5) == pytest.approx(loss / changed, rel=1e-4)


def test_an_example_becomes_likelier():
    ppo, problem = learner(), ToyRagged()
    live = problem.space.live
    data = rollouts(ppo)
    nothing = np.full(live.shape, -1, np.int16)
    example = Example(0, nothing, np.where(live, problem.space.num_choices - 1, -1).astype(np.int16))

    def likely():
        at = np.maximum(example.action, 0)[..., None].astype(np.int64)
        return np.where(live, np.take_along_axis(ppo.log_probs(0, nothing[None])[0], at, -1)[..., 0], 0).sum()

    before = likely()
    ppo.update([data], np.random.default_rng(0), [example])
    assert likely() > before


def test_advantages_are_normalised_among_rollouts_that_set_out_alike():
    data = rollouts(learner())
    found = learner()._advantages(data)
    for group in (0, 1):
        np.testing.assert_allclose(found[:, data.group == group].mean(axis=1), 0, atol=1e-5)
        np.testing.assert_allclose(found[:, data.group == group].std(axis=1), 1, rtol=1e-3)


def test_what_was_rewarded_becomes_likelier():
    ppo = learner(learning_rate=0.01)
    data = rollouts(ppo, passes=1)
    live = ToyRagged().space.live
    at = np.maximum(data.action[0], 0)[..., None].astype(np.int64)

    def likely():
        found = np.take_along_axis(ppo.log_probs(0, data.before[0]), at, -1)[..., 0]
        return np.where(live, found, 0).sum(axis=(1, 2))

    data.log_prob[0] = np.where(live, np.take_along_axis(ppo.log_probs(0, data.before[0]), at, -1)[..., 0], 0)
    before, advantage = likely(), ppo._advantages(data)[0]
    ppo.update([data], np.random.default_rng(0))
    assert np.corrcoef(likely() - before, advantage)[0, 1] > 0.5


def test_a_learner_goes_on_from_its_state_as_if_nothing_had_happened():
    first, second = learner(), learner(seed=5)
    data = rollouts(first)
    first.update([data], np.random.default_rng(0))
    second.load_state_dict(first.state_dict())
    for ppo in (first, second):
        ppo.update([data], np.random.default_rng(1))
    np.testing.assert_array_equal(first.weights(), second.weights())
