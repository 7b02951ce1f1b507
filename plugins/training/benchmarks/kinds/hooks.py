"""Steps with hooks, gradients within the step, parametrised weights and functions with a backward pass of their own."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.kinds.kind import WIDTH, Compile, Net, batch, kept, kind
from torch import Tensor, nn

GROUP = "hooks and functions"


@kind("a moving average in a forward hook", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("mean", torch.ones(WIDTH))
        self.a.register_forward_hook(self._scaled)

    def _scaled(self, module: nn.Module, given: Any, out: Tensor) -> Tensor:
        y = out * self.mean.clone()
        self.mean.mul_(0.9).add_(out.detach().mean(0), alpha=0.1)
        return y * self.mean.exp()

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x))


@kind("a hook before a layer changes its weight and a counter", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("count", torch.zeros(()))
        self.a.register_forward_pre_hook(self._shrunk)

    def _shrunk(self, module: Any, given: Any) -> Any:
        self.count += 1
        with torch.no_grad():
            module.weight.mul_(1 - 0.1 / self.count)
        return (given[0] * self.count,)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x) + self.a(x.sin()).detach())


@kind("a hook on the backward pass keeps a norm", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("norm", torch.ones(()))
        self.a.register_full_backward_hook(self._seen)

    def _seen(self, module: Any, to: Any, back: Any) -> None:
        self.norm.mul_(0.5).add_(back[0].norm())

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x) * self.norm)


@kind("a hook on a tensor scales its gradient and counts", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("count", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        def doubled(gradient: Tensor) -> Tensor:
            self.count.add_(1)
            return gradient * 2

        h = self.a(x)
        h.register_hook(doubled)
        return self.end(h)


@kind("an optimizer in hooks of the backward pass", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net = Net().double()
    step, losses = wrap(lambda x: net.end(net.a(x))), []

    def move(parameter: nn.Parameter) -> None:
        with torch.no_grad():
            parameter.sub_(parameter.grad, alpha=0.1)
        parameter.grad = None

    for each in net.parameters():
        each.register_post_accumulate_grad_hook(move)
    for _ in range(3):
        losses.append(step(batch()))
        losses[-1].backward()
    return [*losses, *kept(net)]


@kind("a penalty on gradients by torch.func.grad", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        gradient = torch.func.grad(lambda z: self.end(self.a(z)))(x)
        return self.end(self.a(x)) + (gradient.norm(dim=1) * 100 - 1).square().mean()


@kind("inner steps of descent unrolled", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        weight = self.a.weight
        for _ in range(2):
            weight = weight - 0.5 * torch.func.grad(lambda w: (x @ w.t()).sin().square().mean())(weight)
        return self.end(x @ weight.t())


@kind("an ensemble by vmap over stacked weights", GROUP)
class _(Net):
    def make(self) -> None:
        self.stack = nn.Parameter(torch.linspace(-0.3, 0.3, 3 * WIDTH * WIDTH).view(3, WIDTH, WIDTH))
        self.keep("seen", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        losses = torch.vmap(lambda weight: self.end(self.a(x) @ weight))(self.stack)
        loss = (losses * (-self.seen).softmax(0)).sum()
        self.seen.lerp_(losses.detach(), 0.3)
        return loss


@kind("weight norm by a parametrisation", GROUP)
class _(Net):
    def make(self) -> None:
        torch.nn.utils.parametrizations.weight_norm(self.a)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x))


@kind("weight norm by hooks", GROUP)
class _(Net):
    def make(self) -> None:
        torch.nn.utils.weight_norm(self.a)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x))


class _SavesResults(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        y = x * scale
        which = y.argmax(1)
        ctx.save_for_backward(scale, y)
        ctx.mark_non_differentiable(which)
        return y, which

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor, None]:
        scale, y = ctx.saved_tensors
        return gradient * scale + y * 0.01, None


@kind("an autograd function that saves its results", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("scale", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y, which = _SavesResults.apply(self.a(x), self.scale.clone())
        self.scale.add_(F.one_hot(which, WIDTH).sum(0).to(x.dtype), alpha=0.01)
        return self.end(y)


class _MovesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, state: Tensor) -> Tensor:
        ctx.state = state
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.state.add_(gradient.abs().mean() * 100)
        return gradient * 1.5, None


@kind("an autograd function that changes a buffer in its backward pass", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.end(_MovesBackward.apply(self.a(x) * self.state.clone(), self.state))
