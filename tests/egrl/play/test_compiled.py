import numpy as np
import pytest
import torch

from egrl.play import compiled
from policies.muzero import MuZeroConfig, MuZeroNet, Shapes


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
    weights = compiled.compiled(net)
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
    weights = compiled.compiled(net)
    before = weights.act.copy()
    with torch.no_grad():
        net.act.weight.add_(1.0)
    assert np.array_equal(weights.act, before)
    assert np.allclose(compiled.compiled(net).act, before + 1)
