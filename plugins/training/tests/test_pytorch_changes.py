"""Steps that read what they change where it is easily computed again from the wrong values, with every op run again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from benchmarks.kinds.kind import WIDTH, Net, difference, train
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl_training import memory_limit
from egrl_training.pytorch.backend import PlannedBackend
from egrl_training.pytorch.joint import JointGraph
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


def _trained(net: type[Net], backend: str, kept: int | None) -> list[Tensor]:
    """What eager mode returns, or a compiled net that keeps none of its values, every second one, or all."""
    torch.manual_seed(0)
    said: list[str] = []

    def planner(joint: JointGraph) -> Cut:
        return Cut(joint.step.candidates[:: 3 - kept] if kept else ())

    def wrap(model: nn.Module) -> Any:
        planned = PlannedBackend(backend, planner, "net", False, said.append)
        return model if kept is None else torch.compile(model, backend=planned, dynamic=False)

    results = train(net().double(), wrap)
    assert not [line for line in said if "both passes change" not in line]
    return results


@pytest.mark.parametrize("net", [_ChangedInBothPasses, _NormInBothModes, _NewStatisticsAreRead])
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_gradients_and_buffers_are_those_of_eager_mode(net: type[Net], kept: int) -> None:
    assert difference(_trained(net, "aot_eager", kept), _trained(net, "aot_eager", None)) < 1e-9


@pytest.mark.slow
def test_inductor_changes_the_buffer_itself_in_both_passes() -> None:
    found = _trained(_ChangedInBothPasses, "inductor", 1)
    assert difference(found, _trained(_ChangedInBothPasses, "inductor", None)) < 1e-7


class _DropoutInACheckpoint(Net):
    """Is left to PyTorch's partitioner where sizes are not fixed."""

    def forward(self, x: Tensor) -> Tensor:
        def part(h: Tensor) -> Tensor:
            return F.dropout(self.a(F.dropout(h, 0.3)), 0.5)

        return self.end(checkpoint(part, self.a(x), use_reentrant=False))


def test_draws_in_a_checkpoint_are_saved_where_pytorch_cuts_the_graph() -> None:
    def trained(compiled: bool) -> list[Tensor]:
        torch.manual_seed(0)
        with memory_limit(fraction=1.0, quiet=True):
            return train(
                _DropoutInACheckpoint().double(),
                lambda net: torch.compile(net, backend="aot_eager", dynamic=True) if compiled else net,
            )

    assert difference(trained(True), trained(False)) < 1e-9
