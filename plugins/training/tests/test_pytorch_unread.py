"""What modules hold and no op reads is in memory during the step: in plans, refusals, `fits` and step files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import egrl_training
from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl.cli.main import main
from egrl_training.pytorch.board import Board
from egrl_training.pytorch.capture import capture_joint
from egrl_training.pytorch.fit_report import ALL
from egrl_training.pytorch.limit import MemoryLimitError
from egrl_training.pytorch.no_data import without_data
from egrl_training.pytorch.optimizers import optimizer_bytes
from egrl_training.pytorch.peak import peak_of
from egrl_training.steps.load import load_training

pytestmark = QUIET
ROWS, WIDTH, SIDE = 32, 64, 300
UNREAD = 4 * SIDE * SIDE
"""Bytes of what no op reads."""


class Net(nn.Module):
    """The mean square of a layer; beside it something that no op reads."""

    def __init__(self, unread: str) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        if unread == "module":
            self.pooler = nn.Linear(SIDE, SIDE, bias=False)
        if unread == "parameter":
            self.spare = nn.Parameter(torch.zeros(SIDE, SIDE))
        if unread == "frozen weight":
            self.teacher = nn.Linear(SIDE, SIDE, bias=False).requires_grad_(False)
        if unread == "buffer":
            self.register_buffer("mask", torch.zeros(SIDE, SIDE))
        if unread == "attribute":
            self.table = torch.zeros(SIDE, SIDE)
        if unread == "list":
            self.tables = [{"of": torch.zeros(SIDE, SIDE)}]
        if unread == "object":
            self.cache = SimpleNamespace(rows=(torch.zeros(SIDE, SIDE),))
        if unread == "optimizer":
            self.spare = torch.optim.SGD([torch.zeros(SIDE, SIDE)])  # its state is outside the limit
        if unread == "view":
            self.register_buffer("mask", torch.zeros(SIDE, SIDE)[:2])
        if unread == "twice":
            self.pooler = nn.Linear(SIDE, SIDE, bias=False)
            self.tied = nn.Parameter(self.pooler.weight.detach()[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu().square().mean()


def planned(function: Any, *inputs: torch.Tensor, backend: str = "aot_eager", **limit: Any) -> int:
    """The peak in bytes of the first plan of a function that is compiled within a limit."""
    with egrl_training.memory_limit(**limit or {"fraction": 1.0}, quiet=True) as plans:
        torch.compile(function, backend=backend)(*inputs).backward()
    return plans[0].peak_bytes


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_peak_has_all_that_a_module_holds(backend):
    model, x = Net("module"), torch.randn(ROWS, WIDTH)
    said = planned(model, x, backend=backend)
    held = sum(tensor.nbytes for tensor in model.parameters()) + x.nbytes
    compiled = torch.compile(model, backend=backend)
    compiled(x).backward()
    model.zero_grad()
    assert said == pytest.approx(held + peak_of(lambda: compiled(x).backward(), x.device), rel=2e-3)


@pytest.mark.parametrize(
    "unread", ["parameter", "frozen weight", "buffer", "attribute", "list", "object", "view", "twice"]
)
def test_each_kind_counts_once_with_the_storage_that_it_shows(unread):
    x = torch.randn(ROWS, WIDTH)
    assert planned(Net(unread), x) - planned(Net("nothing"), x) == UNREAD
    assert Board(Net(unread), [{"x": x}], "aot_eager", 1).held_bytes == (
        Board(Net("nothing"), [x], "aot_eager", 1).held_bytes + UNREAD
    )


def test_what_an_optimizer_holds_is_its_own():
    x = torch.randn(ROWS, WIDTH)
    assert planned(Net("optimizer"), x) == planned(Net("nothing"), x)


def test_a_function_holds_what_its_modules_hold():
    model, x = Net("buffer"), torch.randn(ROWS, WIDTH)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return 2 * model(x)

    bare = Net("nothing")
    assert planned(loss, x) - planned(lambda x: 2 * bare(x), x) == UNREAD


def test_a_module_whose_parameters_are_handed_over_counts_once():
    """`functional_call`: the parameters are inputs of the graph."""
    model, x = Net("nothing"), torch.randn(ROWS, WIDTH)
    given = dict(model.named_parameters())

    def loss(given: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, given, (x,))

    with egrl_training.memory_limit(fraction=1.0, quiet=True) as plans:
        torch.compile(loss, backend="aot_eager")(given, x).backward()
    torch._dynamo.reset()
    assert plans[0].peak_bytes == planned(model, x)


def test_layers_that_are_alike_count_by_themselves_whichever_runs_first():
    layers, x = [Net("module"), Net("module")], torch.randn(ROWS, WIDTH)
    alone = planned(layers[0], x)
    torch._dynamo.reset()
    with egrl_training.memory_limit(fraction=1.0, quiet=True) as plans:
        compiled = [torch.compile(layer, backend="aot_eager") for layer in layers]
        compiled[1](x).backward()
        compiled[0](x).backward()
    assert [plan.peak_bytes for plan in plans] == [alone]


def test_what_a_later_graph_reads_is_not_counted_twice():
    """With a graph break the first graph sees what the second one reads as unread, the second only what none reads."""

    class Two(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.layer(x).relu()
            torch._dynamo.graph_break()
            return self.other(x).square().mean()

    def peaks(unread: str) -> list[int]:
        torch._dynamo.reset()
        model = Two(unread)
        model.other = nn.Linear(WIDTH, WIDTH)
        with egrl_training.memory_limit("1 GiB", quiet=True) as plans:
            torch.compile(model, backend="aot_eager")(torch.randn(ROWS, WIDTH)).backward()
        return [plan.peak_bytes for plan in plans]

    bare, held = peaks("nothing"), peaks("buffer")
    assert [more - less for less, more in zip(bare, held, strict=True)] == [UNREAD, UNREAD]


def test_it_is_named_where_it_is_counted_and_where_nothing_fits(capsys):
    x = torch.randn(ROWS, WIDTH)
    with egrl_training.memory_limit("1 MiB"):
        torch.compile(Net("buffer"), backend="aot_eager")(x).backward()
    assert "Net: counted, though no op reads 351.6 KiB (mask)" in capsys.readouterr().err
    with pytest.raises(MemoryLimitError, match=r"of which no op reads 351\.6 KiB \(pooler\.weight\)"):
        planned(Net("module"), x, limit="200 KiB")


def test_a_plan_file_is_for_the_graph_whatever_else_is_held(tmp_path):
    x, file = torch.randn(ROWS, WIDTH), tmp_path / "plan.json"
    first = planned(Net("nothing"), x, fraction=1.0, save=file)
    assert planned(Net("buffer"), x, plan=file) == first


def build(unread: str) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    with without_data():
        return Net(unread), (torch.randn(ROWS, WIDTH),)


def test_what_fits_has_it_too_and_names_it():
    bare, held = (egrl_training.fits(*build(unread), memory="1 GiB") for unread in ("nothing", "module"))
    for name, row in held.rows.items():
        assert row.peak_bytes - bare.rows[name].peak_bytes == UNREAD, name
    assert held.stepping_bytes - bare.stepping_bytes == UNREAD
    assert str(held.held[0]) == "351.6 KiB  pooler.weight [300, 300] float32, parameter"
    assert bare.optimizer == held.optimizer  # what has no gradient has no state
    assert not egrl_training.fits(*build("module"), memory="300 KiB").fits
    assert bare.rows[ALL].peak_bytes < 300 * 1024


def test_an_optimizer_has_no_state_of_what_gets_no_gradient():
    model = Net("module")
    trained = list(model.layer.parameters())
    two_moments = 2 * sum(each.nbytes for each in trained) + 4 * len(trained)
    assert optimizer_bytes(trained, torch.optim.AdamW(model.parameters())).state == two_moments
    answer = egrl_training.fits(
        model,
        [torch.randn(ROWS, WIDTH)],
        "1 GiB",
        optimizer=torch.optim.AdamW(model.parameters()),
    )
    assert answer.optimizer.state == two_moments


def test_a_step_file_has_it_as_parameters_that_no_op_reads(tmp_path):
    joint = capture_joint(Net("module"), torch.randn(ROWS, WIDTH))
    assert [(value.name, value.size_bytes) for value in joint.step.unread] == [("pooler.weight", UNREAD)]
    file, out = Path(tmp_path / "step.py"), Path(tmp_path / "step.json")
    file.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer, self.pooler = torch.nn.Linear(8, 8), torch.nn.Linear(30, 30, bias=False)\n"
        "    def forward(self, x):\n"
        "        return self.layer(x).square().mean()\n"
        "def build():\n"
        "    return Net(), (torch.randn(4, 8),)\n"
    )
    assert main(["capture", str(file), "-o", str(out)]) == 0
    assert [(value.name, value.size_bytes) for value in load_training(str(out)).unread] == [
        ("pooler.weight", 3600)
    ]


@pytest.mark.parametrize("as_module", [True, False])
def test_a_board_counts_what_the_modules_of_a_function_hold(as_module):
    model, x = Net("module"), torch.randn(ROWS, WIDTH)
    function = model if as_module else lambda x: model(x)
    board = Board(function, [x], "aot_eager", 1)
    assert board.held_bytes == sum(each.nbytes for each in model.parameters()) + x.nbytes
    _, peak = board.measure(frozenset())
    assert model.layer.weight.grad is not None
    assert board.measure(frozenset())[1] == peak
