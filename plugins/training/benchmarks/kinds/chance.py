"""Steps that draw random numbers: each is drawn once, and in the order of eager mode."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.kinds.kind import BATCH, WIDTH, Net, kind
from torch import Tensor, distributions, nn

GROUP = "random numbers"


@kind("dropout", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(F.dropout(self.a(x).tanh(), 0.3) * F.dropout(self.b(x), 0.1))


@kind("dropout of features and channels", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = F.dropout1d(self.a(x).view(BATCH, 4, -1), 0.3)
        h = F.dropout2d(h.view(BATCH, 4, 2, -1), 0.3) + F.dropout3d(h.view(BATCH, 4, 2, 2, -1), 0.2).view(
            BATCH, 4, 2, -1
        )
        return self.end(h.reshape(BATCH, WIDTH))


@kind("alpha dropout", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(F.alpha_dropout(F.selu(self.a(x)), 0.2, True) + F.feature_alpha_dropout(x, 0.2, True))


@kind("dropout in a part without gradients", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            mask = F.dropout(torch.ones_like(x), 0.5)
        return self.end(self.a(x).tanh() * mask.exp())


@kind("noise added to the input", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x + 0.1 * torch.randn_like(x)))


@kind("rand, randint and randperm", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        mix = torch.rand(BATCH, 1, dtype=x.dtype)
        other = torch.randperm(BATCH)
        rows = torch.randint(0, BATCH, (BATCH,))
        return self.end(self.a(mix * x + (1 - mix) * x[other]).sin() * self.a(x)[rows])


@kind("bernoulli and bernoulli_", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        mask = torch.bernoulli(torch.sigmoid(h.detach()))
        return self.end(h * mask + h.sin() * torch.empty_like(x).bernoulli_(0.5))


@kind("multinomial", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        chosen = torch.multinomial(h.detach().softmax(-1), 4)
        return self.end(h) + h.gather(1, chosen).exp().mean()


@kind("rrelu", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(F.rrelu(self.a(x), training=True))


@kind("Gumbel softmax", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(F.gumbel_softmax(self.a(x), tau=0.7) * x)


@kind("Gumbel softmax, hard", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(F.gumbel_softmax(self.a(x), tau=0.7, hard=True) * self.a(x))


@kind("attention with dropout", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        heads = self.a(x).view(4, BATCH // 4, 4, -1).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(heads, heads.sin(), heads.cos(), dropout_p=0.2)
        return self.end(mixed.transpose(1, 2).reshape(BATCH, WIDTH))


@kind("multi-head attention with dropout", GROUP)
class _(Net):
    def make(self) -> None:
        self.mix = nn.MultiheadAttention(WIDTH, 4, dropout=0.2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x).view(8, BATCH // 8, WIDTH)
        return self.end(self.mix(h, h, h, need_weights=False)[0].reshape(BATCH, WIDTH))


@kind("stochastic depth by row", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        keep = torch.rand(BATCH, 1, dtype=x.dtype).add(0.8).floor()
        return self.end(x + self.a(x) * keep / 0.8)


@kind("stochastic depth by layer, as a tensor", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = x
        for _ in range(3):
            h = torch.where(torch.rand((), dtype=x.dtype) < 0.5, h, self.a(h).tanh())
        return self.end(h)


@kind("rsample of a normal distribution", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        drawn = distributions.Normal(self.a(x), F.softplus(self.b(x)) + 0.1, validate_args=False).rsample()
        return self.end(drawn)


@kind("a variational autoencoder", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        mean, log_var = self.a(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        kl = (mean.square() + log_var.exp() - 1 - log_var).mean()
        return self.end(torch.cat([z, z.sin()], -1)) + 0.1 * kl


@kind("rsample of a gamma distribution", GROUP, 1e-6)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        shape = F.softplus(self.a(x)) + 0.5
        return self.end(distributions.Gamma(shape, torch.ones_like(shape), validate_args=False).rsample())


@kind("rsample of a Dirichlet distribution", GROUP, 1e-6)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(distributions.Dirichlet(F.softplus(self.a(x)) + 0.5, validate_args=False).rsample())


@kind("exponential_, log_normal_, cauchy_ and geometric_", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        for draw in (
            torch.empty_like(x).exponential_(),
            torch.empty_like(x).log_normal_(0, 0.1),
            torch.empty_like(x).cauchy_().tanh(),
            torch.empty_like(x).geometric_(0.5),
        ):
            h = (h * draw).sin()
        return self.end(h)


@kind("poisson and binomial", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        noise = torch.poisson(h.detach().exp().clamp(max=5)) + torch.binomial(
            torch.full_like(x, 4.0), torch.sigmoid(x)
        )
        return self.end(h * noise.sqrt())


@kind("random numbers drawn in a backward pass of one's own", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(_NoisyGradient.apply(self.a(x)))


class _NoisyGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad + 0.01 * torch.randn_like(grad)


@torch.library.custom_op("egrl_kinds::untagged_noise", mutates_args=())
def _untagged(x: Tensor) -> Tensor:
    return torch.rand_like(x)


@_untagged.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op(
    "egrl_kinds::tagged_noise", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,)
)
def _tagged(x: Tensor) -> Tensor:
    return torch.rand_like(x)


@_tagged.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@kind("a custom op that draws, without PyTorch's tag", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end((self.a(x) * _untagged(x.detach()).exp()).sin())


@kind("a custom op that draws, with PyTorch's tag", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end((self.a(x) * _tagged(x.detach()).exp()).sin())


@kind("dropout within a checkpoint", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        def part(h: Tensor) -> Tensor:
            return F.dropout(self.a(h).tanh(), 0.4)

        return self.end(torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False))


@kind("noise kept in a buffer and reused", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("noise", torch.zeros(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        old = self.noise.exp()
        self.noise.copy_(0.5 * self.noise + torch.randn_like(x))
        return self.end(self.a(x) * old + self.noise.cos())


@kind("zoneout between two states", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("state", torch.zeros(BATCH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        new = torch.tanh(self.a(x) + self.b(self.state.clone()))
        mixed = torch.where(torch.rand_like(new) < 0.3, self.state.clone(), new)
        self.state.copy_(mixed.detach())
        return self.end(mixed)


@kind("spatial dropout by a mask of blocks", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        image = self.a(x).view(BATCH // 8, 1, 16, 16)
        mask = (torch.rand_like(image) < 0.05).to(x.dtype)
        mask = 1 - F.max_pool2d(mask, 3, 1, 1)
        return self.end((image * mask * mask.numel() / (1 + mask.sum())).view(BATCH, WIDTH))
