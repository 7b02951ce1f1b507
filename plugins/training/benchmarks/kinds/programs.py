"""Steps with control flow, functions of one's own, unusual tensors and unusual modules."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.kinds.kind import BATCH, WIDTH, Net, batch, kind
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

GROUP = "programs"


@kind("torch.cond", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        return self.end(torch.cond(x.sum() > 0, lambda v: v.sin() * v, lambda v: v.cos(), (y,)))


@kind("torch.cond with layers in its branches", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.cond(x.mean() > 0.5, lambda v: self.a(v).tanh(), lambda v: self.b(v), (x,))
        return self.end(self.a(y) * y)


@kind("two torch.conds", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.cond(x.sum() > 0, lambda v: self.a(v).sin(), lambda v: v.cos(), (x,))
        z = torch.cond(x.sum() < 0, lambda v: self.b(v).exp(), lambda v: v.cos(), (y,))
        return self.end(y * z.tanh())


@kind("while_loop in a part without gradients", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        from torch._higher_order_ops import while_loop

        with torch.no_grad():
            _, scale = while_loop(
                lambda i, s: i < 3, lambda i, s: (i + 1, s * 0.5), (torch.tensor(0), x.detach().abs())
            )
        return self.end(self.a(x) * scale)


@kind("scan", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        from torch._higher_order_ops import scan

        def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            state = (0.9 * state + row).tanh()
            return state, state.clone()

        h = self.a(x).view(8, BATCH // 8, WIDTH)
        _, out = scan(step, torch.zeros_like(h[0]), h)
        return self.end(out.reshape(BATCH, WIDTH))


@kind("map over rows", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        from torch._higher_order_ops.map import map as each

        h = self.a(x).view(8, BATCH // 8, WIDTH)
        return self.end(each(lambda row: row.sin() * row.exp().clamp(max=3), h).reshape(BATCH, WIDTH))


@kind("associative_scan", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        from torch._higher_order_ops import associative_scan

        h = torch.sigmoid(self.a(x))
        with torch.no_grad():
            weight = associative_scan(lambda p, q: p * q, h.detach(), 0, combine_mode="generic")
        return self.end(h * weight)


@kind("flex attention", GROUP, 1e-6)
class _(Net):
    def inputs(self) -> tuple[Any, ...]:
        return (batch().float(),)

    def forward(self, x: Tensor) -> Tensor:
        from torch.nn.attention.flex_attention import flex_attention

        h = F.linear(x, self.a.weight.float()).view(1, 2, BATCH // 2, WIDTH)
        fixed = h.detach()  # on a CPU it has no backward pass
        mixed = flex_attention(
            fixed, fixed.sin(), fixed, score_mod=lambda s, b, n, i, j: s - (i - j).abs() * 0.1
        )
        return (h * mixed).double().square().mean()


@kind("a checkpoint", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(checkpoint(lambda h: self.a(h).tanh().sin(), x, use_reentrant=False))


@kind("checkpoints within a checkpoint", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        def inner(h: Tensor) -> Tensor:
            return self.a(h).tanh().sin()

        def outer(h: Tensor) -> Tensor:
            return checkpoint(inner, checkpoint(inner, h, use_reentrant=False), use_reentrant=False)

        return self.end(checkpoint(outer, x, use_reentrant=False))


@kind("a selective checkpoint", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        import functools

        from torch.utils.checkpoint import create_selective_checkpoint_contexts as contexts

        kept = [torch.ops.aten.addmm.default, torch.ops.aten.mm.default]
        return self.end(
            checkpoint(
                lambda h: self.a(self.a(h).tanh()).sin(),
                x,
                use_reentrant=False,
                context_fn=functools.partial(contexts, kept),
            )
        )


@kind("a batch norm within a checkpoint", GROUP)
class _(Net):
    def make(self) -> None:
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(checkpoint(lambda h: self.a(h).tanh(), x, use_reentrant=False))
        return self.end(h)


@kind("parts without gradients", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            target = self.b(self.a(x)).tanh()
        return (self.a(x).sin() - target).square().mean() + self.end(x)


@kind("gradients of one part cut by detach", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return self.end(h.detach().sin() * self.b(h))


@kind("autocast inside", GROUP, 1e-2)
class _(Net):
    def inputs(self) -> tuple[Any, ...]:
        return (batch().float(),)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.a.weight.float()
        with torch.autocast("cpu", torch.bfloat16):
            h = F.linear(x, weight).tanh() @ weight
        return h.double().sin().square().mean()


class _Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))


@kind("an autograd function of one's own", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(_Swish.apply(_Swish.apply(self.a(x))))


@kind("a straight-through estimator", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return self.end(h + (h.round() - h).detach())


@kind("hooks on tensors", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x).tanh()
        h.register_hook(lambda grad: grad * 0.5)
        return self.end(h)


@kind("hooks on modules", GROUP)
class _(Net):
    def make(self) -> None:
        self.a.register_forward_hook(lambda module, inputs, out: out.tanh() * 2)
        self.b.register_forward_pre_hook(lambda module, inputs: (inputs[0].sin(),))

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x))


@kind("hooks on parameters", GROUP)
class _(Net):
    def make(self) -> None:
        self.a.weight.register_hook(lambda grad: grad.clamp(-1e-3, 1e-3))

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x))


@kind("vmap", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.end(torch.vmap(lambda row: self.a.weight @ row.tanh())(x))


@kind("jacrev within the loss", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        rows = torch.func.jacrev(lambda row: torch.tanh(self.a.weight @ row).sum())(x[0])
        return self.end(self.a(x)) + rows.square().sum()


@kind("functional_call with other weights", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        scaled = {name: 0.5 * value for name, value in self.a.named_parameters()}
        return self.end(torch.func.functional_call(self.a, scaled, (x,)).tanh())


@kind("complex numbers", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.complex(self.a(x), self.b(x).sin())
        return self.end((h * h.conj().exp()).abs() + h.imag)


@kind("a Fourier transform", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(self.a(x))
        return self.end(torch.fft.irfft(spectrum * spectrum.abs().tanh(), n=WIDTH))


@kind("a sparse embedding", GROUP)
class _(Net):
    def make(self) -> None:
        self.table = nn.Embedding(16, WIDTH, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        which = (x[:, 0].abs() * 7).long() % 16
        return self.end(self.a(self.table(which)))


@kind("an embedding bag", GROUP)
class _(Net):
    def make(self) -> None:
        self.table = nn.EmbeddingBag(16, WIDTH, mode="mean")

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(self.table((x[:, :4].abs() * 7).long() % 16)))


@kind("views by as_strided and unfold", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        windows = h.unfold(1, 8, 8).reshape(BATCH, WIDTH)
        return self.end(windows * h.as_strided((BATCH, WIDTH), (1, BATCH)).sin())


@kind("views of views, split, chunk and unbind", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        first, second = self.a(x).chunk(2, 1)
        parts = first.split([4, 12], 1)
        rows = torch.stack(second.t().unbind(0)[::-1], 1)
        return self.end(torch.cat([*parts, rows.sin()], 1))


@kind("a convolution with group and layer norm", GROUP)
class _(Net):
    def make(self) -> None:
        self.conv = nn.Conv2d(2, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = F.max_pool2d(self.norm(self.conv(x.view(BATCH, 2, 4, 4))).relu(), 2)
        return self.end(F.layer_norm(self.a(h.reshape(BATCH, WIDTH)), (WIDTH,)))


@kind("a recurrent cell in a loop", GROUP)
class _(Net):
    def make(self) -> None:
        self.cell = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x)
        for _ in range(3):
            h = self.cell(self.a(x).tanh(), h)
        return self.end(h)


@kind("an LSTM", GROUP)
class _(Net):
    def make(self) -> None:
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.lstm(self.a(x).view(BATCH // 8, 8, WIDTH))[0]
        return self.end(h.reshape(BATCH, WIDTH))


@kind("a mixture of experts by index_add", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        score = self.a(x)[:, :2].softmax(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate((self.a, self.b)):
            rows = torch.arange(number, BATCH, 2)
            out = out.index_add(0, rows, expert(x[rows]).tanh() * score[rows, number, None])
        return self.end(out)


@kind("attention that is causal", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        heads = self.a(x).view(4, BATCH // 4, 4, -1).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(heads, heads.sin(), heads.cos(), is_causal=True)
        return self.end(mixed.transpose(1, 2).reshape(BATCH, WIDTH))


@kind("attention with a mask from a buffer", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("mask", torch.ones(BATCH, BATCH, dtype=torch.bool).tril())

    def forward(self, x: Tensor) -> Tensor:
        scores = (self.a(x) @ x.t()).masked_fill(~self.mask, -1e9).softmax(-1)
        return self.end(scores @ self.b(x))


@kind("rotary positions from a buffer", GROUP)
class _(Net):
    def make(self) -> None:
        self.keep("rate", torch.linspace(0, 1, WIDTH // 2))

    def forward(self, x: Tensor) -> Tensor:
        angle = torch.arange(BATCH, dtype=x.dtype)[:, None] * self.rate
        first, second = self.a(x).chunk(2, -1)
        return self.end(
            torch.cat(
                [first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos()], -1
            )
        )


@kind("outputs in a dict, with numbers", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Any:
        h = self.a(x).tanh()
        out = {"loss": self.end(h), "h": [h, 3], "none": None}
        return out["loss"] + out["h"][0].mean()


@kind("tied weights", GROUP)
class _(Net):
    def make(self) -> None:
        self.b.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x))


@kind("parameters that are not used", GROUP)
class _(Net):
    def make(self) -> None:
        self.unused = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x))


@kind("a frozen layer", GROUP)
class _(Net):
    def make(self) -> None:
        self.a.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.a(x).exp().sin())


@kind("a cross entropy with classes left out", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        classes = (x[:, 0].abs() * 9).long() % WIDTH
        classes = torch.where(classes == 3, -100, classes)
        return F.cross_entropy(self.b(self.a(x).tanh()), classes, label_smoothing=0.1)


@kind("cumsum, sort, topk and scatter", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        values, places = h.topk(8, -1)
        h = h.cumsum(-1).tanh() + h.sort(-1)[0]
        return self.end(h.scatter_add(1, places, values.exp().clamp(max=3)))


@kind("linear algebra", GROUP, 1e-7)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        square = self.a.weight @ self.a.weight.t() + torch.eye(WIDTH, dtype=x.dtype)
        h = torch.linalg.solve(square, self.a(x).t()).t()
        return self.end(h) + torch.logdet(square) * 0.01 + torch.linalg.cholesky(square).diagonal().mean()


@kind("einsum and a bilinear layer", GROUP)
class _(Net):
    def make(self) -> None:
        self.pair = nn.Bilinear(WIDTH, WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.pair(self.a(x), x).tanh()
        return self.end(torch.einsum("bi,bj,jk->bk", h, x, self.a.weight) / WIDTH)


@kind("an upsampled and padded image", GROUP)
class _(Net):
    def forward(self, x: Tensor) -> Tensor:
        image = self.a(x).view(BATCH, 2, 4, 4)
        large = F.interpolate(F.pad(image, (1, 1, 1, 1), mode="reflect"), scale_factor=2, mode="bilinear")
        return self.end(F.adaptive_avg_pool2d(large, 4).reshape(BATCH, WIDTH))
