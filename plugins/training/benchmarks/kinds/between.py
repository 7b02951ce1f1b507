"""Changes between the passes, or between graphs."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.kinds.kind import BATCH, WIDTH, Compile, Net, batch, descend, kept, kind
from torch import Tensor

GROUP = "changes between passes and graphs"


@kind("two compiled functions that share a buffer", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    class Reads(Net):
        def make(self) -> None:
            self.keep("state", torch.ones(BATCH, WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            return self.end(self.a(x) * self.state.exp())

    net = Reads().double()

    def moves(x: Tensor) -> Tensor:
        net.state.mul_(0.9).add_(x, alpha=0.1)
        return net.state.sum()

    reads, moves_state, results = wrap(net), wrap(moves), list[Tensor]()
    for _ in range(2):
        x = batch()
        results.append(moves_state(x))
        loss = reads(x)
        loss.backward()
        results += [loss.detach(), *descend(net.parameters())]
    return results + kept(net)


def _between(wrap: Compile, change: Any) -> list[Tensor]:
    """Something changes what the step read, between its forward and its backward pass."""

    class Reads(Net):
        def make(self) -> None:
            self.keep("state", torch.ones(BATCH, WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            return self.end(self.a(x) * self.state.exp().sin())

    net = Reads().double()
    reads, results = wrap(net), list[Tensor]()
    for _ in range(2):
        x = batch()
        loss = reads(x)
        change(net, x)
        loss.backward()
        results += [loss.detach(), *descend(net.parameters())]
    return results + kept(net)


@kind("eager code changes a buffer between the passes", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    def change(net: Any, x: Tensor) -> None:
        net.state.add_(1)

    return _between(wrap, change)


@kind("another compiled function changes a buffer between the passes", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    moved: list[Any] = []

    def change(net: Any, x: Tensor) -> None:
        if not moved:
            moved.append(wrap(lambda x: net.state.mul_(0.5).add_(x).sum()))
        moved[0](x)

    return _between(wrap, change)


@kind("a graph break with a change between", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.state.exp()
        torch._dynamo.graph_break()
        self.state.add_(y.detach())
        return self.end(y * self.state.sin())


@kind("a static batch refilled before the backward pass", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    class Reads(Net):
        def forward(self, x: Tensor) -> Tensor:
            return self.end(self.a(x.exp().sin()))

    net = Reads().double()
    compiled, x, results = wrap(net), batch(), list[Tensor]()
    for _ in range(2):
        loss = compiled(x)
        x.normal_()
        loss.backward()
        results += [loss.detach(), *descend(net.parameters())]
    return results + kept(net)


def _after(wrap: Compile, change: Any) -> list[Tensor]:
    """What a step returns, and what it was given, is changed before its backward pass."""

    class Returns(Net):
        def forward(self, x: Tensor) -> Any:
            h = self.a((x + 1).exp().tanh().sigmoid())
            return self.end(h.exp().tanh().sigmoid()), h

    net, results = Returns().double(), list[Tensor]()
    step = wrap(net)
    for _ in range(2):
        x = batch().requires_grad_()
        loss, h = step(x)
        change(x, h)
        loss.backward()
        assert x.grad is not None
        results += [loss.detach(), x.grad, *descend(net.parameters())]
    return results + kept(net)


@kind("a result is changed before the backward pass", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    return _after(wrap, lambda x, h: h.data.zero_())


@kind("an input with a gradient is filled anew before the backward pass", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    return _after(wrap, lambda x, h: x.data.fill_(1.0))


@kind("index_put_ of two forward passes before their backward passes", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    class Counts(Net):
        def make(self) -> None:
            self.keep("table", torch.ones(16, WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            rows = (x[:, 0].abs() * 7).long() % 16
            self.table.index_put_((rows,), 0.01 * x, accumulate=True)
            return self.end(self.a(x) * self.table[rows].cos())

    net = Counts().double()
    step, results = wrap(net), list[Tensor]()
    for _ in range(2):
        losses = [step(batch()), step(batch())]
        sum(losses).backward()
        results += [*(loss.detach() for loss in losses), *descend(net.parameters())]
    return results + kept(net)
