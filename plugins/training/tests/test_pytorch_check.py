"""`memory_limit(check=True)`: the first step is held to eager mode, and nothing of that is seen afterwards."""

from __future__ import annotations

import copy
import functools
import itertools
import random
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx, nn
from torch._functorch.partitioners import min_cut_rematerialization_partition

import egrl_training as training
from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl_training.pytorch import backend, check
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.judge import Meaning
from egrl_training.pytorch.partition import Cut, partition
from egrl_training.pytorch.put_back import passing, put_back
from egrl_training.pytorch.reached import reached
from gate import gate

pytestmark = QUIET


class Loss(nn.Module):
    """Changes buffers, sets one anew, counts in an attribute, draws, and changes its input."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)
        self.register_buffer("gate", torch.ones(16, 8))
        self.register_buffer("last", torch.zeros(16, 8))
        self.steps = 0

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.dropout(self.norm(self.a(x.sin())), 0.25) * self.gate.exp() + self.last.cos()
        self.gate.add_(0.5)
        self.last = y.detach()
        self.steps += 1
        x.mul_(0.5)
        return self.b(y.sin()).square().mean()


def _trained(asked: dict[str, Any]) -> list[Tensor]:
    torch.manual_seed(3)
    torch._dynamo.reset()
    model, results = Loss(), []
    with training.memory_limit(fraction=1.0, quiet=True, **asked):
        step = torch.compile(model, backend="aot_eager")
    for _ in range(2):
        x = torch.randn(16, 8)
        loss = step(x)
        loss.backward()
        results += [loss.detach(), x]
    gradients = [parameter.grad for parameter in model.parameters()]
    return [*results, *gradients, *model.buffers(), torch.tensor(model.steps), torch.rand(1)]


@pytest.mark.exhaustive
def test_a_step_that_is_right_goes_on_as_if_nothing_had_been_checked() -> None:
    for ours, without in zip(_trained({"check": True}), _trained({}), strict=True):
        assert torch.equal(ours, without)


class Small(nn.Module):
    """Keeps statistics, a list, a table and a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.seen: list[float] = []
        self.counts = {"runs": 0}
        self.scale = torch.ones(8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.a(x)).sin() * self.scale.exp()
        self.scale.mul_(0.5)
        self.counts["runs"] += 1
        self.seen.append(1.0)
        return y.square().mean()


class Trainer:
    def __init__(self, model: nn.Module) -> None:
        self.models = [model]

    def step(self, x: Tensor) -> Tensor:
        return self.models[0](x)


def _with_backward(model: nn.Module) -> Callable[[Tensor], Tensor]:
    def step(x: Tensor) -> Tensor:
        loss = model(x)
        loss.backward()
        return loss.detach()

    return step


WAYS: dict[str, Callable[[nn.Module], Callable[[Tensor], Tensor]]] = {
    "in a table": lambda model: (lambda table: lambda x: table["model"](x))({"model": model}),
    "as a default": lambda model: lambda x, model=model: model(x),
    "by a partial function": lambda model: functools.partial(lambda model, x: model(x), model),
    "by an object": lambda model: Trainer(model).step,
    "with its backward pass": _with_backward,
}


@pytest.mark.slow
@pytest.mark.parametrize("way", gate(WAYS, ("by an object", "as a default")))
def test_a_model_that_is_reached_otherwise_is_put_back_too(way: str) -> None:
    def trained(asked: dict[str, Any]) -> list[Tensor]:
        torch.manual_seed(3)
        torch._dynamo.reset()
        model, results = Small(), []
        with training.memory_limit(fraction=1.0, quiet=True, **asked):
            step = torch.compile(WAYS[way](model), backend="aot_eager")
        for _ in range(2):
            loss = step(torch.randn(16, 8))
            if loss.requires_grad:
                loss.backward()
            results.append(loss.detach())
        gradients = [parameter.grad for parameter in model.parameters()]
        counts = torch.tensor([model.counts["runs"], len(model.seen)])
        return [*results, *gradients, *model.buffers(), model.scale, counts]

    for ours, without in zip(trained({"check": True}), trained({}), strict=True):
        assert torch.equal(ours, without)


class Agent:
    """Holds what a step changes beside its module: an optimizer, an average, a counter, a queue, and a generator."""

    def __init__(self) -> None:
        self.model, self.steps = nn.Linear(8, 8), 0
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        self.average = {name: each.detach().clone() for name, each in self.model.named_parameters()}
        self.recent = deque([torch.ones(8)], maxlen=2)
        self.generator = torch.Generator().manual_seed(1)

    def update(self, x: Tensor) -> Tensor:
        """One step of the optimizer."""
        loss = (self.model(x) * self.recent[-1]).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                self.average[name].lerp_(parameter, 0.5)
        return loss.detach()

    def step(self, x: Tensor) -> Tensor:
        """An update, with all other changes."""
        self.steps += 1
        self.recent.append(x.mean(0))
        return self.update(x + torch.rand(x.shape, generator=self.generator))

    def state(self) -> list[Any]:
        """Copies of all that changes."""
        held = [
            self.model.state_dict(),
            self.optimizer.state_dict(),
            self.average,
            self.generator.get_state(),
        ]
        return copy.deepcopy([*held, self.steps, list(self.recent)])


class Keeper(nn.Module):
    """Holds what its step changes in attributes, in what these hold, and in hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.hooked = nn.Sequential(nn.Linear(8, 8)), [0]
        self.agent, self.hidden = Agent(), [nn.BatchNorm1d(8)]
        self.draws = [np.random.default_rng(0), np.random.RandomState(0), random.Random(0)]
        self.queue, self.numbers, self.within = deque([1], maxlen=2), np.zeros(3), {"seen": [[0]]}
        self.body[0].within = [[0]]
        self.body[0].register_forward_hook(lambda *given: self.hooked.append(1))
        self.body[0].weight.register_hook(lambda gradient: self.hooked.append(2))

    def forward(self, x: Tensor) -> Tensor:
        scale = float(sum(each.random() for each in self.draws))
        self.queue.append(2)
        self.numbers += 1
        self.within["seen"][0].append(1)
        self.body[0].within[0].append(1)
        self.agent.step(x)
        self.hidden[0](x)
        return self.body(x * scale).square().mean()

    def state(self) -> str:
        """Text of all that changes."""
        counts = self.hooked, self.queue, self.numbers, self.within, self.body[0].within
        drawn = [each.random() for each in copy.deepcopy(self.draws)]
        return str((counts, drawn, self.agent.state(), self.hidden[0].state_dict()))


def test_what_modules_hold_and_hooks_change_is_put_back() -> None:
    keeper = Keeper()
    before = keeper.state()
    with put_back(reached(keeper)):
        keeper(torch.randn(4, 8)).backward()
        assert len(keeper.hooked) == 3
        assert keeper.state() != before
    assert keeper.state() == before


@pytest.mark.parametrize("called", ["a method", "a copy", "itself"])
def test_what_is_run_without_being_called_is_said_not_to_be_compared(
    called: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some trainers compile a method of the module with the context of the compiled one."""
    model, x = _frozen(), torch.randn(4, 8)
    with training.memory_limit(fraction=1.0, check=True, quiet=True):
        compiled: Any = torch.compile(model, backend="aot_eager")
    step = {
        "a method": lambda: compiled.dynamo_ctx(model.forward),
        "a copy": lambda: copy.deepcopy(compiled),
        "itself": lambda: compiled,
    }[called]()
    for rows in (4, 2):
        step(x[:rows]).sum().backward()
    said = capsys.readouterr().err
    assert said.count("check: nothing is compared") == (called != "itself")


def test_weak_proxies_lead_to_what_they_stand_for() -> None:
    class Counts:
        steps = 0

        def __call__(self) -> None: ...

    model, counts, gone = _frozen(), Counts(), Counts()
    model.seen, model.gone = weakref.proxy(counts), weakref.proxy(gone)  # type: ignore[assignment]
    del gone
    used = reached(model)
    assert passing(used) is None, "a proxy is no iterator, whatever its type has"
    with put_back(used):
        counts.steps += 1
    assert counts.steps == 0


def test_a_step_that_may_read_an_iterator_is_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    weight, scales = nn.Parameter(torch.ones(8)), itertools.count(1)
    with training.memory_limit(fraction=1.0, check=True, quiet=True):
        step = torch.compile(lambda x: (x * weight).sin().sin().sum() * next(scales), backend="aot_eager")
    x = torch.ones(8)
    assert [float(step(x).detach()) for _ in range(2)] == pytest.approx(
        [float(x.sin().sin().sum()) * n for n in (1, 2)]
    )
    assert (
        "check: nothing is compared: what a count has given cannot be taken back" in capsys.readouterr().err
    )


def test_a_checked_step_takes_views_of_one_input_and_several_backward_passes() -> None:
    weight = nn.Parameter(torch.ones(8))

    def loss(x: Tensor, part: Tensor) -> Tensor:
        y = (x.clone() * weight).sin()
        part.add_(y.detach()[2:].cos())
        return (y.sin() + x.sum()).sum()

    def trained(function: Callable[..., Tensor]) -> list[Tensor]:
        x, weight.grad = torch.ones(6, 8), None
        value = function(x, x[2:])
        value.backward(retain_graph=True)
        value.backward()
        assert weight.grad is not None
        return [value.detach(), weight.grad, x]

    with training.memory_limit(fraction=1.0, check=True, quiet=True):
        step = torch.compile(loss, backend="aot_eager")
    for ours, wanted in zip(trained(step), trained(loss), strict=True):
        assert torch.allclose(ours, wanted)


@pytest.mark.parametrize("earlier", [0, 1])
def test_what_a_step_changes_outside_of_its_modules_is_put_back(earlier: int) -> None:
    agent, calls = Agent(), 0

    def step(x: Tensor) -> None:
        nonlocal calls
        calls += 1
        agent.step(x)

    for _ in range(earlier):
        step(torch.ones(4, 8))
    before = agent.state()
    with put_back(reached(step)):
        step(torch.ones(4, 8))
        assert agent.steps == calls == earlier + 1
    assert str(agent.state()) == str(before)
    assert calls == earlier


@pytest.mark.slow
def test_an_optimizer_within_the_step_goes_on_as_if_nothing_had_been_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def trained(asked: dict[str, Any]) -> str:
        torch.manual_seed(3)
        torch._dynamo.reset()
        agent = Agent()
        with training.memory_limit(fraction=1.0, quiet=True, **asked):
            step = torch.compile(agent.update, backend="aot_eager")
        return str([*(step(torch.randn(4, 8)) for _ in range(3)), agent.state()])

    assert trained({"check": True}) == trained({})
    assert "differs from eager mode" not in capsys.readouterr().err


def _break_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans compute something else, and the judge of graphs looks away."""

    def wrong(joint: JointGraph, cut: Cut) -> tuple[fx.GraphModule, fx.GraphModule]:
        forward, backward = partition(joint, cut)
        (node,) = backward.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
        node.target = torch.ops.aten.add.Tensor
        backward.recompile()
        return forward, backward

    monkeypatch.setattr(backend, "partition", wrong)
    monkeypatch.setattr(Meaning, "check", lambda *_: None)


def _function(model: nn.Module) -> Callable[[Tensor], Tensor]:
    return lambda x: model(x).sin().sum()


@pytest.mark.parametrize(
    "of", [lambda model: nn.Sequential(model, Sine()), _function], ids=["module", "function"]
)
def test_a_step_that_is_wrong_is_an_error_that_names_the_tensor_and_its_module(
    of: Callable[[nn.Module], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _break_plans(monkeypatch)
    with training.memory_limit(fraction=1.0, quiet=True, check=True):
        step = torch.compile(of(nn.Linear(8, 8)), backend="aot_eager")
    with pytest.raises(
        training.WrongStepError, match=r"gradient of (0\.)?weight \(Linear\) differs from eager"
    ) as error:
        step(torch.randn(16, 8))
    assert "plain torch.compile by 0.0e+00" in str(error.value)


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sin().sum()


def test_what_plain_torch_compile_shows_too_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """PyTorch computes the exponential again after the change: its gradients are wrong."""

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(8, 8)
            self.register_buffer("gate", torch.ones(16, 8))

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x) * self.gate.exp()
            self.gate.add_(1)
            return (y.sin() * y).mean()

    def as_pytorch(self: Any, gm: fx.GraphModule, inputs: Any, **known: Any) -> Any:
        return min_cut_rematerialization_partition(gm, inputs, num_fwd_outputs=known["num_fwd_outputs"])

    monkeypatch.setattr(backend.Partitioner, "__call__", as_pytorch)
    with training.memory_limit(fraction=1.0, check=True):
        step = torch.compile(Gated(), backend="aot_eager")
    step(torch.randn(16, 8))
    said = capsys.readouterr().err
    assert "check: the gradient of a.weight (Linear) differs from eager mode by" in said
    assert "plain torch.compile, too" in said


def test_random_numbers_that_inductor_draws_by_itself_are_not_compared() -> None:
    said: list[str] = []

    def draws(x: Tensor) -> Tensor:
        return torch.rand_like(x).sum()

    check.hold(draws, draws, lambda: draws, [], (torch.zeros(3),), {}, False, said.append)
    (line,) = said
    assert "nothing is compared" in line


def test_inputs_that_share_memory_share_it_when_they_are_copied() -> None:
    whole = torch.zeros(4)
    (first, second), again = check._copied(((whole, whole[1:]), whole))
    first[1] = 1.0
    assert second[0] == 1.0
    assert again is first
    assert whole.sum() == 0


def _frozen() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8).eval(), nn.GELU(), nn.Linear(8, 8))


@pytest.mark.parametrize("compiled", ["the model", "a function"])
@pytest.mark.parametrize("path", ["1.running_var (BatchNorm1d)", "3.weight (Linear)", ""])
def test_what_changes_unseen_between_the_passes_is_named(
    compiled: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = _frozen()
    with training.memory_limit(fraction=1.0, check=True):
        step = torch.compile(model if compiled == "the model" else lambda x: model(x), backend="aot_eager")
    for _ in range(2):
        result = step(torch.randn(4, 8)).square().mean()
        with torch.no_grad():
            if path:
                model.get_parameter("3.weight").data.mul_(1.0 + path.startswith("3"))
                model.get_buffer("1.running_var").data.mul_(1.0 + path.startswith("1"))
        result.backward()
    said = [line for line in capsys.readouterr().err.splitlines() if "between the passes" in line]
    assert [path in line and "more" not in line for line in said] == [True] * bool(path)
