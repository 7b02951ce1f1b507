"""Training within a limit of memory: what PyTorch runs is what was planned, and gradients stay what they were."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
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
from compiling import DEVICES, QUIET, fresh, gradients, hold_to_plan, limit_evaluations  # noqa: F401  (a fixture of all)
from egrl_training.pytorch import plan as plans
from egrl_training.pytorch import times as timing
from egrl_training.pytorch.asked import Limit, size_of
from egrl_training.pytorch.backend import PlannedBackend
from egrl_training.pytorch.capture import capture_joint
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.partition import Cut, partition
from egrl_training.pytorch.peak import peak_of
from egrl_training.pytorch.times import Times
from egrl_training.simulator.device import Device
from egrl_training.simulator.problem import TrainingProblem
from egrl_training.steps.json_file import to_json
from egrl_training.steps.load import load_training
from egrl_training.steps.step import TrainingStep
from workloads.errors import InputError

CPU = torch.device("cpu")
pytestmark = QUIET


class Net(nn.Module):
    """Layers with dropout, the loss as the output."""

    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        parts = (part for _ in range(layers) for part in (nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.2)))
        self.layers = nn.Sequential(*parts)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(self.layers(x), y)


def net(layers: int = 3) -> tuple[Net, tuple[torch.Tensor, ...]]:
    """A small network with its inputs."""
    torch.manual_seed(0)
    return Net(layers), (torch.randn(256, 64), torch.randn(256, 64))


def compiled(
    model: Callable[..., Any], backend: str, keep: Collection[str], seen: list[Any]
) -> Callable[..., Any]:
    """The model compiled so that the values of these names are kept; `seen` gets its joint graph."""

    def planner(joint: JointGraph) -> Cut:
        seen.append(joint)
        return Cut(joint.positions(keep))

    planned = PlannedBackend(backend, planner, "net", False)
    return torch.compile(model, backend=planned, dynamic=False)


def plans_of(step: TrainingStep) -> dict[str, list[str]]:
    """Some plans, by name: the names of what is kept."""
    names = [step.values[number].name for number in step.candidates]
    rng = np.random.default_rng(0)
    some = [name for name in names if rng.random() < 0.5]
    return {"all": names, "some": some, "third": names[::3], "none": []}


def simulated(step: TrainingStep, keep: Collection[str]) -> int:
    """The peak of a plan without what is there before the step, in bytes."""
    problem = TrainingProblem(step, Device("all", memory_fraction=1.0))
    mapping = np.array([[name in keep] for name in problem.space.nodes], np.int16)
    given = sum(value.size_bytes for value in step.values if value.role in ("parameter", "input"))
    return int(problem.peak_bytes(mapping[None])[0]) - given


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_and_peaks_are_as_planned(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    chosen = network(name, small=True, device=device)
    state = {key: value.clone() for key, value in chosen.model.state_dict().items()}
    step = Times({}).measure(capture_joint(chosen.model, *chosen.inputs)).step
    chosen.model.load_state_dict(state)
    wanted = gradients(chosen.model, chosen.model, chosen.inputs)
    for keep in plans_of(step).values():
        torch._dynamo.reset()
        chosen.model.load_state_dict(state)
        function = compiled(chosen.model, "aot_eager", keep, [])
        hold_to_plan(chosen.model, function, chosen.inputs, wanted, simulated(step, keep))


def test_nothing_random_runs_twice() -> None:
    model, inputs = net()
    seen: list[JointGraph] = []
    found: list[Any] = []
    from egrl_training.pytorch import backend

    original = backend.partition
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            backend, "partition", lambda joint, cut: found.append(original(joint, cut)) or found[-1]
        )
        compiled(model, "aot_eager", [], seen)(*inputs).backward()
    random = [op.name for op in seen[0].step.ops if not op.recomputable]
    forward, backward = ({node.name for node in module.graph.nodes} for module in found[0])
    assert len(random) == 3
    assert forward >= set(random)
    assert backward.isdisjoint(random)


def test_attention_without_dropout_may_run_twice() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x).sum()

    step = capture_joint(attend, torch.randn(2, 4, 16, 16, requires_grad=True)).step
    attention = [op for op in step.ops if "attention" in op.kind and op.phase == "forward"]
    assert [op.recomputable for op in attention] == [True]


def test_attention_whose_results_are_kept_does_not_run_again() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x).sum()

    joint = capture_joint(attend, torch.randn(2, 4, 16, 16, requires_grad=True))
    _, backward = partition(joint, Cut(joint.step.candidates))
    assert not [
        node for node in backward.graph.nodes if "attention" in node.name and "backward" not in node.name
    ]


@pytest.mark.slow
def test_a_limit_is_kept(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_evaluations(monkeypatch, 420)
    model, inputs = net()
    with training.memory_limit(fraction=0.85, method="annealing", quiet=True) as made:
        step = torch.compile(model, backend="aot_eager")
    step(*inputs).backward()
    assert "estimated" not in caplog.text
    model.zero_grad()
    held = sum(tensor.nbytes for tensor in (*model.parameters(), *inputs))
    peak = peak_of(lambda: step(*inputs).backward(), CPU) + held
    assert len(made) == 1
    assert peak <= made[0].limit_bytes < made[0].all_peak_bytes
    assert made[0].peak_bytes == pytest.approx(peak, rel=0.01)
    assert peak <= made[0].peak_bytes


@pytest.mark.parametrize("cut", [torch.chunk, torch.unsafe_chunk])
def test_chunks_lie_in_the_memory_of_what_they_are_cut_from(cut: Callable[..., Any]) -> None:
    """`nn.GRUCell` uses the second, which does not say so."""
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 256), torch.randn(256, 64)

    def step(x: torch.Tensor) -> torch.Tensor:
        a, b = cut(layer(x), 2, 1)
        return (a * b.sigmoid()).mean()

    with training.memory_limit("1 GiB", quiet=True) as made:
        function = torch.compile(step, backend="aot_eager")
    function(x).backward()
    layer.zero_grad()
    peak = peak_of(lambda: function(x).backward(), CPU) + sum(t.nbytes for t in (*layer.parameters(), x))
    assert peak <= made[0].peak_bytes <= peak + 100


def test_enough_memory_keeps_everything(capsys: pytest.CaptureFixture[str]) -> None:
    model, inputs = net()
    with training.memory_limit("1 GiB") as made:
        step = torch.compile(model, backend="aot_eager")
    step(*inputs)
    assert made[0].seconds == made[0].all_seconds
    assert "within the limit with every value kept" in capsys.readouterr().err


@pytest.mark.slow
def test_too_little_memory_is_an_error_that_names_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_evaluations(monkeypatch, 210)
    model, inputs = net()
    with training.memory_limit("100 KiB", method="annealing", quiet=True):
        step = torch.compile(model, backend="aot_eager")
    with pytest.raises(Exception, match=r"expected a limit of at least \d+ bytes") as caught:
        step(*inputs)
    assert "linear" in str(caught.value) or "mse" in str(caught.value) or "dropout" in str(caught.value)


def test_outside_the_context_torch_compiles_as_before() -> None:
    before = torch.compile
    with training.memory_limit("1 GiB"):
        assert torch.compile is not before
    assert torch.compile is before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected one of limit, fraction and plan"),
        ({"limit": "1 GiB", "fraction": 0.5}, "expected one of limit, fraction and plan"),
        ({"limit": "many"}, "limit: expected bytes"),
        ({"limit": 0}, "limit: expected bytes"),
        ({"limit": "1e400 GiB"}, "limit: expected bytes"),
        ({"limit": 10**30}, "limit: expected bytes"),
        ({"fraction": 1.5}, "fraction: expected a number from 1e-06 to 1"),
        ({"fraction": True}, "fraction: expected a number"),
        ({"fraction": 1e-300}, "fraction: expected a number"),
        ({"limit": 1, "method": 3}, "method: expected a name, found 3"),
        ({"limit": 1, "save": "a\0b"}, "save: expected a file in a folder"),
        ({"limit": 1, "save": 3}, "save: expected a file in a folder"),
        ({"limit": 1, "seconds": float("nan")}, "seconds: expected"),
        ({"limit": 1, "method": "nobody"}, "nobody"),
        ({"plan": "nowhere.json"}, "nowhere.json"),
        ({"fraction": "half"}, "fraction: expected a number"),
        ({"limit": 1, "seconds": "x"}, "seconds: expected a number"),
        ({"limit": 1, "reserved": "much"}, "reserved: expected bytes"),
        ({"limit": 1, "save": "/nowhere/plan.json"}, "save: expected a file in a folder"),
    ],
)
def test_wrong_arguments_end_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught, training.memory_limit(**options):
        pass
    assert "\n" not in str(caught.value)


def test_sizes_have_units() -> None:
    assert size_of("6 GiB") == 6 * 2**30
    assert size_of("1.5kb") == 1500
    assert size_of(7) == 7
    for wrong in ("7", "60 GB/s", "2e9", "0 B", "six GiB"):
        with pytest.raises(InputError, match="limit: expected bytes"):
            size_of(wrong)


def test_another_backend_ends_in_one_line() -> None:
    model, _ = net()
    with training.memory_limit("1 GiB"), pytest.raises(InputError, match="expected inductor or aot_eager"):
        torch.compile(model, backend="eager")


def test_there_is_one_context_at_a_time_and_nothing_of_it_stays() -> None:
    original = torch.compile
    with (
        training.memory_limit("1 GiB"),
        pytest.raises(InputError, match="expected one context at a time"),
        training.memory_limit("2 GiB"),
    ):
        pass
    with ThreadPoolExecutor(1) as pool, training.memory_limit("1 GiB"):
        other = pool.submit(training.memory_limit("1 GiB").__enter__)
        assert "expected one context at a time" in str(other.exception(60))
    assert torch.compile is original
    with training.memory_limit("1 GiB"):
        assert torch.compile is not original


def test_another_version_of_torch_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "1.13.1")
    with (
        pytest.raises(InputError, match=r"torch: expected a version from .*, found 1\.13\.1"),
        training.memory_limit("1 GiB"),
    ):
        pass


@pytest.mark.slow
def test_sizes_that_change_are_cut_as_pytorch_does(capsys: pytest.CaptureFixture[str]) -> None:
    model, inputs = net()
    with training.memory_limit("1 GiB", quiet=True) as made:
        step = torch.compile(model, backend="aot_eager", dynamic=True)
    ours = gradients(model, step, inputs)
    eager = gradients(model, model, inputs)
    assert not made
    assert "sizes are not fixed" in capsys.readouterr().err
    assert all(torch.allclose(a, b) for a, b in zip(ours, eager, strict=True))


def test_a_graph_without_a_choice_is_cut_as_pytorch_does(capsys: pytest.CaptureFixture[str]) -> None:
    linear = nn.Linear(4, 1)
    with training.memory_limit("1 MiB", quiet=True) as made:
        step = torch.compile(linear, backend="aot_eager")
    step(torch.randn(2, 4)).sum().backward()
    assert linear.weight.grad is not None
    assert not made
    assert "no value that could be computed again" in capsys.readouterr().err


def test_sparse_gradients_are_cut_as_pytorch_does(capsys: pytest.CaptureFixture[str]) -> None:
    embed = nn.Embedding(20, 8, sparse=True)
    with training.memory_limit("1 GiB", quiet=True):
        step = torch.compile(lambda i: embed(i).square().mean(), backend="aot_eager")
    step(torch.arange(10)).backward()
    assert embed.weight.grad.is_sparse
    assert "is a sparse tensor" in capsys.readouterr().err


@pytest.mark.slow
def test_methods_that_change_the_number_of_threads_may_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_evaluations(monkeypatch, 63)
    model, inputs = net()
    with training.memory_limit(fraction=0.9, method="ea", quiet=True) as made:
        step = torch.compile(model, backend="aot_eager")
    step(*inputs).backward()
    assert len(made) == 1


@pytest.mark.slow
def test_a_plan_that_names_other_values_is_refused(tmp_path: Path) -> None:
    model, inputs = net()
    file = tmp_path / "plan.json"
    with training.memory_limit("1 GiB", quiet=True, save=file):
        torch.compile(model, backend="aot_eager")(*inputs)
    document = json.loads(file.read_text())
    document["plans"][0]["keep"] = ["nothing"]
    file.write_text(json.dumps(document))
    torch._dynamo.reset()
    with training.memory_limit(plan=file, quiet=True):
        step = torch.compile(model, backend="aot_eager")
    with pytest.raises(Exception, match="found 'nothing'"):
        step(*inputs)


@pytest.mark.slow
def test_a_plan_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_evaluations(monkeypatch, 210)
    model, inputs = net()
    file = tmp_path / "plan.json"
    with training.memory_limit(fraction=0.85, method="annealing", quiet=True, save=file) as made:
        torch.compile(model, backend="aot_eager")(*inputs)
    assert plans.read(str(file)) == list(made)
    torch._dynamo.reset()
    with training.memory_limit(plan=file, quiet=True) as again:
        step = torch.compile(model, backend="aot_eager")
    model.zero_grad()
    step(*inputs)
    assert again == made


@pytest.mark.slow
def test_a_plan_says_what_it_left_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_evaluations(monkeypatch, 210)
    limit = Limit(None, 0.9, 0, "annealing", 20.0, 0)
    model, inputs = net()
    step = training.capture(model, *inputs)
    plan, _ = limit.plan(step, margin=0.05)
    assert plan.margin == 0.05
    assert plan.peak_bytes <= 0.95 * plan.limit_bytes + 1
    assert plan.limit_bytes == pytest.approx(0.9 * plan.all_peak_bytes, abs=2)
    file = tmp_path / "plan.json"
    file.write_text(plans.dumps([plan]))
    assert plans.read(str(file)) == [plan]


@pytest.mark.slow
def test_a_plan_of_another_graph_is_refused(tmp_path: Path) -> None:
    model, inputs = net()
    file = tmp_path / "plan.json"
    with training.memory_limit("1 GiB", quiet=True, save=file):
        torch.compile(model, backend="aot_eager")(*inputs)
    other, inputs = net(layers=4)
    with training.memory_limit(plan=file, quiet=True):
        step = torch.compile(other, backend="aot_eager")
    with pytest.raises(Exception, match="expected the graph"):
        step(*inputs)


@pytest.mark.parametrize(
    "change",
    [
        {"keep": 1},
        {"keep": [1]},
        {"limit_bytes": "x"},
        {"more": 1},
        {"seconds": 10**400},
        {"all_peak_bytes": -1},
        {"name": "\x1b[31m"},
    ],
)
def test_a_damaged_plan_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    plan = plans.Plan("net", "ab", ("a",), 10, 9, 1.0, 12, 0.5)
    document = json.loads(plans.dumps([plan]))
    document["plans"][0] |= change
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"plans\[0\]"):
        plans.read(str(tmp_path / "plan.json"))


def test_plans_say_what_they_cost() -> None:
    plan = plans.Plan("net", "ab", (), 2**31, 2**31, 1.06, 4 * 2**30, 1.0, 1.05)
    assert (
        str(plan)
        == "net: peak 4 GiB with every value kept -> 2 GiB, step +6.0%, within 1.0% of the best possible"
    )
    assert str(replace(plan, bound_seconds=1.06)).endswith(", the best possible")
    assert str(replace(plan, bound_seconds=0.0)).endswith("+6.0%")


def test_ops_are_timed_once_by_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    monkeypatch.setattr(timing, "ROUNDS", 1)
    original = timing._measured
    monkeypatch.setattr(timing, "_measured", lambda node: measured.append(str(node.target)) or original(node))
    model, inputs = net(layers=6)
    joint = Times({}).measure(capture_joint(model, *inputs))
    assert measured.count("aten.gelu.default") == 1
    gelus = [op.seconds for op in joint.step.ops if op.kind == "aten.gelu.default"]
    assert len(gelus) == 6
    assert len(set(gelus)) == 1
    assert gelus[0] > 0


def test_timing_ops_leaves_random_numbers_as_they_were() -> None:
    model, inputs = net()
    joint = capture_joint(model, *inputs)
    before = torch.get_rng_state()
    Times({}).measure(joint)
    assert torch.equal(torch.get_rng_state(), before)


def test_eager_mode_keeps_what_the_plan_keeps() -> None:
    model, inputs = net()
    step = training.capture(model, *inputs)
    problem = TrainingProblem(step, Device("all", memory_fraction=1.0))
    mapping = np.array([["addmm" in name] for name in problem.space.nodes], np.int16)
    context = training.checkpoint_contexts(step, plans.plan_of(problem, mapping))

    def checkpointed(*given: torch.Tensor) -> torch.Tensor:
        return checkpoint(model, *given, use_reentrant=False, context_fn=context)

    ours, eager = gradients(model, checkpointed, inputs), gradients(model, model, inputs)
    assert all(torch.equal(a, b) for a, b in zip(ours, eager, strict=True))
    counted: list[str] = []

    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            counted.append(str(func))
            return func(*args, **(kwargs or {}))

    loss = checkpointed(*inputs)
    with Count():
        loss.backward()
    assert counted.count("aten.addmm.default") == 0
    assert counted.count("aten.gelu.default") == 3


def test_steps_survive_their_file(tmp_path: Path) -> None:
    model, inputs = net()
    step = training.capture(model, *inputs)
    (tmp_path / "net.json").write_text(to_json(step))
    assert load_training(str(tmp_path / "net.json")) == step
