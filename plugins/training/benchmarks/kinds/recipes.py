"""Steps as whole recipes of training have them: queues, quantisation, experts, policies, diffusion."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.kinds.kind import BATCH, WIDTH, Compile, Net, batch, descend, kept, kind
from torch import Tensor, nn

GROUP = "recipes"


@kind("running quantiles that scale what follows", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("levels", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        y = (h - self.levels[1]) / (1 + (self.levels[2] - self.levels[0]).abs())
        shares = torch.tensor([0.1, 0.5, 0.9], dtype=h.dtype)
        self.levels.lerp_(torch.quantile(h.detach().flatten(), shares), 0.2)
        return self.end(y * self.levels[1].exp())


@kind("a contrastive queue with a pointer and its teacher", GROUP)
class _(Net):
    def make(self) -> None:
        self.keys = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.keep("queue", torch.linspace(-1, 1, WIDTH * 2 * BATCH).view(WIDTH, 2 * BATCH))
        self.keep("at", torch.zeros(1, dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        query = F.normalize(self.a(x), dim=1)
        with torch.no_grad():
            for ours, theirs in zip(self.keys.parameters(), self.a.parameters(), strict=True):
                ours.data.mul_(0.9).add_(theirs.data, alpha=0.1)
            key = F.normalize(self.keys(x + 0.1), dim=1)
        alike = torch.cat([(query * key).sum(1, keepdim=True), query @ self.queue.clone()], 1)
        self.queue[:, (torch.arange(BATCH) + self.at) % (2 * BATCH)] = key.t()
        self.at.add_(BATCH).remainder_(2 * BATCH)
        return F.cross_entropy(alike / 0.1, torch.zeros(BATCH, dtype=torch.long))


@kind("a codebook whose dead codes start anew", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("book", torch.linspace(-1, 1, 16 * WIDTH).view(16, WIDTH))
        self.keep("uses", torch.ones(16))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        which = (self.book.square().sum(1) - 2 * h @ self.book.t()).argmin(1)
        chosen = F.embedding(which, self.book)
        members = F.one_hot(which, 16).type_as(h)
        self.uses.data.mul_(0.9).add_(members.sum(0), alpha=0.1)
        self.book.data.lerp_(members.t() @ h.detach() / self.uses[:, None].clamp(min=1e-5), 0.1)
        self.book.data.copy_(torch.where(self.uses[:, None] < 1, h.detach()[:16], self.book))
        return self.end(h + (chosen - h).detach()) + 0.25 * (h - chosen.detach()).square().mean()


@kind("index_put_ that adds, between reads", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("table", torch.ones(16, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        rows = (x[:, 0].abs() * 7).long() % 16
        h = self.a(x) * self.table[rows].exp()
        self.table.index_put_((rows,), 0.01 * x, accumulate=True)
        h = h * self.table[rows].cos()
        self.table.index_put_((rows[:3], torch.arange(3)), torch.zeros(3, dtype=x.dtype))
        return self.end(h + self.table.mean())


@kind("rows, columns and a diagonal written, between reads", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("table", torch.ones(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x) @ (self.table.exp() * 0.01)
        for change in (lambda t: t[3:9], lambda t: t[:, 2], lambda t: t.diagonal()):
            part = change(self.table)
            part.copy_(0.1 * x[: part.shape[0], : part[0].numel()].reshape(part.shape))
            h = (h @ self.table.cos() * 0.03).sin()
        return self.end(h + self.table.mean())


@kind("scatter_reduce_, index_reduce_ and put_ into buffers", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("most", torch.ones(16, WIDTH))
        self.keep("mean", torch.ones(16, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        rows = (x[:, 0].abs() * 7).long() % 16
        h = self.a(x) * self.most[rows].exp() * self.mean.exp().mean(0)
        self.most.scatter_reduce_(0, rows[:, None].expand(-1, WIDTH), x, "amax")
        self.mean.index_reduce_(0, rows, x, "mean")
        self.mean.put_(torch.tensor([0, 5]), torch.zeros(2, dtype=x.dtype))
        return self.end(h * self.most[rows].cos() + self.mean.mean())


@kind("diagonals and every second row of a buffer changed", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("mix", torch.ones(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x) @ self.mix.exp()
        self.mix.diagonal().add_(x.mean(0))
        h = h @ (self.mix * 0.01)
        self.mix[::2, 1::2].mul_(0.5)
        self.mix.fill_diagonal_(0.3)
        self.mix.t()[3:5].zero_()
        return self.end(h + (self.mix.sin() @ self.mix.cos()).mean(0))


@kind("parts of a buffer by chunk, split, unbind and movedim, changed", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(4, 8, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x) * self.state.exp().mean((0, 1))
        first, second = self.state.chunk(2, 0)
        first.add_(x[:8] * 0.1)
        second.mul_(0.9)
        self.state.unbind(1)[3].add_(1)
        self.state.movedim(2, 0)[0].zero_()
        self.state.flatten(0, 1).split([20, 12])[1].neg_()
        return self.end(h * self.state.cos().mean((0, 1)))


@kind("complex numbers, and views of their parts changed", GROUP)
class _(Net):
    def make(self) -> None:
        self.register_buffer("turn", torch.ones(WIDTH, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.complex(self.a(x), x) * self.turn.to(torch.complex128).conj()
        y = h.abs() + h.angle().sin()
        self.turn.mul_(1j).add_(0.1)
        torch.view_as_real(self.turn)[:, 0].add_(0.3)
        self.turn.conj().imag.mul_(0.5)
        return self.end(y * self.turn.abs().double() + self.turn.conj().real)


@kind("truth values, ages and bits that move", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("seen", torch.zeros(WIDTH, dtype=torch.bool))
        self.keep("age", torch.zeros(WIDTH, dtype=torch.int32))
        self.keep("bits", torch.full((WIDTH,), 5, dtype=torch.uint8))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x) * (1 + self.seen.to(x.dtype))
        self.seen |= x.mean(0) > 0.5
        self.age.add_(1).masked_fill_(self.seen, 0)
        h = h * torch.exp(-self.age.to(x.dtype))
        self.bits ^= self.seen.to(torch.uint8)
        self.bits.bitwise_left_shift_(1)
        return self.end(h * torch.where(self.seen, h, x)) + self.bits.double().mean()


@kind("rounding to a range that moves", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("low", torch.zeros(()))
        self.keep("high", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        self.low.copy_(torch.minimum(self.low * 0.9, h.detach().min()))
        self.high.copy_(torch.maximum(self.high * 0.9, h.detach().max()))
        scale = (self.high - self.low) / 255
        return self.end(h + ((h / scale).round() * scale - h).detach()) + self.high * self.a.bias.mean()


@kind("experts balanced by a bias that moves", GROUP)
class _(Net):
    def make(self) -> None:
        self.gate = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.keep("bias", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        score = self.gate(x).sigmoid()
        chosen = F.one_hot((score + self.bias).topk(2, dim=-1)[1], 4).sum(1).to(x.dtype)
        y = sum(each(x) * (score * chosen)[:, n : n + 1] for n, each in enumerate(self.experts))
        load = chosen.sum(0)
        self.bias.add_(torch.sign(load.mean() - load), alpha=0.01)
        return self.end(y)


@kind("the data of a weight read by a view, and changed", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        weight = self.a.weight.data
        y = self.a(x) * weight[0].exp()
        weight[:4].mul_(0.9)
        return self.end(y * weight.mean())


@kind("a state carried from step to step through time", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    net, results = Net().double(), list[Tensor]()

    def unrolled(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(3):
            h = torch.tanh(net.a(x) + net.b(h))
        return net.end(h), h

    step, h = wrap(unrolled), torch.zeros(BATCH, WIDTH, dtype=torch.float64)
    for _ in range(2):
        loss, h = step(batch(), h)
        loss.backward()
        h = h.detach()
        results += [loss.detach(), h, *descend(net.parameters())]
    return results + kept(net)


@kind("a scale of the loss that follows overflow", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("scale", torch.full((), 1024.0))
        self.keep("good", torch.zeros((), dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale.clone()
        loss = self.end(self.a(x)) * scale
        finite = torch.isfinite(loss.detach())
        self.good.add_(1).mul_(finite)
        larger = torch.where(self.good >= 1, self.scale * 2, self.scale)
        self.scale.copy_(torch.where(finite, larger, self.scale * 0.5))
        return loss / scale


@kind("an update of low rank merged and taken out again", GROUP)
class _(Net):
    def make(self) -> None:
        self.down = nn.Parameter(torch.full((4, WIDTH), 0.1))
        self.up = nn.Parameter(torch.full((WIDTH, 4), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.a.weight += self.up @ self.down
        h = self.a(x.sin())
        with torch.no_grad():
            self.a.weight -= self.up @ self.down
        return self.end(h + (x @ self.down.t()) @ self.up.t())


@kind("results that are inputs, buffers and views of them", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    class Many(Net):
        def make(self) -> None:
            self.keep("state", torch.ones(BATCH, WIDTH))

        def forward(self, x: Tensor) -> Any:
            h = self.a(x)
            y = h * self.state.exp()
            self.state.add_(h.detach())
            return self.end(y), x, self.state, self.state[:3].t(), h.view(-1)[2:9], h.detach().t()

    net, results = Many().double(), list[Tensor]()
    step = wrap(net)
    for _ in range(2):
        loss, *more = step(batch())
        (loss + more[3].sum()).backward()
        results += [loss.detach(), *(each.detach().clone() for each in more), *descend(net.parameters())]
    return results + kept(net)


@kind("whitening by a covariance that moves", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("spread", torch.eye(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        factor = torch.linalg.cholesky(self.spread + torch.eye(WIDTH, dtype=x.dtype))
        y = torch.linalg.solve_triangular(factor, h.t(), upper=False).t()
        around = (h - h.mean(0)).detach()
        self.spread.mul_(0.9).addmm_(around.t(), around, alpha=0.1 / BATCH)
        return self.end(y @ self.spread)


@kind("experience drawn from a buffer before and after it is written", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("seen", torch.ones(4 * BATCH, WIDTH))
        self.keep("at", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        old = self.seen[torch.randint(0, 4 * BATCH, (BATCH,))]
        self.seen[(self.at + torch.arange(BATCH)) % (4 * BATCH)] = x
        self.at += BATCH
        new = self.seen[torch.randint(0, 4 * BATCH, (BATCH,))]
        return self.end(self.a(old)) + self.end(self.a(new))


@kind("returns normalised, and the last layer rescaled with them", GROUP)
class _(Net):
    def make(self) -> None:
        self.value = nn.Linear(WIDTH, 1)
        self.keep("mean", torch.zeros(1))
        self.keep("square", torch.ones(1))

    def _spread(self) -> Tensor:
        return (self.square - self.mean**2).clamp(min=1e-3).sqrt()

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = x.mean(1, keepdim=True)
            mean, spread = self.mean.clone(), self._spread()
            self.mean.lerp_(wanted.mean(0), 0.1)
            self.square.lerp_((wanted**2).mean(0), 0.1)
            self.value.weight.mul_(spread / self._spread())
            self.value.bias.mul_(spread).add_(mean - self.mean).div_(self._spread())
        found = self.value(self.a(x).tanh())
        return (found - (wanted - self.mean) / self._spread()).square().mean() + 0.1 * self.end(self.a(x))


@kind("diffusion with a table of times that moves", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("share", torch.linspace(0.99, 0.01, 50))
        self.keep("losses", torch.ones(50))
        self.times = nn.Embedding(50, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        time, noise = torch.multinomial(self.losses, BATCH, True), torch.randn_like(x)
        share = self.share[time][:, None]
        mixed = share.sqrt() * x + (1 - share).sqrt() * noise
        off = (self.b((self.a(mixed) + self.times(time)).sin()) - noise).square().mean(1)
        weight = self.losses.sum() / (50 * self.losses[time])
        self.losses.scatter_reduce_(0, time, off.detach(), "mean")
        return (off * weight).mean()


@kind("a graph break between reads and changes of a buffer", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x) * self.state.exp()
        self.state.mul_(0.5)
        torch._dynamo.graph_break()
        h = self.b(h.sin()) * self.state.exp()
        self.state.add_(h.detach())
        torch._dynamo.graph_break()
        return self.end(h * self.state.cos())


@kind("momentum and a rate of learning as tensors within the step", GROUP, 1e-6)
def _(wrap: Compile) -> list[Tensor]:
    net, rate = Net().double(), torch.tensor(0.1, dtype=torch.float64)
    moments = [torch.zeros_like(each) for each in net.parameters()]

    def whole(x: Tensor) -> Tensor:
        loss = net.end(net.a(x))
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for parameter, gradient, moment in zip(net.parameters(), gradients, moments, strict=True):
                moment.mul_(0.9).add_(gradient)
                parameter.sub_(rate * moment)
            rate.mul_(0.9)
        return loss.detach()

    step = wrap(whole)
    return [*(step(batch()) for _ in range(3)), *kept(net), rate, *moments]


@kind("a cache of keys and values filled by position", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("keys", torch.zeros(2 * BATCH, WIDTH))
        self.keep("values", torch.zeros(2 * BATCH, WIDTH))
        self.keep("at", torch.arange(BATCH))

    def forward(self, x: Tensor) -> Tensor:
        query = self.a(x)
        self.keys.index_copy_(0, self.at, self.b(x).detach())
        self.values.index_copy_(0, self.at, self.a(x.cos()).detach())
        seen = F.scaled_dot_product_attention(query[None], self.keys[None], self.values[None])[0]
        self.at.add_(BATCH).remainder_(2 * BATCH)
        return self.end(seen + query)
