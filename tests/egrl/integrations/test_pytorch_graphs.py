"""A function of several graphs, since PyTorch breaks it: what each leaves to the others within a limit of memory."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from types import MethodType, SimpleNamespace

import pytest
import torch
from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from torch import nn

import egrl.integrations.pytorch as training
from egrl.integrations.pytorch import plan as plans
from egrl.integrations.pytorch.limit import tensors_of
from egrl.integrations.pytorch.peak import peak_of

CPU = torch.device("cpu")
pytestmark = [*QUIET, pytest.mark.slow]


def test_what_earlier_graphs_hold_is_said() -> None:
    first, second = (nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)) for _ in range(2))
    inputs = torch.randn(512, 64)

    def broken(x: torch.Tensor) -> torch.Tensor:
        x = first(x)
        torch._dynamo.graph_break()
        return second(x).sum()

    with training.memory_limit("600 KiB", seconds=1, quiet=True):
        step = torch.compile(broken, backend="aot_eager")
    with pytest.raises(
        Exception,
        match=r"Other graphs of the same function hold .* of this, those before it as they were planned",
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
    with training.memory_limit("1250 KiB", seconds=2, quiet=True) as made:
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
    found = [len(tensors_of(case)) for case in cases]
    assert found == [2, 2, 2, 0, 5]


def test_the_peak_of_a_given_plan_is_not_taken_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, inputs = (
        nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(4))),
        torch.ones(64, 32),
    )
    file = tmp_path / "plan.json"
    with training.memory_limit(fraction=0.9, seconds=1, quiet=True, save=file) as made:
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
