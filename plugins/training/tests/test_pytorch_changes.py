"""Steps that read what they change where it is easily computed again from the wrong values, with every op run again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from benchmarks.kinds.kind import WIDTH, Net, difference, train
from torch import Tensor, nn

from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl_training.pytorch.backend import PlannedBackend
from egrl_training.pytorch.partition import Cut

pytestmark = QUIET


class _AddsInItsBackwardPass(torch.autograd.Function):
    """Changes a tensor in its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seen: Tensor) -> Tensor:
        ctx.seen = seen
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.seen.add_(gradient.abs().mean(0))
        return gradient, None


class _ChangedInBothPasses(Net):
    """A buffer is read, changed and read again, and its backward pass changes it, too."""

    def make(self) -> None:
        self.keep("seen", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = (self.a(x) + self.seen * 2).sin()
        self.seen.mul_(0.5)
        return self.end(_AddsInItsBackwardPass.apply((h + self.seen.cos()).sin(), self.seen))


class _NormInBothModes(Net):
    """A norm in training, and then with the statistics that it has just moved."""

    def make(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.a(x))
        self.norm.eval()
        h = self.norm(h.sin())
        self.norm.train()
        return self.end(h)


class _NewStatisticsAreRead(Net):
    """A loss of the running variance that a norm has just moved."""

    def make(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.a(x)).sin()
        return self.end(h * self.norm.running_var.clone().sqrt())


@pytest.mark.parametrize("net", [_ChangedInBothPasses, _NormInBothModes, _NewStatisticsAreRead])
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_gradients_and_buffers_are_those_of_eager_mode(net: type[Net], kept: int) -> None:
    """Of the values that may be kept none, every second, or all."""

    def trained(compiled: bool) -> list[Tensor]:
        torch.manual_seed(0)
        said: list[str] = []
        planned = PlannedBackend(
            "aot_eager",
            lambda joint: Cut(joint.step.candidates[:: 3 - kept] if kept else ()),
            "net",
            False,
            said.append,
        )

        def wrap(model: nn.Module) -> Any:
            return torch.compile(model, backend=planned, dynamic=False) if compiled else model

        results = train(net().double(), wrap)
        assert not said
        return results

    assert difference(trained(True), trained(False)) < 1e-9
