"""What `memory_limit` says: names of modules, hints, and what is wrong at once."""

from __future__ import annotations

import copy
import io
import re
from typing import Any

import pytest
import torch

import egrl_training as training
from compiling import QUIET, fresh, limit_evaluations  # noqa: F401  (a fixture of all)
from egrl_training.pytorch import joint
from egrl_training.pytorch.capture import capture_joint
from workloads.errors import InputError

pytestmark = QUIET


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Net(torch.nn.Module):
    def __init__(self, loss: bool = True) -> None:
        super().__init__()
        self.blocks, self.loss = torch.nn.ModuleList([Block(), Block()]), loss

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.square().mean() if self.loss else x


def test_ops_know_their_module() -> None:
    model = Net()
    step = capture_joint(model, torch.randn(8, 16)).step
    known = {op.module for op in step.ops}
    assert {"blocks.0", "blocks.0.up", "blocks.1.down"} <= known
    assert known <= {"", *(name for name, _ in model.named_modules())}
    assert any(op.module for op in step.ops if op.phase == "backward")


@pytest.mark.parametrize(
    "path",
    ["L['self'].blocks.0.up", "L['self']._modules['blocks']._modules['0']._modules['up']", "blocks.0.up"],
)
def test_a_module_has_one_name_whatever_dynamo_calls_it(path: str) -> None:
    node = torch.fx.Graph().placeholder("x")
    node.meta["nn_module_stack"] = {"up": (path, torch.nn.Linear)}
    assert joint._module(node) == "blocks.0.up"


@pytest.mark.slow
def test_too_little_memory_names_tensors_by_their_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_evaluations(monkeypatch, 210)
    with training.memory_limit("20 KiB", method="annealing", quiet=True):
        step = torch.compile(Net(), backend="aot_eager")
    with pytest.raises(Exception, match=r"expected a limit") as caught:
        step(torch.randn(64, 16))
    assert re.search(r"\w+ of blocks\.[01](\.\w+)? \([\d.]+ KiB\)", str(caught.value))


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "hinted"), [(True, False), (False, True)])
def test_large_results_are_said_to_be_used_outside(
    loss: bool, hinted: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_evaluations(monkeypatch, 210)
    model: Any = Net(loss)
    with training.memory_limit(fraction=0.95, method="annealing"):
        model.compile(backend="aot_eager")
    model(torch.randn(256, 16)).sum().backward()
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("egrl: Net: peak")
    assert any("it returns 16 KiB: what is computed of this outside" in line for line in said) == hinted


def test_copies_of_a_compiled_module_are_planned_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    """As an average of a model's weights is; PyTorch forgets in copies that sizes are fixed."""
    with training.memory_limit(fraction=1.0, seconds=60, quiet=True) as made:
        module = torch.compile(Net(), backend="aot_eager")
    copied = copy.deepcopy(copy.deepcopy(module))
    for rows in (4, 8, 6):
        copied(torch.randn(rows, 16)).sum().backward()
    assert len(made) == 3
    assert "sizes are not fixed" not in capsys.readouterr().err


@pytest.mark.slow
def test_what_pytorch_leaves_uncompiled_is_said_once_and_what_it_compiles_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recurrent, x = torch.nn.LSTM(16, 16, batch_first=True), torch.randn(4, 5, 16)
    with training.memory_limit("1 GiB") as made:
        module = torch.compile(recurrent, backend="aot_eager")
        function = torch.compile(lambda x: recurrent(x)[0].square().mean(), backend="aot_eager")
        planned = torch.compile(Net(), backend="aot_eager")
    for _ in range(2):
        module(x)[0].sum().backward()
        function(x).backward()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert all(line.endswith(": PyTorch compiles nothing of it, so that no limit holds") for line in said)
    planned(torch.randn(8, 16)).backward()
    assert "compiles nothing" not in capsys.readouterr().err
    assert len(made) == 1


@pytest.mark.slow
@pytest.mark.parametrize("as_module", [True, False])
def test_a_limit_that_nothing_keeps_to_ends_in_the_users_own_traceback(as_module: bool) -> None:
    net = Net()
    with training.memory_limit("1 KiB", seconds=60, quiet=True):
        step = torch.compile(net if as_module else lambda x: net(x), backend="aot_eager")
    with pytest.raises(training.MemoryLimitError, match=r"found 1024 bytes \(1 KiB\)") as caught:
        step(torch.randn(8, 16))
    assert len(caught.traceback) < 10


def test_that_nothing_was_compiled_within_the_context_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with training.memory_limit("1 GiB"):
        pass
    assert "nothing was compiled within memory_limit" in capsys.readouterr().err


@pytest.mark.slow
def test_that_pytorch_compiles_no_more_sizes_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with training.memory_limit(fraction=1.0, quiet=True) as made:
        step = torch.compile(Net(), backend="aot_eager")
    with torch._dynamo.config.patch(recompile_limit=2):
        for batch in (8, 4, 2):
            step(torch.randn(batch, 16)).backward()
    assert len(made) == 2
    assert capsys.readouterr().err.count("Net: compiled 2 times") == 1


def test_no_room_is_left_by_what_is_reserved() -> None:
    message = "reserved: expected less than the limit of 1 GiB, found 1 GiB"
    with pytest.raises(InputError, match=message), training.memory_limit("1 GiB", reserved="1 GiB"):
        pass


@pytest.mark.slow
def test_modules_that_pytorch_does_not_compile_end_in_one_line() -> None:
    with training.memory_limit("1 GiB", quiet=True) as made:
        with pytest.raises(InputError, match=r"Sequential.compile\(\): expected torch.compile\(model\)"):
            torch.nn.Sequential(torch.nn.Linear(16, 16)).compile(backend="aot_eager")
        model = Net()
        model.compile(backend="aot_eager")
    model(torch.randn(8, 16)).backward()
    assert len(made) == 1


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_fraction_of_less_than_a_byte_is_refused_as_any_that_is_too_small(backend: str) -> None:
    with training.memory_limit(fraction=1e-6, quiet=True):
        model = torch.compile(Net(), backend=backend)
    with pytest.raises(training.MemoryLimitError, match="found 1 bytes"):
        model(torch.randn(8, 16))


def test_a_context_may_be_entered_again() -> None:
    limit = training.memory_limit(fraction=1.0, quiet=True)
    with limit as first:
        torch.compile(Net(), backend="aot_eager")(torch.randn(8, 16)).backward()
    with limit as second:
        with pytest.raises(InputError, match="one context at a time"), limit:
            pass
        torch.compile(Net(), backend="aot_eager")(torch.randn(8, 16)).backward()
    assert len(first) == len(second) == 1


def test_a_compiled_module_from_a_file_says_that_it_has_no_limit(capsys: pytest.CaptureFixture[str]) -> None:
    with training.memory_limit(fraction=1.0, quiet=True) as made:
        compiled = torch.compile(Net(), backend="aot_eager")
    file, x = io.BytesIO(), torch.randn(8, 16)
    torch.save(compiled, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    torch.testing.assert_close(loaded(x), compiled(x))
    assert capsys.readouterr().err.count("files of compiled modules have no limit") == 1
    assert len(made) == 1


def test_random_numbers_of_lazy_layers_are_said_to_be_drawn_again(capsys: pytest.CaptureFixture[str]) -> None:
    lazy, x = torch.nn.Sequential(torch.nn.LazyLinear(4)), torch.randn(8, 16)
    with training.memory_limit(fraction=1.0):
        torch.compile(lazy, backend="aot_eager")
        lazy(x)
        torch.compile(lazy, backend="aot_eager")
    assert capsys.readouterr().err.count("lazy layers") == 1


class _ChangedByBothPasses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        ctx.seen = seen
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.seen.add_(1)
        return gradient * ctx.seen, None


@pytest.mark.parametrize("changed", [False, True])
def test_what_both_passes_change_and_a_function_reads_is_said(
    changed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    net, seen = Net(), torch.zeros(16)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = net(_ChangedByBothPasses.apply(x, seen))
        return loss * 1 if not changed else loss + seen.add_(1).sum() * 0

    with training.memory_limit(fraction=1.0):
        torch.compile(step, backend="aot_eager")(torch.randn(8, 16, requires_grad=True)).backward()
    said = capsys.readouterr().err
    assert said.count("both passes change a tensor of shape [16]") == changed, said


def test_modules_whose_names_are_none_of_python_s_are_called_as_they_are() -> None:
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inner = torch.nn.Sequential()
            inner.add_module("c d", torch.nn.Linear(8, 8))
            self.add_module("a<b", inner)
            self.add_module("0", torch.nn.Linear(8, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.get_submodule("0")(getattr(self, "a<b")(x)).sum()

    step = capture_joint(Odd(), torch.randn(2, 8)).step
    assert {op.module for op in step.ops if op.module} == {"a<b.c d", "0"}
