"""Steps that change parameters, inputs, views or values in place; and changes between the passes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.kinds.kind import BATCH, WIDTH, Compile, Net, batch, descend, kept, kind
from torch import Tensor, nn

GROUP = "other changes in place"


@kind("power iteration of a spectral norm", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("u", F.normalize(torch.ones(WIDTH), dim=0))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.a.weight
        with torch.no_grad():
            v = F.normalize(weight.t() @ self.u, dim=0)
            self.u.copy_(F.normalize(weight @ v, dim=0))
        sigma = self.u.clone() @ weight @ v
        return self.end(F.linear(x, weight / sigma, self.a.bias))


@kind("PyTorch's parametrised spectral norm", GROUP)
class _(Net):
    def make(self) -> None:
        torch.nn.utils.parametrizations.spectral_norm(self.a)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x))


@kind("PyTorch's spectral norm by hooks", GROUP)
class _(Net):
    def make(self) -> None:
        torch.nn.utils.spectral_norm(self.a)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x))


class _Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, weight: Tensor) -> Tensor:
        self.count += 1
        return weight * (1 + 1 / self.count)


@kind("a weight parametrised with a counter", GROUP)
class _(Net):
    def make(self) -> None:
        torch.nn.utils.parametrize.register_parametrization(self.a, "weight", _Counted())

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(self.a(x)))


@kind("a parameter scaled without gradient before its use", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.a.weight.mul_(0.9)
        return self.end(self.a(x))


@kind("a parameter normalised without gradient before its use", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.a.weight.copy_(F.normalize(self.a.weight, dim=1))
        return self.end(self.a(x).sin())


@kind("the data of a weight changed after a read", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x.sin())
        self.a.weight.data.mul_(0.5)
        return self.end(y)


@kind("the data of a weight changed before and after a read", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        self.a.weight.data.clamp_(-0.1, 0.1)
        y = self.a(x).exp().sin()
        self.a.weight.data.add_(0.01)
        return self.end(y)


@kind("an input changed in place", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x.sin())
        x.mul_(0.5).add_(1)
        return self.end(y * x.exp())


@kind("an input normalised in place first", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        x.sub_(x.mean()).div_(x.std())
        return self.end(self.a(x))


@kind("an input read and then zeroed", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x * 2)
        loss = self.end(y * x.cos())
        x.zero_()
        return loss


@kind("an input list and a dict changed in place", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        state = {"h": x, "list": [x + 1]}
        state["list"][0].mul_(2)
        y = self.a(state["list"][0])
        state["h"].add_(y.detach())
        return self.end(y * state["h"].exp())


@kind("a view of a buffer read, the whole changed", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("table", torch.ones(2 * BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        row = self.table[BATCH:]
        y = self.a(x) * row.exp()
        self.table.mul_(0.5)
        return self.end(y * row.cos())


@kind("the whole of a buffer read, a view changed", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("table", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.table.exp()
        self.table[:, ::2].add_(x[:, ::2])
        self.table.t()[0].zero_()
        return self.end(y * self.table.cos())


@kind("two buffers that share memory", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("whole", torch.ones(BATCH, WIDTH, dtype=torch.float64))
        self.keep("part", self.whole[:, : WIDTH // 2])

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.whole.exp()
        self.part.add_(x[:, : WIDTH // 2])
        return self.end(y * self.whole.cos())


@kind("a view by as_strided and unfold, then changed", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("line", torch.linspace(0, 1, BATCH + WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        windows = self.line.unfold(0, WIDTH, 1)[:BATCH]
        same = self.line.as_strided((BATCH, WIDTH), (1, 1))
        y = self.a(x) * windows.exp() + same.sin()
        self.line.mul_(0.5).add_(x.mean())
        return self.end(y)


@kind("an in-place activation", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return self.end(F.relu(h, inplace=True) + F.silu(self.b(x), inplace=False))


@kind("in-place arithmetic on values of the step", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x).mul(2)
        h += x
        h[:, 0] = 0
        h[h < 0] *= 0.1
        return self.end(h)


@kind("embedding with max_norm", GROUP)
class _(Net):
    def make(self) -> None:
        self.table = nn.Embedding(16, WIDTH, max_norm=1.0)

    def forward(self, x: Tensor) -> Tensor:
        which = (x[:, 0].abs() * 7).long() % 16
        return self.end(self.a(self.table(which)))


class _ScalesInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 3


@kind("an autograd function that marks its input dirty", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(_ScalesInput.apply(self.a(x).sin()))


class _KeepsState(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, state: Tensor) -> Tensor:
        ctx.state = state
        return x * state.exp()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.state.exp(), None


@kind("an autograd function that holds a buffer which then changes", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = _KeepsState.apply(self.a(x), self.state)
        self.state.add_(0.5)
        return self.end(y)


@kind("the data of a buffer changed after a product that saved it", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.state
        self.state.data.add_(0.5)
        return self.end(y)


@kind("a part of the data of a buffer changed after a view of it was saved", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(2 * BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.state[:BATCH]
        self.state.data[:7].add_(0.5)
        return self.end(y)


@kind("weights changed by their data between two uses", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        self.a.weight.data.mul_(0.5)
        y = self.a(y)
        self.a.bias.data.add_(1.0)
        return self.end(y)


@kind("the data of a value of the step changed", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        y = h * h
        h.data.mul_(0.5)
        return self.end(y + h)


@kind("the data of an input changed", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        x.data.mul_(0.5)
        return self.end(y)


@kind("a value changed in a part without gradients", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        with torch.no_grad():
            h.mul_(0.5)
        return self.end(h)


@kind("a bias moved at the end of the forward pass", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = self.end(self.a(x) * self.b.bias.exp())
        with torch.no_grad():
            self.b.bias.add_(0.1)
        return y


@kind("a buffer that is set to another tensor", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.state.exp()
        self.state.set_(x.detach().clone())
        return self.end(y)


@kind("data that is assigned", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.state.exp()
        self.state.data = x.detach().sin()
        return self.end(y)


@kind("several buffers changed by _foreach_ ops", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("first", torch.ones(BATCH, WIDTH))
        self.keep("second", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.first.exp() + self.second.sin()
        torch._foreach_mul_([self.first, self.second], 0.5)
        torch._foreach_add_([self.first, self.second], [x, x.sin()])
        return self.end(y * self.first.cos())


@kind("two halves of a buffer exchanged", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.linspace(0, 1, 2 * BATCH * WIDTH).view(2 * BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.state[BATCH:].exp()
        spare = self.state[:BATCH].clone()
        self.state[:BATCH] = self.state[BATCH:]
        self.state[BATCH:] = spare
        return self.end(y * self.state[:BATCH].cos())


def _of_two_inputs(wrap: Compile, second: Any) -> list[Tensor]:
    """An input is changed, of which the other is `second`."""
    net = Net().double()

    def loss_of(x: Tensor, z: Tensor) -> Tensor:
        y = net.a(x.exp())
        z.mul_(0.5)
        return net.end(y * x.cos())

    step, results = wrap(loss_of), list[Tensor]()
    for _ in range(2):
        x = batch()
        loss = step(x, second(x))
        loss.backward()
        results += [loss.detach(), x, *descend(net.parameters())]
    return results


@kind("one tensor as two inputs, of which one is changed", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    return _of_two_inputs(wrap, lambda x: x)


@kind("a view of an input as another input, which is changed", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    return _of_two_inputs(wrap, lambda x: x[:7])


@kind("a changed buffer and a view of it as results", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    class Returned(Net):
        def make(self) -> None:
            self.keep("state", torch.ones(BATCH, WIDTH))

        def forward(self, x: Tensor) -> Any:
            y = self.a(x) * self.state.exp()
            self.state.add_(x)
            return self.end(y), self.state, self.state[:3]

    net = Returned().double()
    step, results = wrap(net), list[Tensor]()
    for _ in range(2):
        loss, whole, part = step(batch())
        loss.backward()
        results += [loss.detach(), whole.clone(), part.clone(), *descend(net.parameters())]
    return results + kept(net)
