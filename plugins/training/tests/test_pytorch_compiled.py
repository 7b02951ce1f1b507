"""Under inductor: the peak that is read from its code is what is measured, and limits are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.training_models import SMALL
from benchmarks.training_models import training as network
from torch import nn
from torch._subclasses import FakeTensorMode

import egrl_training as training
from compiling import QUIET, fresh, gradients, limit_evaluations  # noqa: F401  (a fixture of all)
from egrl_training.pytorch import compiled, limit, reporting
from egrl_training.pytorch import plan as plans
from egrl_training.pytorch.asked import Limit
from egrl_training.pytorch.backend import PlannedBackend
from egrl_training.pytorch.capture import capture_joint
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.partition import Cut
from egrl_training.pytorch.peak import peak_of
from egrl_training.pytorch.runs import OpenRuns

pytestmark = QUIET


class Net(nn.Module):
    """Convolutions with dropout, then attention; the loss as the output."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 24, 3, padding=1), nn.Conv2d(24, 32, 3, padding=1)
        self.norm, self.last = nn.GroupNorm(4, 24), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = nn.functional.dropout(nn.functional.gelu(self.norm(self.first(x))), 0.2)
        x = self.second(x).flatten(2).transpose(1, 2).unsqueeze(1)
        x = nn.functional.scaled_dot_product_attention(x, x, x).squeeze(1)
        return nn.functional.mse_loss(torch.tanh(self.last(x)), y)


def net() -> tuple[Net, tuple[torch.Tensor, ...]]:
    """A small network with its inputs."""
    torch.manual_seed(0)
    return Net(), (torch.randn(2, 3, 16, 16), torch.randn(2, 256, 32))


def plans_of(joint: JointGraph) -> dict[str, list[int]]:
    """Some plans, by name: what is kept."""
    rng = np.random.default_rng(0)
    kept = list(joint.step.candidates)
    return {"all": kept, "some": [number for number in kept if rng.random() < 0.5], "none": []}


def planned(joint: JointGraph, keep: Sequence[int], model: nn.Module) -> Callable[..., Any]:
    """The model compiled so that these values of its joint graph are kept."""
    names = {joint.step.values[number].name for number in keep}
    torch._dynamo.reset()
    backend = PlannedBackend("inductor", lambda again: Cut(again.positions(names)), "net", False)
    return torch.compile(model, backend=backend, dynamic=False)


def measured(model: nn.Module, function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> int:
    """The peak of a step, parameters, buffers and inputs included."""
    function(*inputs).backward()
    model.zero_grad()
    peak = peak_of(lambda: function(*inputs).backward(), torch.device("cpu"))
    model.zero_grad()
    return peak + sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers(), *inputs))


@pytest.mark.exhaustive
def test_gradients_are_the_same_and_peaks_are_what_the_code_says() -> None:
    model, inputs = net()
    joint = capture_joint(model, *inputs, backend="inductor")
    reference: list[torch.Tensor] = []
    for plan in ("all", "some"):
        keep = plans_of(joint)[plan]
        function = planned(joint, keep, model)
        found = gradients(model, function, inputs)
        reference = reference or found
        for ours, first in zip(found, reference, strict=True):
            assert torch.linalg.norm(ours - first) <= 1e-5 * torch.linalg.norm(first), plan
        foreseen = compiled.memory_of(joint, keep).peak_bytes
        assert foreseen == pytest.approx(measured(model, function, inputs), rel=1e-3), plan


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SMALL)
def test_peaks_of_networks_are_what_the_code_says(name: str) -> None:
    chosen = network(name, small=True)
    joint = capture_joint(chosen.model, *chosen.inputs, backend="inductor")
    for plan, keep in plans_of(joint).items():
        foreseen = compiled.memory_of(joint, keep).peak_bytes
        found = measured(chosen.model, planned(joint, keep, chosen.model), chosen.inputs)
        assert foreseen == pytest.approx(found, rel=5e-3), plan


class Chain(nn.Module):
    """Products and their activations, the loss as the output: its code is made in a second."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(part for _ in range(3) for part in (nn.Linear(32, 32), nn.GELU())))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).square().mean()


def chain() -> tuple[Chain, tuple[torch.Tensor, ...]]:
    """A smaller network with its inputs."""
    torch.manual_seed(0)
    return Chain(), (torch.randn(2048, 32),)


@pytest.mark.slow
def test_a_limit_under_inductor_is_kept_and_used() -> None:
    model, inputs = chain()
    with training.memory_limit(fraction=0.9, seconds=60, quiet=True) as made:
        step = torch.compile(model)
    for ours, eager in zip(gradients(model, step, inputs), gradients(model, model, inputs), strict=True):
        assert torch.linalg.norm(ours - eager) <= 1e-5 * torch.linalg.norm(eager)
    peak = measured(model, step, inputs)
    (plan,) = made
    assert peak == pytest.approx(plan.peak_bytes, rel=1e-3)
    assert peak <= plan.limit_bytes < plan.all_peak_bytes
    assert plan.margin == 0


def planner(room: Limit, given: list[plans.Plan] | None) -> tuple[Any, reporting.Plans]:
    """What plans under inductor, quietly; the list of its plans."""
    made = reporting.Plans()
    report = reporting.Report(made, None, quiet=True)
    return limit._Planner(room, given, "inductor", report, OpenRuns(report.say, room.bytes)), made


def test_bytes_on_a_gpu_are_counted_in_blocks_of_its_allocator() -> None:
    with FakeTensorMode(), compiled._Bytes(lambda node: 0) as counted:
        one, other = (torch.empty_strided((3,), (1,), device=device) for device in ("cuda", "cpu"))
        assert counted.now == 512 + other.nbytes
        del one
        assert counted.now == other.nbytes


@pytest.mark.slow
def test_the_simulation_must_do_where_the_code_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limit_evaluations(monkeypatch, 210)
    model, inputs = chain()
    joint = capture_joint(model, *inputs, backend="inductor")
    monkeypatch.setattr(compiled, "_code", lambda *args: ("call = None", {}))
    plan, made = planner(Limit(None, 1.0, 0, "annealing", 20.0, 0), None)
    plan(joint)
    assert made[0].margin == limit.INDUCTOR_MARGIN
    assert made[0].peak_bytes <= 0.95 * made[0].all_peak_bytes
    said = capsys.readouterr().err
    assert "5% of the limit is left free, since the peak is not known: TypeError" in said
    assert said.count("\n") == 1


@pytest.mark.slow
def test_a_given_plan_above_its_limit_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    model, inputs = chain()
    joint = capture_joint(model, *inputs, backend="inductor")
    everything = tuple(joint.step.values[number].name for number in joint.step.candidates)
    for room, told in ((1 << 30, False), (1 << 10, True)):
        given = plans.Plan("net", joint.step.graph, everything, room, room, 1.0, room, 1.0)
        plan, _ = planner(Limit(room, None, 0, "exact", 1.0, 0), [given])
        plan(joint)
        assert ("above its limit of 1 KiB" in capsys.readouterr().err) == told
