"""Adam: PyTorch's, and its state."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from policies.adam import Adam

SHAPES = ((3, 4), (5,), (1, 2, 3))


def weights(seed: int = 0) -> list[torch.nn.Parameter]:
    rng = np.random.default_rng(seed)
    return [torch.nn.Parameter(torch.from_numpy(rng.standard_normal(s, dtype=np.float32))) for s in SHAPES]


def give_gradients(parameters: list[torch.nn.Parameter], rng: np.random.Generator) -> None:
    for parameter in parameters:
        values = rng.standard_normal(tuple(parameter.shape), dtype=np.float32)
        parameter.grad = torch.from_numpy(values)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_are_those_of_pytorch(decay):
    own, twin = weights(), weights()
    adam, expected = Adam(own, 0.01, decay), torch.optim.Adam(twin, lr=0.01, weight_decay=decay, fused=True)
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(20):
        adam.zero_grad()
        expected.zero_grad()
        give_gradients(own, ours)
        give_gradients(twin, theirs)
        adam.step()
        expected.step()
        assert all(torch.equal(one, other) for one, other in zip(own, twin, strict=True))
    state = adam.state_dict()
    moments = torch.cat([expected.state[p]["exp_avg"].reshape(-1) for p in twin]).numpy()
    assert state["step"] == 20
    assert np.array_equal(state["exp_avg"], moments)


def test_a_restored_one_goes_on_bit_for_bit():
    own, rng = weights(), np.random.default_rng(1)
    adam = Adam(own, 0.01)
    for _ in range(3):
        give_gradients(own, rng)
        adam.step()
    copies = [torch.nn.Parameter(p.detach().clone()) for p in own]
    other = Adam(copies, 0.01)
    other.load_state_dict(adam.state_dict())
    for parameters, one in ((own, adam), (copies, other)):
        give_gradients(parameters, np.random.default_rng(2))
        one.step()
    assert all(torch.equal(one, other) for one, other in zip(own, copies, strict=True))


def test_a_parameter_without_gradient_stays_where_it_is():
    own = weights()
    before = [p.detach().clone() for p in own]
    adam = Adam(own, 0.01)
    give_gradients(own[:1], np.random.default_rng(0))
    adam.step()
    assert not torch.equal(own[0], before[0])
    assert all(torch.equal(p, old) for p, old in zip(own[1:], before[1:], strict=True))


def test_reset_forgets_all_steps():
    own = weights()
    adam = Adam(own, 0.01)
    give_gradients(own, np.random.default_rng(0))
    adam.step()
    assert adam.state_dict()["step"] == 1
    adam.reset()
    state = adam.state_dict()
    assert state["step"] == 0
    assert not state["exp_avg"].any()
    assert not state["exp_avg_sq"].any()


def test_a_state_of_other_networks_is_refused():
    adam = Adam(weights(), 0.01)
    state = adam.state_dict()
    with pytest.raises(ValueError, match=r"exp_avg_sq: expected shape \[23\], received \[22\]"):
        adam.load_state_dict({**state, "exp_avg_sq": state["exp_avg_sq"][:-1]})
