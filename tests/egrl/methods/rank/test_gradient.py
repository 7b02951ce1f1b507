"""Training by the gradient of scores: its estimate, what it learns, and that files read what was trained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from egrl.methods.rank.config import ScoreGradientConfig
from egrl.methods.rank.gradient import ScoreGradient, _draws, _slopes
from policies.context_module import Batch
from policies.network import NetworkConfig
from policies.places import Places
from policies.ranker import Rankers, free_share
from policies.ranking_module import RankingModule

NAMES = ("one", "size", "worth")
HEADS = 2
CONTEXT = NetworkConfig(name="context", width=8)
KINDS = [
    CONTEXT,
    NetworkConfig(name="mlp", width=8),
    NetworkConfig(name="linear"),
    NetworkConfig(depth=2, width=8),
    NetworkConfig(name="sage", depth=1, width=8),
]


@dataclass
class Wanted:
    """Loses where scores differ from those that are wanted, and where another share than 0.2 stays free."""

    places: Places
    wanted: np.ndarray

    def losses(self, scores: np.ndarray, free: np.ndarray) -> np.ndarray:
        off = (scores[:, :, 1:].astype(np.float64) - self.wanted) ** 2
        return off.mean(axis=(1, 2)) + (free - 0.2) ** 2


def task(seed: int, nodes: int = 12) -> Wanted:
    """What a tensor deserves follows from its own feature and from that of the node before: context is needed."""
    rng = np.random.default_rng(seed)
    node, head = np.divmod(np.arange(nodes * HEADS), HEADS)
    features = np.ones((len(node), 3, len(NAMES)), np.float32)
    features[:, 1:, 1:] = rng.normal(size=(len(node), 1, 2)).astype(np.float32)
    target = np.arange(1, nodes)
    seen = Places(node, head, features, (nodes, HEADS), np.stack([target - 1, target]))
    own, before = features[:, 1:, 2], features[np.maximum(np.arange(len(node)) - HEADS, 0), 1:, 1]
    wanted = own + before
    return Wanted(seen, wanted / np.sqrt((wanted**2).mean()))


def trained(tasks: list[Wanted], seed: int, config: ScoreGradientConfig, samples: int = 16) -> RankingModule:
    torch.manual_seed(seed)
    module, rng = RankingModule(NAMES, HEADS, CONTEXT), np.random.default_rng(seed)
    module.see([own.places for own in tasks])
    training = ScoreGradient(module, config.longest)
    for k in range(config.rounds):
        draws = training.begin([own.places for own in tasks], samples, config.sigma(k), rng)
        losses = [t.losses(d.scores, d.free_share) for t, d in zip(tasks, draws, strict=True)]
        training.end(draws, losses, config.rate(k))
    return module


def test_the_estimated_slope_of_a_loss_is_its_slope():
    """Of the smoothed squared distance the slope is 2 (s - wanted) / size, whatever sigma is."""
    given, rng = task(0, 3), np.random.default_rng(1)
    scores = rng.normal(size=given.wanted.shape).astype(np.float32)
    draws = [_draws(scores, 0.0, 32, 0.4, rng) for _ in range(300)]
    found = np.mean([_slopes(d, given.losses(d.scores, d.free_share))[0] for d in draws], axis=0)
    np.testing.assert_allclose(found, 2 * (scores - given.wanted) / scores.size, atol=0.06)


@pytest.mark.slow
def test_training_learns_from_losses_what_needs_context_and_what_should_stay_free():
    config = ScoreGradientConfig(rounds=300, first_rate=2e-2, last_rate=2e-3)
    module, unseen = trained([task(seed) for seed in range(8)], 0, config), task(99)
    with torch.no_grad():
        scores, free = module(Batch.of([unseen.places]))
    assert float(np.square(scores.numpy() - unseen.wanted.reshape(-1)).mean()) < 0.3
    assert float(np.square(unseen.wanted - unseen.wanted.mean()).mean()) > 0.8
    assert free_share(free.numpy())[0] == pytest.approx(0.2, abs=0.05)


def test_equal_seeds_train_equal_weights():
    config = ScoreGradientConfig(rounds=3)
    first, second = (trained([task(1), task(2)], 3, config).weights() for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config.name)
def test_weights_for_files_say_what_the_module_says(config):
    """The scaling of the inputs is part of them, that of the scores is not where a network over the graph adds."""
    torch.manual_seed(5)
    tasks = [task(1), task(2, 7)]
    module = RankingModule(NAMES, HEADS, config)
    module.see([own.places for own in tasks])
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    rankers = Rankers(config, NAMES, HEADS)
    for own in tasks:
        with torch.no_grad():
            expected, free = module(Batch.of([own.places]))
        scores, share = rankers.scores(module.weights()[None], own.places)
        rows = scores[0, :, 1:].reshape(-1)
        size = np.sqrt(np.square(rows).mean())
        np.testing.assert_allclose(rows / size, expected.numpy(), rtol=1e-3, atol=1e-4)
        assert share[0] == pytest.approx(float(free_share(free.numpy())[0]), rel=1e-4)
    again = RankingModule(NAMES, HEADS, config)
    again.see([tasks[1].places])
    again.begin_with(module.weights(), rankers.weight_format)
    np.testing.assert_allclose(again.weights(), module.weights(), rtol=1e-4, atol=1e-5)
