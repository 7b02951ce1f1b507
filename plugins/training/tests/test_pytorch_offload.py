"""Values on the host in PyTorch: what runs is what was planned, gradients stay what they were."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.training_models import SMALL
from benchmarks.training_models import training as network
from torch import nn
from torch.utils.checkpoint import checkpoint

import egrl_training as training
from compiling import DEVICES, QUIET, fresh, gradients, hold_to_plan  # noqa: F401  (a fixture of all)
from egrl_training.pytorch import board, host
from egrl_training.pytorch import plan as plans
from egrl_training.pytorch.backend import PlannedBackend
from egrl_training.pytorch.capture import capture_joint
from egrl_training.pytorch.joint import JointGraph, UnsupportedGraphError
from egrl_training.pytorch.partition import Cut, partition
from egrl_training.pytorch.peak import peak_of
from egrl_training.pytorch.times import Times, host_Bps
from egrl_training.simulator.device import Device
from egrl_training.simulator.problem import TrainingProblem
from egrl_training.steps.step import TrainingStep
from workloads.errors import InputError

CPU = torch.device("cpu")
pytestmark = QUIET


class Net(nn.Module):
    """Products and their activations, the loss as the output."""

    def __init__(self, layers: int = 4) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(64, 64), nn.GELU())))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(self.layers(x), y)


def net() -> tuple[Net, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Net(), (torch.randn(2048, 64), torch.randn(2048, 64))


def held_bytes(model: nn.Module, inputs: Any) -> int:
    """What is there before the step."""
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers(), *inputs))


def problem_of(step: TrainingStep, rate: float) -> TrainingProblem:
    return TrainingProblem(step, Device("all", memory_fraction=1.0, to_host_Bps=rate, from_host_Bps=rate))


def planned(model: nn.Module, plan: plans.Plan) -> Callable[..., Any]:
    planned = PlannedBackend(
        "aot_eager", lambda joint: Cut(joint.positions(plan.keep), plan.offload), "net", False
    )
    return torch.compile(model, backend=planned, dynamic=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", list(SMALL))
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_and_peaks_are_as_planned(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all on the host that may be, and with choices drawn at random, at two rates of copies: all of a step's
    values in forty steps, and in two."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    chosen = network(name, small=True, device=device)
    state = {key: value.clone() for key, value in chosen.model.state_dict().items()}
    step = Times({}).measure(capture_joint(chosen.model, *chosen.inputs)).step
    chosen.model.load_state_dict(state)
    wanted = gradients(chosen.model, chosen.model, chosen.inputs)
    given = sum(value.size_bytes for value in step.values if value.role in ("parameter", "input"))
    rng = np.random.default_rng(0)
    moments = set()
    seconds, size = sum(op.seconds for op in step.ops), sum(value.size_bytes for value in step.values)
    for steps in (40, 2):
        problem = problem_of(step, size / (steps * seconds))
        most = problem.space.num_choices
        assert (most == 3).sum() > 5
        for drawn in (most - 1, rng.integers(0, most), rng.integers(1, most)):
            plan = plans.plan_of(problem, drawn.astype(np.int16))
            moments |= {(value.leaves == "", value.returns) for value in plan.offload}
            torch._dynamo.reset()
            chosen.model.load_state_dict(state)
            function = planned(chosen.model, plan)
            hold_to_plan(chosen.model, function, chosen.inputs, wanted, plan.peak_bytes - given)
    assert {at_the_end for at_the_end, _ in moments} == {True, False}
    assert len(moments) > 5


@pytest.mark.slow
def test_a_limit_is_kept_with_values_on_the_host_and_the_plan_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, inputs = net()
    file = tmp_path / "plan.json"
    with training.memory_limit(fraction=0.7, seconds=60, offload="20 GB/s", save=file) as made:
        step = torch.compile(model, backend="aot_eager")
    ours, eager = gradients(model, step, inputs), gradients(model, model, inputs)
    assert all(torch.equal(a, b) for a, b in zip(ours, eager, strict=True))
    (plan,) = made
    assert "on the host" in capsys.readouterr().err
    assert plan.offload
    assert {value.name for value in plan.offload} <= set(plan.keep)
    model.zero_grad()
    peak = peak_of(lambda: step(*inputs).backward(), CPU) + held_bytes(model, inputs)
    assert plan.peak_bytes == pytest.approx(peak, rel=0.001)
    assert peak <= plan.limit_bytes < plan.all_peak_bytes
    assert plans.read(str(file)) == [plan]

    torch._dynamo.reset()
    with training.memory_limit(plan=file, quiet=True) as again:
        step = torch.compile(model, backend="aot_eager")
    ours = gradients(model, step, inputs)
    assert all(torch.equal(a, b) for a, b in zip(ours, eager, strict=True))
    model.zero_grad()
    assert peak_of(lambda: step(*inputs).backward(), CPU) + held_bytes(model, inputs) == peak
    assert again == made


@pytest.mark.exhaustive
def test_without_offload_nothing_is_on_the_host_and_files_are_as_before(tmp_path: Path) -> None:
    model, inputs = net()
    with training.memory_limit(fraction=0.8, seconds=60, quiet=True, save=tmp_path / "plan.json") as made:
        torch.compile(model, backend="aot_eager")(*inputs)
    assert made[0].offload == ()
    assert "offload" not in json.loads((tmp_path / "plan.json").read_text())["plans"][0]


@pytest.mark.exhaustive
def test_rates_are_measured_if_none_are_given() -> None:
    to, back = host_Bps(CPU)
    assert min(to, back) > 1e8
    model, inputs = net()
    with training.memory_limit(fraction=0.7, seconds=60, quiet=True, offload=True) as made:
        step = torch.compile(model, backend="aot_eager")
    ours, eager = gradients(model, step, inputs), gradients(model, model, inputs)
    assert all(torch.equal(a, b) for a, b in zip(ours, eager, strict=True))
    assert made[0].peak_bytes <= made[0].limit_bytes


@pytest.mark.parametrize("wrong", ["fast", "25 GB", 25e9, "0 GB/s", "1e30 GB/s"])
def test_wrong_rates_end_in_one_line(wrong: Any) -> None:
    with (
        pytest.raises(InputError, match="offload: expected True, False or bytes per second") as caught,
        training.memory_limit("1 GiB", offload=wrong),
    ):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.exhaustive
def test_inductor_keeps_nothing_on_the_host_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, inputs = net()
    with training.memory_limit(fraction=0.9, seconds=60, offload="20 GB/s") as made:
        step = torch.compile(model, backend="inductor")
    step(*inputs).backward()
    assert made[0].offload == ()
    assert "nothing is kept on the host: that needs the backend aot_eager" in capsys.readouterr().err
    value = plans.Offload(made[0].keep[0], 1, "", "mm")
    (tmp_path / "plan.json").write_text(plans.dumps([replace(made[0], offload=(value,))]))
    torch._dynamo.reset()
    with training.memory_limit(plan=tmp_path / "plan.json", quiet=True):
        step = torch.compile(model, backend="inductor")
    with pytest.raises(Exception, match="offload: expected the backend aot_eager"):
        step(*inputs)


def planned_net() -> tuple[JointGraph, plans.Plan]:
    """A joint graph, and its plan with all on the host that may be."""
    model, inputs = net()
    joint = Times({}).measure(capture_joint(model, *inputs))
    problem = problem_of(joint.step, 1e9)
    return joint, plans.plan_of(problem, (problem.space.num_choices - 1).astype(np.int16))


@pytest.mark.parametrize(
    "change", [{"leaves": "first"}, {"returns": "last"}, {"leaves": "nowhere"}, {"name": "mse"}]
)
def test_copies_that_a_graph_cannot_make_are_refused(change: dict[str, str]) -> None:
    joint, plan = planned_net()
    named = {"first": joint.step.ops[0].name, "last": joint.step.ops[-1].name}
    change = {key: named.get(name, name) for key, name in change.items()}
    first = replace(plan.offload[-1], **change)
    with pytest.raises(UnsupportedGraphError):
        partition(joint, Cut(joint.positions(plan.keep), (*plan.offload[:-1], first)))


def test_eager_mode_has_no_host() -> None:
    joint, plan = planned_net()
    with pytest.raises(InputError, match="offload: expected nothing on the host"):
        training.checkpoint_contexts(joint.step, plan)
    assert checkpoint is not None


@pytest.mark.parametrize(
    "rows",
    [1, [1], [{"name": "a"}], [{"name": "b", "size_bytes": 1, "leaves": "", "returns": "x"}]],
)
def test_a_damaged_plan_is_refused(tmp_path: Path, rows: Any) -> None:
    plan = plans.Plan("net", "ab", ("a",), 10, 9, 1.0, 12, 0.5)
    document = json.loads(plans.dumps([plan]))
    document["plans"][0]["offload"] = rows
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"plans\[0\]\.offload"):
        plans.read(str(tmp_path / "plan.json"))


@pytest.mark.slow
def test_a_board_runs_plans_with_values_on_the_host() -> None:
    model, inputs = net()
    names = problem_of(capture_joint(model, *inputs).step, 1e9).space.nodes
    measuring = board.Board(model, inputs, "aot_eager", 1)

    def peak(choice: str) -> int:
        request = {"id": 1, "mapping": [{"node": name, "storage": choice} for name in names]}
        answer = board.answer(measuring, request, None)
        assert len(answer["latency_s"]) == 1
        return int(answer["peak_bytes"])

    assert peak("offload") < 0.8 * peak("keep")
    refused = board.answer(
        board.Board(model, inputs, "inductor", 1),
        {"id": 1, "mapping": [{"node": names[0], "storage": "offload"}]},
        None,
    )
    assert "expected aot_eager to offload" in refused["error"]


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_come_back_as_they_were_and_the_allocator_does_not_see_them_meanwhile(device: str) -> None:
    whole = torch.randn(64, 48, device=device)
    for tensor in (
        whole,
        whole.t(),
        whole[3:7, ::2],
        whole[:, :1].expand(64, 9),
        whole.to(torch.bfloat16),
        whole > 0,
    ):
        there = host.TO_HOST(tensor)
        host.LEFT(tensor, there)
        back = host.FROM_HOST(there, tensor.device)
        host.ARRIVED(back)
        assert there.device.type == "cpu"
        assert back.device == tensor.device
        assert back.stride() == tensor.stride()
        assert back.untyped_storage().nbytes() == tensor.untyped_storage().nbytes()
        assert torch.equal(back, tensor)
    large = torch.randn(1 << 20, device=device)
    taken: list[torch.Tensor] = []
    assert peak_of(lambda: taken.append(host.TO_HOST(large)), torch.device(device)) < 1 << 12


def test_copies_of_a_gpu_wait_for_what_was_given_to_it_before_and_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With streams and events that only write down what they are asked, in place of a GPU's."""
    said: list[str] = []

    class Stream:
        def __init__(self, name: str) -> None:
            self.name = name

        def wait_stream(self, other: Stream) -> None:
            said.append(f"{self.name} waits for {other.name}")

        def wait_event(self, event: Event) -> None:
            said.append(f"{self.name} waits for the event after {event.after}")

    class Event:
        after = ""

        def record(self, stream: Stream) -> None:
            self.after = stream.name

    @contextlib.contextmanager
    def on(stream: Stream) -> Iterator[None]:
        said.append(f"on {stream.name}")
        yield

    ops = Stream("ops")
    monkeypatch.setattr(host, "_STREAMS", {})
    monkeypatch.setattr(host, "_COPIED", {})
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream(f"copies {len(host._STREAMS)}"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: ops)
    monkeypatch.setattr(torch.cuda, "stream", on)
    gpu = torch.device("cuda", 0)
    source, there, back = (
        torch.arange(8),
        torch.zeros(8, dtype=torch.int64),
        torch.zeros(8, dtype=torch.int64),
    )
    host._copy(there, source, gpu, "to")
    host._wait(there, gpu)
    host._copy(back, there, gpu, "from")
    host._wait(back, gpu)
    host._wait(back, gpu)  # nothing is left to wait for
    assert torch.equal(back, source)
    assert said == [
        "copies 0 waits for ops",
        "on copies 0",
        "ops waits for the event after copies 0",
        "copies 1 waits for ops",
        "on copies 1",
        "ops waits for the event after copies 1",
    ]
