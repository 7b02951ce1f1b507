"""A function of several graphs, since PyTorch breaks it: what each leaves to the others within a limit of memory."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from types import MethodType, SimpleNamespace

import pytest
import torch
from torch import nn

import egrl_training as training
from compiling import QUIET, fresh, gradients  # noqa: F401  (a fixture of all)
from egrl_training.pytorch import plan as plans
from egrl_training.pytorch.peak import peak_of
from egrl_training.pytorch.runs import Graph, OpenRuns
from egrl_training.pytorch.unread import held
from gate import gate
from workloads.errors import InputError

CPU = torch.device("cpu")
pytestmark = [*QUIET, pytest.mark.slow]


@pytest.mark.slow
def test_what_earlier_graphs_hold_is_said() -> None:
    first, second = (nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)) for _ in range(2))
    inputs = torch.randn(512, 64)

    def broken(x: torch.Tensor) -> torch.Tensor:
        x = first(x)
        torch._dynamo.graph_break()
        return second(x).sum()

    with training.memory_limit("600 KiB", seconds=60, quiet=True):
        step = torch.compile(broken, backend="aot_eager")
    with pytest.raises(
        Exception,
        match=r"Other graphs of the step hold .* of the limit; those before this one were planned when",
    ):
        step(inputs)


def test_of_several_graphs_each_leaves_room_for_what_others_hold() -> None:
    torch.manual_seed(0)
    first = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 32))
    second = nn.Sequential(
        nn.Linear(32, 1024), nn.GELU(), nn.Linear(1024, 32)
    )  # its parameters are most of it
    x = torch.randn(256, 32)

    def broken(x: torch.Tensor) -> torch.Tensor:
        x = first(x).mean(0, keepdim=True)
        torch._dynamo.graph_break()
        return second(x).sum()

    parameters = [*first.parameters(), *second.parameters()]
    there = sum(t.nbytes for t in (*parameters, x))
    with training.memory_limit("1250 KiB", seconds=60, quiet=True) as made:
        step = torch.compile(broken, backend="aot_eager")
    step(x).backward()
    for parameter in parameters:
        parameter.grad = None
    measured = there + peak_of(lambda: step(x).backward(), CPU)
    assert len(made) == 2
    assert made[0].peak_bytes < made[0].all_peak_bytes, (
        "the first graph alone would fit with every value kept"
    )
    assert measured <= 1250 * 1024


def test_what_a_graph_leaves_to_the_next_is_not_taken_for_results(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)

    def broken(x: torch.Tensor) -> torch.Tensor:
        x = first(x).sin()
        torch._dynamo.graph_break()
        x = second(x).sin()
        torch._dynamo.graph_break()
        return x.sin().sum()

    with training.memory_limit(fraction=1.0, seconds=60) as made:
        step = torch.compile(broken, backend="aot_eager")
    step(torch.randn(16, 8)).backward()
    said = capsys.readouterr().err
    assert len(made) >= 2
    assert said.count("PyTorch breaks it into several graphs, and no plan knows what runs between them") == 1
    assert "compile both together" not in said, "all of it is compiled"


class Uncompiled(nn.Module):
    """Runs in eager mode, and calls what is compiled by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(Layer(), nn.Linear(64, 64))

    @torch.compiler.disable(recursive=False)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).square().mean()


@pytest.mark.parametrize("kind", ["before the first graph", "around the graphs", "in a function"])
def test_what_runs_beside_the_only_graph_is_said_too(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    eager, uncompiled = torch.compiler.disable(nn.Linear(64, 64)), Uncompiled()

    def broken(x: torch.Tensor) -> torch.Tensor:
        return uncompiled(x) if kind == "in a function" else eager(x).square().mean()

    with training.memory_limit(fraction=1.0, seconds=60) as made:
        step = torch.compile(uncompiled if kind == "around the graphs" else broken, backend="aot_eager")
    step(torch.randn(16, 64)).backward()
    assert len(made) == 1
    assert "PyTorch breaks it into several graphs" in capsys.readouterr().err


def test_one_graph_is_no_part(capsys: pytest.CaptureFixture[str]) -> None:
    """However it is called: as a module, a function that wraps others, a method or a partial."""
    model = Layer()
    model.register_forward_hook(lambda module, given, result: result * 2)

    class Trainer:
        def step(self, x: torch.Tensor) -> torch.Tensor:
            return model(x).sum()

    trainer = Trainer()

    @functools.wraps(Trainer.step)
    def wrapped(x: torch.Tensor) -> torch.Tensor:
        return trainer.step(x)

    functions = [
        Layer(),
        wrapped,
        trainer.step,
        functools.partial(Trainer.step, trainer),
        lambda x: wrapped(x),
    ]
    for function in functions:
        torch._dynamo.reset()
        with training.memory_limit(fraction=1.0, seconds=60) as made:
            step = torch.compile(function, backend="aot_eager")
        step(torch.randn(16, 64)).sum().backward()
        assert len(made) == 1
    assert "several graphs" not in capsys.readouterr().err


class Layer(nn.Module):
    """Holds much more for the backward pass than it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Wide(nn.Module):
    """Has more parameters than values, for few samples."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(self.inner(x)).tanh()


class Layers(nn.Module):
    """Layers that PyTorch compiles one by one, as one graph: a break within a loop leaves the loop to Python."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            torch._dynamo.graph_break()
        return x.square().mean()


class CompiledFunctionOfTest(torch.autograd.Function):
    """Called as AOTAutograd calls its own."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return 2 * gradient


CompiledFunctionOfTest.__name__ = "CompiledFunction"


def layers_and_input() -> tuple[Layers, torch.Tensor, int, int]:
    """Eight layers, an input, the peak of eager mode and what is there before the step."""
    torch.manual_seed(0)
    model, x = Layers(8), torch.randn(1024, 64, requires_grad=True)
    there = sum(t.nbytes for t in (*model.parameters(), x))
    model(x).backward()
    cleared(model, x)
    return model, x, there + peak_of(lambda: model(x).backward(), CPU), there


def cleared(model: nn.Module, x: torch.Tensor) -> None:
    model.zero_grad()
    x.grad = None


def test_a_graph_that_runs_several_times_is_no_silent_breach(capsys: pytest.CaptureFixture[str]) -> None:
    model, x, whole, _ = layers_and_input()
    with training.memory_limit(int(0.6 * whole), seconds=60, quiet=True) as made:
        step = torch.compile(model, backend="aot_eager")
    step(x).backward()
    step(x).backward()
    error = capsys.readouterr().err
    assert len(made) == 1
    assert error.count("above the limit of") == 1
    assert "or plan for 8 runs of one: memory_limit(..., runs=8)" in error


def test_what_is_reserved_is_no_room_for_open_runs(capsys: pytest.CaptureFixture[str]) -> None:
    model, x, whole, _ = layers_and_input()
    with training.memory_limit(int(2.6 * whole), reserved=2 * whole, seconds=60, quiet=True):
        step = torch.compile(model, backend="aot_eager")
    step(x).backward()
    assert "above the limit of" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_gradients_of_runs_that_have_ended_take_room_too() -> None:
    """Parameters and their gradients are most of these layers: what is kept hardly counts."""
    layers = [Wide() for _ in range(8)]
    least = 2 * sum(parameter.nbytes for layer in layers for parameter in layer.parameters())
    with training.memory_limit(int(0.95 * least), runs=8, seconds=60, quiet=True):
        compiled = [torch.compile(layer, backend="aot_eager") for layer in layers]
    with pytest.raises(training.MemoryLimitError, match="within which 8 runs of one graph fit"):
        compiled[0](torch.randn(8, 256, requires_grad=True))
    with training.memory_limit(int(1.4 * least), runs=8, seconds=60, quiet=True):
        compiled = [torch.compile(layer, backend="aot_eager") for layer in layers]
    x = torch.randn(8, 256, requires_grad=True)

    def step() -> None:
        functools.reduce(lambda value, layer: layer(value), compiled, x).sum().backward()

    step()
    for layer in layers:
        layer.zero_grad()
    assert least // 2 + peak_of(step, CPU) <= 1.4 * least


def test_a_run_ends_though_its_first_result_is_a_view() -> None:
    runs = OpenRuns(lambda text: None, 1)
    graph = Graph("net", "", 1, 0)

    def compiled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = CompiledFunctionOfTest.apply(x)
        return y.view(-1), y.sum()

    _, loss = runs.counted(compiled, graph)(torch.ones(2, 2, requires_grad=True))
    assert graph.open == 1
    loss.backward()
    assert graph.open == 0


@pytest.mark.parametrize("each_by_itself", gate([False, True], (True,)))
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.exhaustive)])
def test_told_how_often_a_graph_runs_a_plan_leaves_room_for_all(
    backend: str, each_by_itself: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    model, x, whole, there = layers_and_input()
    wanted = gradients(model, model, [x])
    cleared(model, x)
    limit = int(0.6 * whole)
    with training.memory_limit(limit, seconds=60, quiet=True, runs=8) as made:
        if each_by_itself:
            compiled = nn.ModuleList(torch.compile(layer, backend=backend) for layer in model.layers)

            def step(x: torch.Tensor) -> torch.Tensor:
                for layer in compiled:
                    x = layer(x)
                return x.square().mean()
        else:
            step = torch.compile(model, backend=backend)
    for ours, eager in zip(gradients(model, step, [x]), wanted, strict=True):
        assert torch.linalg.norm(ours - eager) <= 1e-5 * torch.linalg.norm(eager)
    cleared(model, x)
    measured = there + peak_of(lambda: step(x).backward(), CPU)
    assert measured <= limit
    assert made[0].all_peak_bytes == pytest.approx(whole, rel=0.35)
    assert made[0].peak_bytes < made[0].all_peak_bytes
    assert "above the limit" not in capsys.readouterr().err


@pytest.mark.exhaustive
def test_more_layers_than_pytorch_has_backends_for_are_all_planned_after_a_validation_too() -> None:
    torch.manual_seed(0)
    model, x = Layers(12), torch.randn(1024, 64, requires_grad=True)
    wanted = gradients(model, model, [x])
    cleared(model, x)
    there = sum(t.nbytes for t in (*model.parameters(), x))
    model(x).backward()
    cleared(model, x)
    limit = int(0.6 * (there + peak_of(lambda: model(x).backward(), CPU)))
    cleared(model, x)
    with training.memory_limit(limit, seconds=60, quiet=True, runs=12) as made:
        compiled = [torch.compile(layer, backend="aot_eager") for layer in model.layers]

    def step(x: torch.Tensor) -> torch.Tensor:
        return functools.reduce(lambda value, layer: layer(value), compiled, x).square().mean()

    with torch.no_grad():
        step(x)
    for ours, eager in zip(gradients(model, step, [x]), wanted, strict=True):
        assert torch.linalg.norm(ours - eager) <= 1e-5 * torch.linalg.norm(eager)
    cleared(model, x)
    assert there + peak_of(lambda: step(x).backward(), CPU) <= limit
    assert len(made) == 1


def test_modules_of_one_class_with_other_sizes_are_planned_for_themselves() -> None:
    one, other = Wide(), Wide()
    other.inner = nn.Linear(256, 64)
    with training.memory_limit("1 GiB", seconds=60, quiet=True) as made:
        compiled = [torch.compile(each, backend="aot_eager") for each in (one, other)]
    x = torch.randn(8, 256)
    for each in compiled:
        each(x).sum().backward()
    assert len({plan.graph for plan in made}) == 2


def test_room_enough_for_all_runs_keeps_every_value() -> None:
    layer = Wide()
    with training.memory_limit("1 GiB", runs=2, seconds=60, quiet=True) as made:
        step = torch.compile(layer, backend="aot_eager")
    step(torch.randn(512, 256)).mean().backward()
    (plan,) = made
    assert plan.peak_bytes == plan.all_peak_bytes < plan.limit_bytes
    assert plan.seconds == plan.all_seconds


def test_runs_that_have_ended_hold_nothing() -> None:
    """A graph that was planned before, whose step is over, leaves the whole limit to another."""
    first, second = Layer(), Layer()
    x = torch.randn(1024, 64)
    with training.memory_limit("9 MiB", seconds=60, quiet=True) as made:
        one = torch.compile(lambda x: first(x).square().mean(), backend="aot_eager")
        other = torch.compile(lambda x: second(x).square().sum(), backend="aot_eager")
    one(x).backward()
    kept = one(x)
    del kept  # a run that nobody asks for the gradients of is over, too
    other(x).backward()
    assert made[0].peak_bytes == pytest.approx(made[1].peak_bytes, rel=0.01)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "two", 10**9])
def test_wrong_numbers_of_runs_end_in_one_line(wrong: object) -> None:
    expected = pytest.raises(InputError, match=r"^runs: expected a whole number from 1 to")
    with expected, training.memory_limit("1 GiB", runs=wrong):  # type: ignore[arg-type]
        pass


def test_the_tensors_of_what_is_compiled_are_found_by_its_names() -> None:
    tied, other = nn.Linear(4, 4), nn.BatchNorm1d(4)
    tied.again = tied.weight
    trainer = SimpleNamespace(model=other)
    cases = [
        tied,
        tied.forward,
        lambda x: tied(x),
        functools.partial(tied),
        MethodType(lambda self, x: self.model(x), trainer),
    ]
    found = [len({tensor.data_ptr() for _, tensor in held(case)}) for case in cases]
    assert found == [2, 2, 2, 2, 5]


def test_the_peak_of_a_given_plan_is_not_taken_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, inputs = (
        nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(4))),
        torch.ones(64, 32),
    )
    file = tmp_path / "plan.json"
    with training.memory_limit(fraction=0.9, seconds=60, quiet=True, save=file) as made:
        torch.compile(lambda x: model(x).sum(), backend="aot_eager")(inputs)
    everything = [replace(made[0], peak_bytes=0, limit_bytes=made[0].peak_bytes // 2)]
    for given, told in ((made, False), (everything, True)):
        torch._dynamo.reset()
        file.write_text(plans.dumps(given))
        capsys.readouterr()
        with training.memory_limit(plan=file):
            step = torch.compile(lambda x: model(x).sum(), backend="aot_eager")
        step(inputs)
        assert ("above its limit" in capsys.readouterr().err) == told
