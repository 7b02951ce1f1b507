"""Will it fit: what is said without a run, beside sums by hand, steps that run, and captures one by one."""

from __future__ import annotations

import functools
import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.training_fits import NETWORKS, bare, measured, network, said
from click.testing import CliRunner
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import egrl_training
from benchmarks import training_fits
from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl.cli.main import cli, main
from egrl_training.pytorch.capture import capture_joint
from egrl_training.pytorch.estimates import Rates, estimated, flops_of
from egrl_training.pytorch.fit_report import ALL, LEAST, THEIRS, WITHIN
from egrl_training.pytorch.fit_steps import FitSteps, _trained
from egrl_training.pytorch.no_data import batch_of, with_batch, without_data
from egrl_training.pytorch.optimizers import optimizer_bytes
from egrl_training.pytorch.peak import peak_of
from egrl_training.simulator.simulate import simulate
from gate import gate
from workloads.errors import InputError
from workloads.text import size_text

pytestmark = QUIET
RATES = Rates(1e12, 1e11)
ROWS, WIDTH = 512, 64


def loss_of(layers: int = 4, width: int = WIDTH) -> nn.Module:
    parts = (part for _ in range(layers) for part in (nn.Linear(width, width, bias=False), nn.ReLU()))
    return Loss(nn.Sequential(*parts))


class Loss(nn.Module):
    """The mean square of what a network makes."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x).square().mean()


@functools.cache
def asked(memory: str | int, rows: int = ROWS, **given: Any) -> egrl_training.Fit:
    with without_data():
        model, x = loss_of(), torch.randn(rows, WIDTH)
    return egrl_training.fits(
        model, [x], memory, **{"rates": RATES, "seconds": 40.0, "optimizer": "none"} | given
    )


@pytest.mark.slow
def test_the_peak_of_a_perceptron_is_what_a_hand_adds_up() -> None:
    """When the gradient of the last result is made there are the weights, the input, what each ReLU returned, the
    gradient of the mean, twice the result, and the product of both."""
    answer = asked("2 MiB")
    value, weight, layers = ROWS * WIDTH * 4, WIDTH * WIDTH * 4, 4
    wanted = layers * weight + value * (1 + layers + 3)
    assert answer.rows[ALL].peak_bytes == pytest.approx(wanted, abs=200)
    assert answer.stepping_bytes == pytest.approx(2 * layers * weight + value, abs=200)
    assert {held.size_bytes for held in answer.held} == {value}
    assert answer.held[0].shape == (ROWS, WIDTH)
    assert {held.module for held in answer.held} <= {"net", *(f"net.{n}" for n in range(2 * layers))}


@pytest.mark.slow
def test_the_sentence_says_what_fits() -> None:
    whole = asked("2 MiB").rows[ALL].peak_bytes
    least = asked("2 MiB").rows[LEAST].peak_bytes
    assert least < whole
    middle = asked((whole + least) // 2)
    assert middle.fits
    assert WITHIN in middle.rows
    assert middle.sentence.startswith(f"Does not fit: needs {size_text(whole)}. Fits with recomputation in ")
    assert 0 < middle.rows[WITHIN].more_time < 0.5
    assert asked(whole).sentence.startswith(f"Fits in {size_text(whole)}: needs {size_text(whole)}.")
    small = asked(least - 1)
    assert not small.fits
    assert "with recomputation, of" in small.sentence
    assert asked(1000).sentence.endswith("Not one sample fits.")


@pytest.mark.exhaustive
def test_the_largest_batch_is_the_last_whose_capture_fits() -> None:
    limit = asked("2 MiB").rows[ALL].peak_bytes
    answer = asked(limit + 3000, rows=100)
    with without_data():
        model, x = loss_of(), torch.randn(100, WIDTH)
    steps = FitSteps(model, [x], 0, "none", RATES, "loss")
    for name in (ALL, THEIRS):
        most = answer.rows[name].largest_batch
        assert most is not None
        for batch, fits in ((most, True), (most + 1, False)):
            step = steps.at(batch)
            plan = step.everything if name == ALL else step.theirs()
            assert (step.peak_bytes(plan) <= limit + 3000) == fits
    assert answer.rows[ALL].largest_batch == ROWS + 1  # 3,000 bytes hold one row more
    assert (answer.rows[LEAST].largest_batch or 0) > ROWS


@pytest.mark.slow
@pytest.mark.parametrize("name", gate(NETWORKS, ("autoencoder",)))
def test_the_peak_that_is_said_is_the_one_that_is_measured(name: str, tmp_path: Path) -> None:
    lines = training_fits.Lines(tmp_path / "fits.jsonl", training_fits.KEYS)
    training_fits.compare_own([name], True, "aot_eager", lines)
    assert [line["plan"] for line in lines.all] == [ALL, THEIRS, LEAST]
    for line in lines.all:
        assert line["said_bytes"] == pytest.approx(line["measured_bytes"], rel=0.02)
        assert line["said_step_bytes"] == pytest.approx(line["measured_step_bytes"], rel=0.005)
    assert f"| {name} |" in training_fits.table(lines)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NETWORKS)
def test_the_peak_that_is_said_under_inductor_is_the_one_that_is_measured(name: str, tmp_path: Path) -> None:
    lines = training_fits.Lines(tmp_path / "fits.jsonl", training_fits.KEYS)
    training_fits.compare_own([name], True, "inductor", lines)
    for line in lines.all:
        assert line["said_bytes"] == pytest.approx(line["measured_bytes"], rel=0.02)


@pytest.mark.exhaustive
def test_under_inductor_the_largest_batch_is_the_last_whose_code_fits() -> None:
    """An activation is computed within the kernels that read it, so that less is kept than with "aot_eager"."""
    first = asked("2 MiB", backend="inductor")
    limit = first.rows[ALL].peak_bytes
    assert first.rows[ALL].largest_batch is not None
    assert limit < asked("2 MiB").rows[ALL].peak_bytes
    answer = asked(limit + 3000, rows=100, backend="inductor")
    with without_data():
        model, x = loss_of(), torch.randn(100, WIDTH)
    steps = FitSteps(model, [x], 0, "none", RATES, "loss", "inductor")
    most = answer.rows[ALL].largest_batch
    assert most is not None
    assert most >= ROWS
    for batch, fits in ((most, True), (most + 1, False)):
        step = steps.at(batch)
        assert (step.peak_bytes(step.everything) <= limit + 3000) == fits
    assert (answer.rows[LEAST].largest_batch or 0) >= most
    assert str(answer).count("Peaks are those of the backend inductor") == 1


def test_nothing_is_allocated_and_a_step_of_forty_gigabytes_is_known() -> None:
    with without_data():
        model = loss_of(1, 100_000)
        x = torch.randn(8, 100_000)
    found: list[egrl_training.Fit] = []

    def ask() -> None:
        found.append(egrl_training.fits(model, [x], "120 GiB", optimizer="sgd-momentum", rates=RATES))

    assert peak_of(ask, torch.device("cpu")) < 1 << 20
    assert found[0].optimizer.state == pytest.approx(4 * 100_000**2, rel=1e-6)
    assert "needs 111.8 GiB" in found[0].sentence


@pytest.mark.slow
def test_a_network_with_data_is_asked_about_like_one_without() -> None:
    torch.manual_seed(0)
    model, x = loss_of(), torch.randn(ROWS, WIDTH)
    answer = egrl_training.fits(model, [x], "2 MiB", rates=RATES, seconds=40.0, optimizer="none")
    assert answer.rows == asked("2 MiB").rows


@pytest.mark.exhaustive
def test_a_network_without_data_takes_another_type() -> None:
    with without_data():
        model = loss_of().to(torch.float16).bfloat16()
        x = torch.randn(ROWS, WIDTH, dtype=torch.bfloat16)
    answer = egrl_training.fits(model, [x], "2 MiB", rates=RATES, seconds=40.0, optimizer="none")
    assert {held.dtype for held in answer.held} == {"bfloat16"}


@pytest.mark.parametrize("name", ["adamw", "sgd", "sgd-momentum", "adafactor", "rmsprop", "nadam"])
def test_state_and_step_of_an_optimizer_are_what_it_takes_when_it_runs(name: str) -> None:
    model = nn.Sequential(nn.Linear(300, 200), nn.Linear(200, 100))
    parameters = list(model.parameters())
    said = optimizer_bytes(parameters, name)
    kind = {"sgd-momentum": torch.optim.SGD}.get(name) or next(
        value for key, value in vars(torch.optim).items() if key.lower() == name
    )
    optimizer = kind(parameters, lr=1e-3, **({"momentum": 0.9} if name == "sgd-momentum" else {}))
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    held = [t for state in optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor)]
    assert said.state == pytest.approx(sum(tensor.nbytes for tensor in held), rel=0.01, abs=200)
    assert said.step == pytest.approx(peak_of(optimizer.step, torch.device("cpu")), rel=0.02, abs=200)
    assert optimizer_bytes(parameters, optimizer).state == said.state
    assert optimizer_bytes(parameters, lambda given: kind(given, lr=1.0)).step <= said.step


def test_the_state_of_an_optimizer_that_updates_all_at_once_is_larger_while_it_steps() -> None:
    parameters = [nn.Parameter(torch.ones(1000)) for _ in range(9)]
    alone = optimizer_bytes(parameters, lambda given: torch.optim.AdamW(given, foreach=False))
    at_once = optimizer_bytes(parameters, lambda given: torch.optim.AdamW(given, foreach=True))
    assert alone.state == at_once.state
    assert alone.step < 4 * 4000
    assert at_once.step >= 9 * 4000


@pytest.mark.slow
def test_operations_are_those_of_pytorchs_own_counter() -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.linear = nn.Conv2d(3, 8, 3), nn.Linear(8 * 36, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(self.conv(x).flatten(1)).square().mean()

    model, x = Parts(), torch.randn(2, 3, 8, 8)
    joint = capture_joint(model, x)
    with FlopCounterMode(display=False) as counter:
        model(x).backward()
    assert sum(flops_of(node) for node in joint.ops) == counter.get_total_flops() > 0
    seconds = [op.seconds for op in estimated(joint, Rates(1.0, 1e30)).step.ops]
    assert sum(seconds) == pytest.approx(counter.get_total_flops())


def test_attention_counts_the_operations_of_its_two_products() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x).sum()

    joint = capture_joint(attend, torch.randn(2, 4, 16, 8, requires_grad=True))
    flops = {op.kind: flops_of(node) for op, node in zip(joint.step.ops, joint.ops, strict=True)}
    product = 2 * (2 * 4) * 16 * 16 * 8
    attention = {kind: count for kind, count in flops.items() if "attention" in kind}
    assert sorted(attention.values()) == [2 * product, 5 * product]


def test_another_batch_has_the_order_of_dimensions_of_the_inputs() -> None:
    image = torch.randn(4, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    inputs = (image, {"wanted": torch.zeros(4, dtype=torch.int64)}, torch.tensor(1.0), 3)
    assert batch_of(inputs, 0) == 4
    more, wanted, scale, number = with_batch(inputs, 0, 7)
    assert more.shape == (7, 3, 8, 8)
    assert more.is_contiguous(memory_format=torch.channels_last)
    assert wanted["wanted"].shape == (7,)
    assert scale is inputs[2]
    assert number == 3
    with pytest.raises(InputError, match=r"dimension 1, found 3, 5"):
        batch_of((image, torch.zeros(2, 5)), 1)
    with pytest.raises(InputError, match="one size above 0 in dimension 0, found 0"):
        batch_of((torch.zeros(0, 5),), 0)


def test_what_an_op_says_of_its_inputs_is_the_reason_of_a_refusal() -> None:
    with without_data():
        model, x = nn.BatchNorm1d(4), torch.zeros(1, 4)
    with pytest.raises(InputError, match="found ValueError: Expected more than 1 value per channel"):
        egrl_training.fits(lambda x: model(x).sum(), [x], "2 MiB", rates=RATES)


LOG = logging.getLogger("a step")


def test_a_step_that_logs_is_refused_with_the_place_and_what_pytorch_suggests() -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        LOG.warning("a step")
        return (x * x).sum()

    with without_data():
        x = nn.Parameter(torch.ones(4))
    with pytest.raises(
        InputError, match=r"\(test_pytorch_fits.py, line \d+\) Hint: .*ignore_logging_functions"
    ):
        egrl_training.fits(loss, [x], "2 MiB", rates=RATES)


def test_a_step_of_another_shape_says_why_its_largest_batch_is_not_known() -> None:
    with without_data():
        weight = nn.Parameter(torch.randn(8, 4))
        x, y = torch.randn(6, 8), torch.randn(4)
    answer = egrl_training.fits(
        lambda x, y: (x @ weight * y).sum(), [x, y], "2 MiB", rates=RATES, seconds=40.0
    )
    assert answer.batch is None
    assert "expected inputs of one size above 0 in dimension 0, found 4, 6" in answer.remark
    fixed = egrl_training.fits(
        lambda x: (x.view(3, 16) @ weight.view(16, 2)).sum(), [x], "2 MiB", rates=RATES, seconds=40.0
    )
    assert fixed.remark.count("\n") == 0
    assert "expected a step that torch.compile captures as one graph" in fixed.remark
    assert fixed.sentence.endswith("with every value kept.") or fixed.sentence.startswith("Fits in 2 MiB")


@pytest.mark.exhaustive
def test_sizes_that_grow_unevenly_are_captured_one_by_one() -> None:
    """Its padding is to whole blocks of 64 rows."""

    def padded(x: torch.Tensor) -> torch.Tensor:
        rows = -(-x.shape[0] // 64) * 64
        y = nn.functional.pad(x, (0, 0, 0, rows - x.shape[0]))
        return (y @ weight).relu().square().mean()

    with without_data():
        weight = nn.Parameter(torch.randn(WIDTH, WIDTH))
        x = torch.randn(40, WIDTH)
    steps = FitSteps(padded, [x], 0, "none", RATES, "padded")
    limit = steps.at(64).peak_bytes(steps.at(64).everything)
    answer = egrl_training.fits(padded, [x], limit, rates=RATES, seconds=40.0, optimizer="none")
    most = answer.rows[ALL].largest_batch
    assert most is not None
    assert steps.at(most).peak_bytes(steps.at(most).everything) <= limit
    assert steps.at(most + 1).peak_bytes(steps.at(most + 1).everything) > limit


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"memory": "24"}, "memory: expected bytes"),
        ({"optimizer": "lion"}, "optimizer: expected none, sgd-momentum, adadelta"),
        ({"optimizer": "lbfgs"}, "expected one that steps on tensors without data"),
        ({"batch_dim": -1}, "batch_dim: expected a dimension from 0 on, found -1"),
        ({"seconds": 0}, "seconds: expected a number above 0, found 0"),
        ({"backend": "eager"}, "backend: expected inductor or aot_eager, found 'eager'"),
    ],
)
def test_a_wrong_argument_is_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        asked(**{"memory": "2 MiB", **given})
    assert "\n" not in str(caught.value)


STEP = """
import torch


def build():
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(4)))
    return lambda x: model(x).square().mean(), (torch.randn(2048, 64),)
"""
RATE_FLAGS = ["--flops", "300 TFLOP/s", "--bandwidth", "2 TB/s", "--seconds", "40"]


def ask(tmp_path: Path, text: str, *argv: str) -> Any:
    (tmp_path / "step.py").write_text(text)
    return CliRunner().invoke(
        cli, ["fits", str(tmp_path / "step.py"), *RATE_FLAGS, *argv], standalone_mode=False
    )


@pytest.mark.slow
def test_the_command_answers_in_a_sentence_a_table_and_a_document(tmp_path: Path) -> None:
    fits = ask(tmp_path, STEP, "--memory", "5 MiB")
    assert fits.return_value == 0
    assert fits.output.startswith("Does not fit: needs 5.691 MiB. Fits with recomputation in 5 MiB at +")
    assert " without, " in fits.output.splitlines()[0]
    document = json.loads(ask(tmp_path, STEP, "--memory", "5 MiB", "--json").output)
    assert document["fits"]
    assert document["kind"] == "fits"
    assert [row["plan"] for row in document["plans"]] == [ALL, THEIRS, WITHIN, LEAST]
    assert document["plans"][0]["peak_bytes"] == pytest.approx(5.691 * 2**20, rel=1e-3)
    assert len(document["held"]) == 5
    assert ask(tmp_path, STEP, "--memory", "2 MiB").return_value == 1


@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        ("", [], "expected a function build(), found none"),
        ("def build():\n    import torch\n    torch.ones(2).numpy()", [], "on tensors without data"),
        (STEP, ["--flops", "300"], "--flops: expected a rate"),
        ("def build():\n    import torch\n    return torch.sum, (torch.ones(2),)", [], "found none"),
    ],
)
def test_a_wrong_file_or_flag_is_one_line(
    text: str, flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "step.py").write_text(text)
    assert main(["fits", str(tmp_path / "step.py"), "--memory", "2 MiB", *RATE_FLAGS, *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.slow
def test_what_the_optimizer_needs_alone_is_said() -> None:
    answer = asked(120_000, rows=8, optimizer="adamw")
    assert answer.stepping_bytes > 120_000
    assert answer.sentence.startswith("Does not fit: the optimizer's step alone needs ")
    assert answer.rows[ALL].peak_bytes == answer.stepping_bytes


@pytest.mark.exhaustive
def test_pytorchs_plan_is_what_its_partitioner_saves() -> None:
    peak, _ = measured(network("llama", True), "aot_eager")
    found, plans, _ = said("llama", partial(bare, "llama", True))
    passes = simulate(found.tables, np.stack([plans[THEIRS], plans[ALL]]))[1]
    assert passes[0] == pytest.approx(peak, rel=0.01)
    assert passes[0] < 0.97 * passes[1]


def test_an_optimizer_steps_in_the_order_of_the_modules_whatever_the_step_reads_first() -> None:
    class Reversed(nn.Module):
        """Reads its last layer first, and beside others what is largest in another place."""

        def __init__(self) -> None:
            super().__init__()
            self.last, self.middle = nn.Linear(64, 8), nn.Linear(8, 64)
            self.first = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.middle(self.last(self.first(x))).square().mean()

    model = Reversed()
    step = FitSteps(lambda x: model(x), [torch.randn(2, 64)], 0, "adamw", RATES, "reversed").given
    parameters = list(model.parameters())
    trained = [tuple(each.shape) for each in _trained(step.joint)]
    assert sorted(trained) == sorted(tuple(each.shape) for each in parameters)
    assert trained != [tuple(each.shape) for each in parameters]
    assert step.optimizer == optimizer_bytes(parameters, "adamw")
    assert step.optimizer.step > optimizer_bytes(_trained(step.joint), "adamw").step


def test_inputs_that_share_memory_are_counted_once_at_every_batch() -> None:
    weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def loss(x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return (x @ weight - wanted).square().mean()

    whole = torch.randn(100, 2 * WIDTH)
    inputs = (whole[:, :WIDTH], whole[:, WIDTH:])
    steps = FitSteps(loss, inputs, 0, "none", RATES, "loss")
    for batch in (100, 200, 7):
        given = [value.size_bytes for value in steps.at(batch).joint.step.values if value.role]
        assert sorted(given) == sorted([weight.nbytes, batch * 2 * WIDTH * 4, 0, 4])
    tokens = torch.zeros(4, 9, dtype=torch.int64)
    before, after = with_batch((tokens[:, :-1], tokens[:, 1:]), 0, 6)
    assert before.untyped_storage()._cdata == after.untyped_storage()._cdata
    assert before.untyped_storage().nbytes() == 6 * 9 * 8
    apart = with_batch((tokens[:, :-1], tokens[:2]), 0, 6)
    assert apart[0].untyped_storage()._cdata != apart[1].untyped_storage()._cdata


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (
            lambda y: y,
            r"loss: expected a function that returns a loss, one number, found results of the shapes \[6, 4\]",
        ),
        (lambda y: y.detach(), "loss: expected a step with a backward pass that can be planned, found none"),
        (lambda y: y[y > 0].sum(), "loss: .*, found none: sizes are not fixed"),
    ],
)
def test_a_step_without_a_loss_or_a_plan_is_one_line_with_the_reason(returned: Any, said: str) -> None:
    with without_data():
        weight, x = nn.Parameter(torch.randn(8, 4)), torch.randn(6, 8)
    with pytest.raises(InputError, match=said) as caught:
        egrl_training.fits(lambda x: returned(x @ weight), [x], "2 MiB", rates=RATES, name="loss")
    assert "\n" not in str(caught.value)


def test_a_step_whose_checkpoint_draws_random_numbers_has_an_answer() -> None:
    layer = nn.Linear(WIDTH, WIDTH)

    def dropped(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(layer(x).relu(), 0.5)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(dropped, x, use_reentrant=False).square().mean()

    answer = egrl_training.fits(loss, [torch.randn(ROWS, WIDTH)], "1 GiB", rates=RATES, optimizer="none")
    assert answer.rows[THEIRS].peak_bytes <= answer.rows[ALL].peak_bytes
