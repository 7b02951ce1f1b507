"""Discrete soft actor-critic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from policies_toys import CHOICES, HEADS, SMALL, chain, states

from egrl.methods.egrl.config import SacConfig
from egrl.methods.egrl.sac import Sac, Task, Transitions
from policies.critic import CriticConfig
from policies.masking import cross_entropy, mean_entropy
from policies.weight_vector import flatten

NODES, BATCH = 9, 6
COUNTS = np.array([[3, 2]] * NODES, dtype=np.int16)
LIVE = np.array([[True, n % 2 == 0] for n in range(NODES)])
TASK = Task(chain(NODES, 3), states(NODES), COUNTS, LIVE)
SETTINGS = SacConfig()


def learner(config: SacConfig = SETTINGS, seed: int = 0) -> Sac:
    critic = CriticConfig(width=16, layers=1)
    return Sac(SMALL, critic, config, TASK, np.random.default_rng(seed), CHOICES)


def batch(seed: int = 0, size: int = BATCH) -> Transitions:
    rng = np.random.default_rng(seed)
    action = (rng.random((size, NODES, HEADS)) * COUNTS).astype(np.int16)
    return Transitions(np.where(LIVE, action, -1).astype(np.int16), rng.random(size, dtype=np.float32))


def equal(first: dict, second: dict) -> bool:
    return all(
        equal(v, second[k]) if isinstance(v, dict) else np.array_equal(v, second[k]) for k, v in first.items()
    )


def test_the_critics_learn_the_scaled_reward(monkeypatch):
    sac, rows = learner(replace(SETTINGS, reward_scale=3.0, noise_sigma=0.0)), batch()
    exact = sac.noisy_one_hot(rows.action, np.random.default_rng(0))
    value = sac.critic(torch.from_numpy(TASK.x), TASK.graph, exact).detach().numpy()
    expected = ((value - 3.0 * rows.reward) ** 2).mean(axis=1).sum()
    stats = sac.update(rows, np.random.default_rng(0))
    assert stats["critic_loss"] == pytest.approx(float(expected), rel=1e-5)
    assert stats["q"] == pytest.approx(float(value.mean()), rel=1e-5)


def test_the_actor_follows_the_lower_of_the_two_critics():
    sac = learner(replace(SETTINGS, alpha=0.0, imitation=0.0))
    odds = torch.from_numpy(sac.probabilities() * LIVE[..., None]).flatten(1)[None]
    value = sac.critic(torch.from_numpy(TASK.x), TASK.graph, odds).detach()
    assert float(value[0, 0]) != float(value[1, 0])
    loss, _ = sac._step_actor(batch())
    assert loss == pytest.approx(-float(value.min()), rel=1e-5)


def test_behavioural_noise_is_clipped_and_spares_unused_rows_and_illegal_choices():
    sac, rows = learner(), batch(size=200)
    noisy = sac.noisy_one_hot(rows.action, np.random.default_rng(0)).numpy()
    noisy = noisy.reshape(200, NODES, HEADS, CHOICES)
    exact = rows.action[..., None] == np.arange(CHOICES)
    legal = np.arange(CHOICES) < COUNTS[..., None]
    assert not noisy[:, ~LIVE].any()
    assert not noisy[:, ~legal].any()
    noise = (noisy - exact)[:, LIVE[..., None] & legal]
    assert np.abs(noise).max() == pytest.approx(0.5)
    assert noise.std() == pytest.approx(0.2, rel=0.05)


def test_the_actor_step_moves_the_actor_alone_and_every_weight_of_it():
    sac = learner()
    critic, actor = flatten(sac.critic), flatten(sac.actor)
    sac._step_actor(batch())
    assert np.array_equal(flatten(sac.critic), critic)
    assert (flatten(sac.actor) != actor).mean() > 0.5


def test_gradients_are_clipped_before_the_step_and_after_they_exist(monkeypatch):
    monkeypatch.setattr("egrl.methods.egrl.sac.CLIP_NORM", 1e-6)
    sac = learner()
    sac.update(batch(), np.random.default_rng(0))
    for net in (sac.actor, sac.critic):
        norm = torch.stack([p.grad.norm() for p in net.parameters() if p.grad is not None]).norm()
        assert 0 < float(norm) <= 1.01e-6


def test_entropy_is_the_mean_over_live_decisions():
    sac = learner()
    with torch.no_grad():
        sac.actor.decide.weight.zero_()
        sac.actor.decide.bias.zero_()
    stats = sac.update(batch(), np.random.default_rng(0))
    expected = (np.log(3) * LIVE[:, 0].sum() + np.log(2) * LIVE[:, 1].sum()) / LIVE.sum()
    assert stats["entropy"] == pytest.approx(expected, abs=1e-5)
    log_probs = torch.from_numpy(np.log(sac.probabilities().clip(1e-30)))
    assert float(mean_entropy(log_probs, torch.from_numpy(LIVE))) == pytest.approx(stats["entropy"], abs=0.05)


@pytest.mark.slow
def test_the_critic_learns_the_reward_and_the_actor_follows_it():
    config = replace(SETTINGS, actor_lr=3e-3, critic_lr=3e-3)
    sac, rng = learner(config), np.random.default_rng(0)
    wanted = np.array([[2, 1]] * NODES)

    def score() -> float:
        p = np.take_along_axis(sac.probabilities(), wanted[..., None], -1)[..., 0]
        return float(p[LIVE].mean())

    before, losses = score(), []
    for step in range(120):
        rows = batch(seed=step, size=24)
        match = ((rows.action == wanted) & LIVE).sum(axis=(1, 2)) / LIVE.sum()
        losses.append(sac.update(replace(rows, reward=match.astype(np.float32)), rng)["critic_loss"])
    assert np.mean(losses[-20:]) < 0.3 * np.mean(losses[:5])
    assert score() > max(0.8, before)


@pytest.mark.parametrize("steps", [0, 3])
def test_a_restored_learner_goes_on_bit_for_bit(steps):
    sac, rng = learner(), np.random.default_rng(7)
    for step in range(steps):
        sac.update(batch(step), rng)
    restored, other = learner(seed=99), np.random.default_rng()
    restored.update(batch(50), np.random.default_rng(1))
    restored.load_state_dict(sac.state_dict())
    other.bit_generator.state = rng.bit_generator.state
    for step in range(3):
        assert sac.update(batch(step), rng) == restored.update(batch(step), other)
    assert equal(sac.state_dict(), restored.state_dict())
    assert sac.updates == steps + 3


def test_a_saved_state_does_not_change_when_training_goes_on():
    sac = learner()
    sac.update(batch(), np.random.default_rng(0))
    state = sac.state_dict()
    copy = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items() if "adam" not in k}
    moments = state["actor_adam"]["exp_avg"].copy()
    weights = sac.actor_weights()
    held = weights.copy()
    sac.update(batch(1), np.random.default_rng(0))
    assert equal(copy, state)
    assert np.array_equal(moments, state["actor_adam"]["exp_avg"])
    assert np.array_equal(weights, held)


def test_an_actor_started_from_a_policy_gives_its_probabilities():
    first, second = learner(seed=1), learner(seed=2)
    second.load_actor_weights(first.actor_weights())
    assert np.array_equal(first.probabilities(), second.probabilities())


def test_training_leaves_the_global_generator_alone():
    sac = learner()
    before = torch.random.get_rng_state()
    sac.update(batch(), np.random.default_rng(0))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"reward": np.full(BATCH, np.nan, dtype=np.float32)}, "reward: expected 6 finite values"),
        ({"action": np.zeros((BATCH, NODES, 1), dtype=np.int16)}, "action: expected shape"),
        ({"action": np.full((BATCH, NODES, HEADS), 2, dtype=np.int16)}, "action: expected -1 or a choice"),
        ({"action": np.full((BATCH, NODES, HEADS), -2, dtype=np.int16)}, "action: expected -1 or a choice"),
    ],
)
def test_transitions_that_cannot_be_are_refused(change, names):
    with pytest.raises(ValueError, match=names):
        learner().update(replace(batch(), **change), np.random.default_rng(0))


@pytest.mark.slow
def test_an_actor_that_imitates_takes_the_elites_choices_and_one_that_does_not_never_hears_of_them():
    rng = np.random.default_rng(4)
    chosen = (rng.random((NODES, HEADS)) * COUNTS).astype(np.int64)
    elite = (chosen[..., None] == np.arange(CHOICES)).astype(np.float32) * LIVE[..., None]

    def agreement(sac: Sac) -> float:
        best = sac.probabilities().argmax(axis=-1)
        return float((best == chosen)[LIVE].mean())

    sac = learner(replace(SETTINGS, imitation=20.0, actor_lr=0.01))
    before = agreement(sac)
    for step in range(60):
        sac.update(replace(batch(step), elite=elite), np.random.default_rng(step))
    assert agreement(sac) > 0.9 > before
    deaf = [learner(replace(SETTINGS, imitation=0.0, actor_lr=0.01)) for _ in range(2)]
    for step in range(5):
        deaf[0].update(batch(step), np.random.default_rng(step))
        deaf[1].update(replace(batch(step), elite=elite), np.random.default_rng(step))
    assert np.array_equal(deaf[0].actor_weights(), deaf[1].actor_weights())


def test_cross_entropy_is_a_mean_over_live_decisions_and_ignores_illegal_choices():
    log_probs = torch.log(torch.tensor([[[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]]))
    share = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]])
    both = cross_entropy(share, log_probs, torch.tensor([[True, True]]))
    expected = -(np.log(0.5) + 0.5 * np.log(0.3) + 0.5 * np.log(0.5)) / 2
    assert float(both) == pytest.approx(expected, rel=1e-6)
    first = cross_entropy(share, log_probs, torch.tensor([[True, False]]))
    assert float(first) == pytest.approx(-np.log(0.5), rel=1e-6)


def test_an_elite_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="elite: expected shape"):
        learner().update(
            replace(batch(), elite=np.zeros((NODES, HEADS, 1), np.float32)), np.random.default_rng(0)
        )


def test_tensors_follow_the_device_and_a_graph_that_is_there_already_is_not_copied():
    sac = learner()
    assert sac.device == torch.device("cpu")
    assert TASK.graph.on(torch.device("cpu")) is TASK.graph
    meta = TASK.graph.on(torch.device("meta"))
    assert meta.edges.is_meta
    assert meta is TASK.graph.on(torch.device("meta"))
