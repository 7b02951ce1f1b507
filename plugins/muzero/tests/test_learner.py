"""MuZero's learner: what its losses say to which weights."""

from __future__ import annotations

import copy

import numpy as np
import torch

from agents import agent, games, settings
from egrl_muzero import learner as muzero
from egrl_muzero.agent import Agent
from egrl_muzero.learner import MuZeroLearner, MuZeroLearnerConfig
from egrl_muzero.targets import targets
from toys import ToyGame

PLAIN = MuZeroLearnerConfig(unroll=1, learning_rate=1e-6, weight_decay=0.0, clip=1e6, precision="float32")


def gradients(monkeypatch, player: Agent, led) -> dict[str, torch.Tensor]:
    """Of one step on segments of one move, where `led` stands between an embedding and its dynamics."""
    net = copy.deepcopy(player.net)
    learner = MuZeroLearner(PLAIN, net, advantage=False)
    time, slot = np.arange(8), np.zeros(8, np.int64)
    wanted = targets(player.ring, player.ring.end, time, slot, 1, 3, player.potential)
    monkeypatch.setattr(muzero, "halve_gradient", led)
    learner.step(player.ring.seen(time, slot), wanted)
    return {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}


def test_half_of_what_later_moves_say_reaches_earlier_states_and_all_of_it_their_own_dynamics(monkeypatch):
    player = agent(ToyGame(), settings())
    games(player, 5)
    half, whole, none = (
        gradients(monkeypatch, player, led)
        for led in (muzero.halve_gradient, lambda x: x, lambda x: x.detach())
    )
    dynamics = [name for name in half if name.startswith(("act.", "action.", "after"))]
    earlier = [name for name in none if not torch.allclose(none[name], whole[name], rtol=1e-4, atol=1e-7)]
    assert dynamics
    for name in dynamics:
        assert torch.allclose(half[name], whole[name], rtol=1e-4, atol=1e-7)
    assert earlier
    for name in earlier:
        assert torch.allclose(half[name], (whole[name] + none[name]) / 2, rtol=1e-3, atol=1e-6)
