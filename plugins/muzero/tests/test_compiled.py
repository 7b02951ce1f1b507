import numpy as np
import pytest
import torch

from egrl_muzero import compiled
from egrl_muzero.agent import shapes
from egrl_muzero.model import LearnedModel
from egrl_muzero.networks import MuZeroConfig, MuZeroNet, Shapes
from egrl_muzero.potential import Potential
from egrl_muzero.table import Table
from toys import CoinGame


@pytest.mark.parametrize(
    ("width", "hidden", "bins", "actions"), [(8, 12, 11, 3), (13, 7, 5, 2), (64, 64, 61, 4)]
)
def test_the_kernels_equal_the_networks(width, hidden, bins, actions):
    config = MuZeroConfig(width=width, hidden=hidden, bins=bins, support=4.0)
    with torch.random.fork_rng():
        torch.manual_seed(width)
        net = MuZeroNet(config, Shapes((0, 0), (0, 0), 0, {"coins": 1}, actions))
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.5)
    rng = np.random.default_rng(0)
    before = rng.normal(size=(9, width)).astype(np.float32)
    action = rng.integers(0, actions, 9)
    weights = compiled.copy_weights(net)
    after, logits, scalars = compiled.step(weights, before, action)
    with torch.no_grad():
        expected = net.step(torch.from_numpy(before), torch.from_numpy(action))
        out = net.read(expected)
        values = net.support.mean(out[:, actions:].view(9, 2, bins))
    np.testing.assert_allclose(after, expected.numpy(), atol=1e-5)
    np.testing.assert_allclose(logits, out[:, :actions].numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(scalars, values.numpy(), rtol=1e-3, atol=1e-3)
    assert np.abs(scalars).max() > 0.1


def test_copies_do_not_follow_the_network_until_they_are_taken_again():
    net = MuZeroNet(MuZeroConfig(width=4, hidden=4, bins=3), Shapes((0, 0), (0, 0), 0, {"coins": 1}, 2))
    weights = compiled.copy_weights(net)
    before = weights.act.copy()
    with torch.no_grad():
        net.act.weight.add_(1.0)
    assert np.array_equal(weights.act, before)
    assert np.allclose(compiled.copy_weights(net).act, before + 1)


def test_a_search_is_told_the_same_by_kernels_and_by_the_networks_themselves():
    game = CoinGame()
    table, potential = Table([game], 4), Potential([game], 0.9, 0.1)
    potential.learn(np.arange(6), np.arange(6.0), np.arange(1, 7))
    potential.refresh()
    seen = table.observe()
    config = MuZeroConfig(width=8, hidden=8, bins=11, support=4.0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = MuZeroNet(config, shapes(seen, game))
        with torch.no_grad():
            net.heads.weight.mul_(100)
    fast, plain = LearnedModel(net, potential), LearnedModel(net, potential)
    plain._weights = None
    roots = [model.root(seen, table.legal(), table.place()) for model in (fast, plain)]
    for name in ("prior_logits", "value"):
        np.testing.assert_allclose(getattr(roots[0], name), getattr(roots[1], name), rtol=1e-3, atol=1e-4)
    place = np.array([0, 3, 4, 5])
    steps = [
        model.recurrent((root.embedding[0], place), np.arange(4))
        for model, root in zip((fast, plain), roots, strict=True)
    ]
    for name in ("reward", "discount", "prior_logits", "value"):
        np.testing.assert_allclose(getattr(steps[0], name), getattr(steps[1], name), rtol=1e-3, atol=1e-4)
    assert steps[0].discount.tolist() == [0.9, 0.9, 0.9, 0.0]
    assert steps[0].embedding[1].tolist() == [1, 4, 5, 6]
