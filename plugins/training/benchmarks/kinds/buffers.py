"""Steps that change a buffer in place."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from benchmarks.kinds.kind import BATCH, WIDTH, Compile, Net, batch, descend, kept, kind, train
from torch import Tensor, nn

GROUP = "buffers changed in place"


@kind("a running mean read before its update", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x - self.mean)
        self.mean.lerp_(x.mean(0), 0.5)
        return self.end(y)


@kind("a running mean read after its update", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.lerp_(x.mean(0), 0.5)
        return self.end(self.a(x - self.mean))


@kind("a running mean read before and after its update", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("mean", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x * self.mean.exp())
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return self.end(y * self.mean.exp().cos())


@kind("a memory moved towards what each step sees", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("memory", torch.zeros(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        self.memory.lerp_(h.detach(), 0.5)
        return self.end((h * self.memory.exp()).sin() * self.memory.cos())


@kind("a memory read through a chain before and after", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("memory", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x) * self.memory.exp().sin().cos()
        self.memory.add_(h.detach()).mul_(0.5)
        return self.end(h * self.memory.sin())


@kind("exp of a buffer, then the buffer is added to", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("gate", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.gate.exp()
        self.gate.add_(1)
        return self.end(y.sin() * y)


@kind("batch norm in training", GROUP)
class _(Net):
    def make(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.norm(self.a(x)))


@kind("batch norm whose statistics are read before", GROUP)
class _(Net):
    def make(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x - self.norm.running_mean)
        return self.end(self.norm(h))


@kind("batch norm whose statistics are read after", GROUP)
class _(Net):
    def make(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.a(x))
        return self.end(h * self.norm.running_var.sqrt()) + h.sin().mean()


@kind("batch norm in eval and then in training", GROUP)
class _(Net):
    def make(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        norm = self.norm
        fixed = F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, False)
        return self.end(norm(self.a(fixed)))


@kind("one batch norm used twice", GROUP)
class _(Net):
    def make(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.norm(self.b(self.norm(self.a(x)).relu())))


@kind("two buffers swapped", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("old", torch.zeros(WIDTH))
        self.keep("new", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x + self.old) * self.new.exp()
        spare = self.old.clone()
        self.old.copy_(self.new)
        self.new.copy_(spare + x.mean(0))
        return self.end(y)


@kind("a cache written by slice", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("cache", torch.zeros(2 * BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        before = self.cache.sin()
        self.cache[:BATCH] = self.a(x).detach()
        return self.end(self.a(x) * (before + self.cache.cos())[BATCH // 2 : BATCH // 2 + BATCH])


@kind("a cache written by slice with a gradient", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("cache", torch.zeros(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        cache = self.cache.clone()
        cache[: BATCH // 2] = self.a(x)[: BATCH // 2]
        self.cache.copy_(cache.detach())
        return self.end(cache.sin() * cache)


@kind("a cache written by index", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("cache", torch.ones(BATCH, WIDTH))
        self.keep("rows", torch.arange(BATCH).flip(0)[: BATCH // 2])

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        y = h * self.cache.exp()
        self.cache[self.rows] = h.detach()[self.rows]
        return self.end(y * self.cache.cos())


@kind("a cache written by scatter_", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("cache", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        y = h * self.cache.exp()
        self.cache.scatter_(1, h.detach().argmax(1, keepdim=True), 0.0)
        return self.end(y * self.cache.cos())


@kind("a cache written by copy_", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("cache", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        y = h + self.cache
        self.cache.copy_(h.detach())
        return self.end(y * y.sin())


@kind("a cache written by out=", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("cache", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        y = h * self.cache.exp()
        torch.add(self.cache, x, out=self.cache)
        return self.end(y * self.cache.cos())


@kind("index_add_ and index_copy_ into a buffer", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("sums", torch.zeros(8, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        which = torch.arange(BATCH) % 8
        h = self.a(x) + self.sums[which].cos()
        self.sums.index_add_(0, which, x)
        self.sums.index_copy_(0, which[:2], x[:2])
        return self.end(h * self.sums[which].tanh())


@kind("masked_fill_ and masked_scatter_ of a buffer", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.linspace(-1, 1, BATCH * WIDTH).view(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x) * self.state.exp()
        self.state.masked_fill_(x > 0, 0.25).masked_scatter_(x < -1, x)
        return self.end(h * self.state.cos())


@kind("a queue rolled by the batch", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("queue", torch.ones(4 * BATCH, WIDTH))
        self.keep("at", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        key = F.normalize(self.a(x), dim=1)
        score = key @ self.queue.clone().t()
        self.queue.copy_(torch.roll(self.queue, BATCH, 0))
        self.queue[:BATCH] = key.detach()
        self.at.add_(1).remainder_(4)
        return score.logsumexp(1).mean() + self.end(key)


@kind("a contrastive queue whose view is read", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("queue", torch.ones(WIDTH, 2 * BATCH))

    def forward(self, x: Tensor) -> Tensor:
        key = F.normalize(self.a(x), dim=1)
        score = torch.cat([key @ key.detach().t(), key @ self.queue.sin()], 1)
        self.queue[:, :BATCH] = key.detach().t()
        return score.logsumexp(1).mean()


@kind("a counter that scales the loss", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("count", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.end(self.a(x) * self.count) / self.count


@kind("a counter read before it counts", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("count", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        scale = 1 / self.count
        y = self.end(self.a(x) * self.count.sqrt())
        self.count += 1
        return y * scale


@kind("a mask negated in place", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("mask", torch.arange(WIDTH) % 2 == 0)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x).masked_fill(self.mask.clone(), 0.5)
        self.mask.logical_not_()
        return self.end(y.sin().masked_fill(self.mask, -1.0))


@kind("an integer buffer that indexes, shifted", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("order", torch.arange(BATCH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)[self.order.clone()]
        self.order.add_(3).remainder_(BATCH)
        return self.end(y * self.a(x)[self.order].sin())


@kind("noise kept in a buffer that was read", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("noise", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.noise.exp()
        self.noise.normal_()
        return self.end(y * self.noise.cos())


@kind("uniform_ into a buffer that was read", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("noise", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.noise.exp()
        self.noise.uniform_(0.5, 1.5)
        return self.end(y)


@kind("a buffer that is set anew, not changed", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.zeros(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x) * self.state.exp()
        self.state = h.detach().tanh()
        return self.end(h * self.state.cos())


@kind("a buffer resized by no one, but filled", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.zeros(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x) + self.state.exp()
        self.state.fill_(0.25)
        self.state[0].fill_(1.0)
        return self.end(h * self.state.sin())


@kind("the state of an optimizer within the step", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("velocity", torch.zeros(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = F.linear(x, self.a.weight - 0.1 * self.velocity.tanh(), self.a.bias)
        self.velocity.mul_(0.9).add_(self.a.weight.detach(), alpha=0.1)
        return self.end(h)


@kind("a buffer changed through a module that runs twice", GROUP)
class _(Net):
    def make(self) -> None:
        self.inner = _Moving()

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.inner(self.inner(self.a(x)).sin()))


class _Moving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = (x - self.state).exp().clamp(max=10)
        self.state.lerp_(x.detach().mean(0), 0.3)
        return y * self.state.cos()


@kind("a buffer changed in eval mode too", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    class Both(Net):
        def make(self) -> None:
            self.norm = nn.BatchNorm1d(WIDTH)
            self.inner = _Moving()

        def forward(self, x: Tensor) -> Tensor:
            return self.end(self.inner(self.norm(self.a(x))))

    net, results = Both().double(), list[Tensor]()
    compiled = wrap(net)
    for training in (True, False, True):
        net.train(training)
        loss = compiled(batch())
        loss.backward()
        results += [loss.detach(), *descend(net.parameters())]
    return results + kept(net)


@kind("a buffer changed in a part without gradients", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    class Part(Net):
        def make(self) -> None:
            self.inner = _Moving()

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                seen = self.inner(x)
            return self.end(self.a(x) * seen)

    return train(Part().double(), wrap)


@kind("a batch norm of lower precision without weights", GROUP, 1e-6, 1e-1)
class _(Net):
    def make(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        self.norm.float()
        h = self.norm(
            F.linear(x, self.a.weight).bfloat16()
        ).relu()  # the gradient of a bias would be rounding
        return self.end(self.norm(h).double().sin())
