"""Ops that draw random numbers, and custom ops, run once each, as in eager mode, whatever reads their results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from benchmarks.kinds.compare import RIGHT, compare
from benchmarks.kinds.kind import Kind, Net, difference, train
from torch import Tensor
from torch._functorch import compile_utils

from compiling import QUIET, fresh  # noqa: F401  (a fixture of all)
from egrl_training import memory_limit
from egrl_training.pytorch.backend import PlannedBackend
from egrl_training.pytorch.capture import capture_joint
from egrl_training.pytorch.partition import Cut
from egrl_training.pytorch.same import once_each
from egrl_training.pytorch.times import Times

pytestmark = QUIET
CALLS: list[int] = []


@torch.library.custom_op("egrl_test::noise", mutates_args=())
def noise(x: Tensor) -> Tensor:
    """Draws random numbers, which it does not say."""
    CALLS.append(1)
    return torch.randn_like(x)


@noise.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("egrl_test::add_noise", mutates_args=("x",))
def add_noise(x: Tensor) -> None:
    """Draws, and changes what it is given."""
    CALLS.append(1)
    x.add_(torch.randn_like(x))


class _EqualDraws(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return self.end(h + torch.randn_like(x)) + self.end(h.sin() + torch.randn_like(x))


class _EqualCustomOps(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return self.end(h + noise(x)) + self.end(h.sin() + noise(x))


class _DrawsThatNothingReads(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        torch.randn(3)
        h.detach().clone().uniform_()
        F.dropout(h, 0.5)
        noise(x)
        return self.end(F.dropout(h, 0.5))


@pytest.mark.slow
@pytest.mark.parametrize("net", [_EqualDraws, _EqualCustomOps, _DrawsThatNothingReads])
def test_random_numbers_are_drawn_as_in_eager_mode_within_a_limit(net: type[Net]) -> None:
    outcome = compare(Kind("", "", lambda wrap: train(net().double(), wrap)), "aot_eager", 0.85)
    assert outcome.word == RIGHT, str(outcome)
    assert "planned" not in outcome.detail


def _returned(x: Tensor) -> Tensor:
    return (x.sin() * noise(x.detach())).sum()


def _changed(x: Tensor) -> Tensor:
    y = x.detach().clone()
    add_noise(y)
    return (x.sin() * y).sum()


def _branches(x: Tensor) -> Tensor:
    y = torch.cond(x.sum() > 0, lambda v: noise(v) * 2, lambda v: v.cos(), (x.detach(),))
    return (x.sin() * y).sum()


@pytest.mark.parametrize("step", [_returned, _changed, _branches])
def test_custom_ops_are_not_run_to_be_timed(step: object) -> None:
    times = Times({})
    graph = capture_joint(step, torch.randn(8, requires_grad=True))
    CALLS.clear()
    times.measure(graph)
    assert not CALLS
    assert {timing.estimated for key, timing in times.known.items() if "noise" in key} == {True}
    assert {timing.estimated for key, timing in times.known.items() if "aten.sin" in key} == {False}


def test_pytorch_s_lists_are_what_they_were_afterwards() -> None:
    listed, fallback = compile_utils.rand_ops, torch._inductor.config.fallback_random
    with once_each(draws_as_eager=True):
        assert torch.ops.aten.randn_like in compile_utils.rand_ops
        assert torch.ops.egrl_test.noise in compile_utils.rand_ops
        assert torch.ops.aten.sin not in compile_utils.rand_ops
        assert torch._inductor.config.fallback_random
    assert compile_utils.rand_ops is listed
    assert torch._inductor.config.fallback_random is fallback


class _CountsInItsBackwardPass(torch.autograd.Function):
    """Changes a tensor in its backward pass by its old value, which no gradient has a part in."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seen: Tensor) -> Tensor:
        ctx.seen = seen
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.seen.mul_(0.5).add_(1)
        return gradient * 0.5, None


def test_a_second_backward_pass_reads_what_the_first_has_changed():
    class Seen(Net):
        def make(self) -> None:
            self.keep("seen", torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            return self.end(_CountsInItsBackwardPass.apply(self.a(x), self.seen))

    net = Seen().double()
    with memory_limit(fraction=1.0, quiet=True):
        loss = torch.compile(net, backend="aot_eager")(torch.ones(64, 32, dtype=torch.float64))
        loss.backward(retain_graph=True)
        loss.backward()
    torch.testing.assert_close(net.seen, torch.full((3,), 1.5, dtype=torch.float64))


def test_a_backward_pass_that_begins_with_a_buffer_reads_what_has_changed_since():
    """No op of that backward pass that reads a tangent comes before."""

    class Last(Net):
        def make(self) -> None:
            self.keep("seen", torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            return _CountsInItsBackwardPass.apply(self.a(x), self.seen)  # type: ignore[no-any-return]

    net = Last().double()
    with memory_limit(fraction=1.0, quiet=True):
        result = torch.compile(net, backend="aot_eager")(torch.ones(64, 32, dtype=torch.float64))
        with torch.no_grad():
            net.seen.add_(2)
        result.sum().backward()
    torch.testing.assert_close(net.seen, torch.full((3,), 2.0, dtype=torch.float64))


class _ReadInBothPasses(torch.autograd.Function):
    """Reads a buffer, which it does not save, in both passes; the second may change it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seen: Tensor, changes: bool) -> Tensor:
        ctx.seen, ctx.changes = seen, changes
        return x * seen

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        if ctx.changes:
            ctx.seen.mul_(0.5).add_(gradient.abs().mean(0))
        return gradient * (1 + ctx.seen), None, None


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("between", [False, True])
def test_what_read_a_buffer_that_may_change_before_the_backward_pass_is_not_read_again(
    changes: bool, between: bool
) -> None:
    """Eager mode does not hold it: a first backward pass, or others between the passes, may change it."""

    class Read(Net):
        def make(self) -> None:
            self.keep("seen", torch.ones(32))

        def forward(self, x: Tensor) -> Tensor:
            return self.end(_ReadInBothPasses.apply(self.a(x), self.seen, changes))

    def run(wrap: Any) -> list[Tensor]:
        torch.manual_seed(0)
        net = Read().double()
        loss = wrap(net)(torch.ones(64, 32, dtype=torch.float64))
        if between:
            with torch.no_grad():
                net.seen.add_(2)
        loss.backward(retain_graph=True)
        loss.backward()
        return [loss, *(each.grad for each in net.parameters() if each.grad is not None), net.seen]

    def nothing_kept(net: Any) -> Any:
        return torch.compile(net, backend=PlannedBackend("aot_eager", lambda joint: Cut(()), "net", False))

    assert difference(run(nothing_kept), run(lambda net: net)) < 1e-9
