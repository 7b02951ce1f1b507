"""Optimizers of other libraries: state of few bits, tables that are made of data, steps that are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import egrl_training
from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl_training.pytorch.optimizers import COMPILED, optimizer_bytes

pytestmark = QUIET
TABLE = 1024
"""Bytes of 256 numbers."""


@torch.library.custom_op("egrl_tests::update", mutates_args=("p", "codes"))
def update(p: torch.Tensor, codes: torch.Tensor, table: torch.Tensor) -> None:
    p.add_(table[codes.long()])


class Coded(torch.optim.Optimizer):
    """A byte a number; what bytes mean stands in a table that is read when it is made."""

    def __init__(self, parameters: Any, lr: float = 1e-3) -> None:
        super().__init__(parameters, {"lr": lr})
        self.table = torch.tensor(sorted(torch.linspace(-1, 1, 256).tolist()))

    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            self.move(parameter, self.state[parameter])

    def move(self, parameter: torch.Tensor, state: dict[str, Any]) -> None:
        if not state:
            state |= {"codes": torch.zeros_like(parameter, dtype=torch.uint8), "table": self.table}
        update(parameter.data, state["codes"], state["table"])


class Wrapped(Coded):
    """Two halves a number, in one tensor as far as anybody sees; its step is compiled."""

    def move(self, parameter: torch.Tensor, state: dict[str, Any]) -> None:
        if not state:
            halves = (torch.zeros_like(parameter, dtype=torch.float16) for _ in range(2))
            state["average"] = TwoTensor(*halves)
        torch.compile(torch.Tensor.add_, fullgraph=True)(parameter.data, parameter.grad * 2)


KINDS: dict[str, tuple[Callable[..., Any], int, int, str]] = {
    # bytes a number, bytes beside, and what is said of the step
    "codes": (Coded, 1, TABLE, "and what ops of egrl_tests take"),
    "halves in a wrapper": (Wrapped, 4, 0, COMPILED),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_one", [False, True])
def test_the_state_of_few_bits_has_its_bytes_and_what_is_not_known_is_said(kind: str, is_one: bool) -> None:
    make, each, beside, remark = KINDS[kind]
    model = nn.Linear(100, 50, bias=False)
    optimizer = make(model.parameters()) if is_one else make
    found = optimizer_bytes(list(model.parameters()), optimizer)
    assert (found.state, found.remark) == (5000 * each + beside, remark)
    answer = egrl_training.fits(
        lambda x: model(x).square().mean(), [torch.randn(8, 100)], "1 GiB", optimizer=optimizer
    )
    assert answer.optimizer == found
    assert f" beside, {remark}." in str(answer)


def test_the_same_optimizer_with_data_has_as_many_bytes() -> None:
    model = nn.Linear(100, 50, bias=False)
    optimizer = Coded(model.parameters())
    optimizer.step()
    state = optimizer.state[model.weight]
    assert optimizer_bytes([model.weight], optimizer).state == sum(each.nbytes for each in state.values())
