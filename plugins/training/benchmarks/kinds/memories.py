"""Steps that keep teachers, codebooks, statistics and memories, and move them in place."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from benchmarks.kinds.kind import BATCH, WIDTH, Compile, Net, batch, descend, kind
from torch import Tensor, nn

GROUP = "memories"


@kind("a teacher that follows its student", GROUP)
class _(Net):
    def make(self) -> None:
        self.teacher = nn.Linear(WIDTH, WIDTH).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        wanted = self.teacher(x).tanh()
        with torch.no_grad():
            for ours, theirs in zip(self.teacher.parameters(), self.a.parameters(), strict=True):
                ours.lerp_(theirs, 0.1)
        return self.end(self.a(x) - wanted)


@kind("a teacher that moves first", GROUP)
class _(Net):
    def make(self) -> None:
        self.teacher = nn.Linear(WIDTH, WIDTH).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            for ours, theirs in zip(self.teacher.parameters(), self.a.parameters(), strict=True):
                ours.mul_(0.9).add_(theirs, alpha=0.1)
            wanted = self.teacher(x).tanh()
        return self.end(self.a(x) * wanted.exp())


@kind("a codebook moved by its members", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("book", torch.linspace(-1, 1, 16 * WIDTH).view(16, WIDTH))
        self.keep("uses", torch.ones(16))
        self.keep("sums", torch.linspace(-1, 1, 16 * WIDTH).view(16, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        which = torch.cdist(h.detach(), self.book).argmin(1)
        chosen = self.book[which]
        one_hot = F.one_hot(which, 16).to(h.dtype)
        self.uses.mul_(0.9).add_(one_hot.sum(0), alpha=0.1)
        self.sums.mul_(0.9).add_(one_hot.t() @ h.detach(), alpha=0.1)
        self.book.copy_(self.sums / self.uses[:, None])
        return self.end(h + (chosen - h).detach()) + (h - chosen).square().mean()


@kind("a normaliser of inputs with Welford's counts", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("mean", torch.zeros(WIDTH))
        self.keep("spread", torch.ones(WIDTH))
        self.keep("count", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        y = (x - self.mean) / (self.spread / self.count).sqrt()
        with torch.no_grad():
            self.count += x.shape[0]
            delta = x.mean(0) - self.mean
            self.mean += delta * x.shape[0] / self.count
            self.spread += x.var(0) * x.shape[0] + delta.square()
        return self.end(self.a(y.clamp(-5, 5)))


@kind("the memory of a recurrent transformer", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("memory", torch.zeros(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        both = torch.cat([self.memory, x])
        scores = (self.a(x) @ self.a(both).t()).softmax(-1)
        h = scores @ both
        self.memory.copy_(h.detach())
        return self.end(h)


@kind("centres of a self-supervised loss", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("centre", torch.zeros(1, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        target = ((self.a(x).detach() - self.centre) / 0.1).softmax(-1)
        self.centre.mul_(0.9).add_(target.mean(0, keepdim=True), alpha=0.1)
        return -(target * self.b(self.a(x).sin()).log_softmax(-1)).sum(-1).mean()


@kind("an accumulator of losses", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("total", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        loss = self.end(self.a(x))
        self.total += loss.detach()
        return loss / (1 + self.total)


@kind("a state zeroed and then filled in a loop", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h, total = self.a(x), 0.0
        self.state.zero_()
        for _ in range(3):
            total = total + self.end(h * self.state.exp())
            self.state.add_(h.detach().sin())
        return total


@kind("a spiking state with a reset", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("potential", torch.zeros(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        potential = self.potential + self.a(x)
        spikes = torch.sigmoid(4 * (potential - 1))
        self.potential.copy_((potential * (1 - spikes)).detach())
        return self.end(spikes * potential.exp().clamp(max=9))


@kind("a histogram counted by bincount and add_", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("bins", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        weight = (1 / self.bins).softmax(0)
        which = (x.detach().mean(1) * 2).long().clamp(0, 3)
        self.bins.scatter_add_(0, which, torch.ones_like(which, dtype=self.bins.dtype))
        return (self.a(x).sin().square().mean(1) * weight[which]).sum() * self.bins.mean()


@kind("batch renormalisation", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("mean", torch.zeros(WIDTH))
        self.keep("spread", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        mean, spread = h.mean(0), h.std(0) + 1e-3
        scale = (spread.detach() / self.spread).clamp(0.3, 3)
        shift = ((mean.detach() - self.mean) / self.spread).clamp(-5, 5)
        y = (h - mean) / spread * scale + shift
        self.mean += 0.1 * (mean.detach() - self.mean)
        self.spread += 0.1 * (spread.detach() - self.spread)
        return self.end(y)


@kind("a memory of another precision", GROUP, 1e-6)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        state = self.state.float()
        y = self.a(x) * state.exp().double()
        self.state.copy_(state.mul_(0.5))
        return self.end(y * state.double())


@kind("a memory outside of any module", GROUP)
def _(wrap: Compile) -> list[Tensor]:
    state, net = torch.ones(BATCH, WIDTH, dtype=torch.float64), Net().double()

    def loss_of(x: Tensor) -> Tensor:
        y = net.a(x) * state.exp()
        state.mul_(0.5).add_(x)
        return net.end(y * state.cos())

    step, results = wrap(loss_of), list[Tensor]()
    for _ in range(2):
        loss = step(batch())
        loss.backward()
        results += [loss.detach(), *descend(net.parameters())]
    return [*results, state]


@torch.library.custom_op("egrl_kinds::move", mutates_args=("state",))
def move(state: Tensor, by: Tensor) -> Tensor:
    """A custom op that changes what it is given."""
    state.mul_(0.5).add_(by)
    return state + by


@move.register_fake
def _(state: Tensor, by: Tensor) -> Tensor:
    return torch.empty_like(state)


@kind("a memory moved by a custom op", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.state.exp()
        z = move(self.state, x.detach())
        return self.end(y * self.state.cos() + z)


@kind("products of matrices added to a memory with a factor", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        self.state.mul_(0.9).add_(x.t() @ x, alpha=0.001)
        return self.end(torch.add(self.a(x), x @ self.state, alpha=0.01))


@kind("a memory moved twice by a custom op, between reads", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.ones(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * self.state.exp()
        for scale in (1.0, 0.5):
            y = (y + move(self.state, scale * x.detach())) * self.state.cos()
        return self.end(y)


@kind("a running mean of one number", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("mean", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.add_(x.mean())
        return self.end(self.a(x) - self.mean)
