"""Eight networks to train, in plain PyTorch, each with its loss: what `training.py` measures.

Sources: GPT-2 (Radford et al. 2019), BERT (Devlin et al. 2019), ViT (Dosovitskiy et al. 2021), ResNet (He et al. 2016),
ConvNeXt (Liu et al. 2022), the U-Net of diffusion models (Ho et al. 2020), LLaMA (Touvron et al. 2023), T5 (Raffel et
al. 2020). Sizes are those of the papers at `full`, and a few layers at `small`. Weights are random.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from egrl_training.pytorch import kept_times


class Attention(nn.Module):
    """Multi-head attention; with `memory` its keys and values come from there."""

    def __init__(
        self, width: int, heads: int, *, causal: bool = False, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.query, self.out = nn.Linear(width, width, bias=bias), nn.Linear(width, width, bias=bias)
        self.key_value = nn.Linear(width, 2 * width, bias=bias)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        source = x if memory is None else memory
        query = self._split(self.query(x))
        key, value = (self._split(part) for part in self.key_value(source).chunk(2, dim=-1))
        dropped = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=dropped, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Block(nn.Module):
    """A transformer block, normalised before (GPT-2, ViT, T5) or after (BERT) its parts."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        causal: bool = False,
        after: bool = False,
        dropout: float = 0.0,
        cross: bool = False,
    ) -> None:
        super().__init__()
        self.after = after
        self.attention = Attention(width, heads, causal=causal, dropout=dropout)
        self.cross = Attention(width, heads, dropout=dropout) if cross else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.up, self.down, self.dropped = (
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        x = self._add(x, self.attention, 0)
        if self.cross is not None and memory is not None:
            x = self._add(x, lambda y: self.cross(y, memory), 2)
        return self._add(x, lambda y: self.down(F.gelu(self.up(y))), 1)

    def _add(self, x: Tensor, part: Callable[[Tensor], Tensor], norm: int) -> Tensor:
        if self.after:
            return self.norms[norm](x + self.dropped(part(x)))
        return x + self.dropped(part(self.norms[norm](x)))


class LanguageModel(nn.Module):
    """GPT-2 (causal) or BERT (not causal, normalised after): the loss of predicting tokens."""

    def __init__(
        self, layers: int, width: int, heads: int, tokens: int, length: int, *, causal: bool
    ) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(tokens, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(
            Block(width, heads, causal=causal, after=not causal, dropout=0.1) for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, tokens: Tensor, wanted: Tensor) -> Tensor:
        x = self.embed(tokens) + self.position
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), wanted.flatten())


class T5(nn.Module):
    """An encoder and a decoder that reads it: the loss of predicting the decoder's tokens."""

    def __init__(self, layers: int, width: int, heads: int, tokens: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.encoder = nn.ModuleList(Block(width, heads, dropout=0.1) for _ in range(layers))
        self.decoder = nn.ModuleList(
            Block(width, heads, causal=True, cross=True, dropout=0.1) for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, tokens: Tensor, wanted: Tensor) -> Tensor:
        memory = self.embed(tokens)
        for block in self.encoder:
            memory = block(memory)
        x = self.embed(wanted)
        for block in self.decoder:
            x = block(x, memory)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), wanted.flatten())


class LlamaBlock(nn.Module):
    """RMSNorm, rotary positions, a gated feed-forward layer."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.first(x)).chunk(3, dim=-1)
        )
        query, key = (part * cos + _rotated(part) * sin for part in (query, key))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def _rotated(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class Llama(nn.Module):
    """A decoder in the manner of LLaMA: the loss of predicting tokens."""

    def __init__(self, layers: int, width: int, heads: int, inner: int, tokens: int, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, inner) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, tokens, bias=False)
        size = width // heads
        angle = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, size, 2) / size)
        self.register_buffer("cos", torch.cat((angle, angle), dim=-1).cos())
        self.register_buffer("sin", torch.cat((angle, angle), dim=-1).sin())

    def forward(self, tokens: Tensor, wanted: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), wanted.flatten())


class Vit(nn.Module):
    """A vision transformer: the loss of classifying images."""

    def __init__(self, layers: int, width: int, heads: int, patch: int, side: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.position = nn.Parameter(torch.zeros((side // patch) ** 2, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images: Tensor, wanted: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x).mean(dim=1)), wanted)


class Bottleneck(nn.Module):
    """Three convolutions with a way around them."""

    def __init__(self, inner: int, outer: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)),
        )
        around = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        self.around = nn.Identity() if inner == outer and stride == 1 else around

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.around(x))


class ResNet(nn.Module):
    """A residual network of bottlenecks: the loss of classifying images."""

    def __init__(self, depths: tuple[int, ...], width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, inner = [], width
        for stage, depth in enumerate(depths):
            for number in range(depth):
                outer = 4 * width * 2**stage
                blocks.append(Bottleneck(inner, outer, width * 2**stage, 2 if stage and not number else 1))
                inner = outer
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(inner, 1000)

    def forward(self, images: Tensor, wanted: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.blocks(self.stem(images)).mean(dim=(2, 3))), wanted)


class ConvNextBlock(nn.Module):
    """A deep convolution, then a feed-forward layer for each position."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.deep, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """ConvNeXt without stochastic depth: the loss of classifying images."""

    def __init__(self, depths: tuple[int, ...], widths: tuple[int, ...]) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4)]
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            if stage:
                parts += [nn.GroupNorm(1, widths[stage - 1]), nn.Conv2d(widths[stage - 1], width, 2, 2)]
            parts += [ConvNextBlock(width) for _ in range(depth)]
        self.body, self.head = nn.Sequential(*parts), nn.Linear(widths[-1], 1000)

    def forward(self, images: Tensor, wanted: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.body(images).mean(dim=(2, 3))), wanted)


class UnetBlock(nn.Module):
    """Two normalised convolutions, told the time, with a way around them; with attention if asked."""

    def __init__(self, inner: int, outer: int, time: int, attention: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(8, inner), nn.GroupNorm(8, outer)])
        self.convs = nn.ModuleList(
            [nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)]
        )
        self.time, self.around = nn.Linear(time, outer), nn.Conv2d(inner, outer, 1)
        self.attention = Attention(outer, 4) if attention else None

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.convs[0](F.silu(self.norms[0](x))) + self.time(F.silu(time))[:, :, None, None]
        y = self.around(x) + self.convs[1](F.silu(self.norms[1](y)))
        if self.attention is not None:
            flat = y.flatten(2).transpose(1, 2)
            y = y + self.attention(flat).transpose(1, 2).unflatten(2, y.shape[2:])
        return y


class Unet(nn.Module):
    """The U-Net of a diffusion model: the loss of predicting noise."""

    def __init__(self, widths: tuple[int, ...], time: int = 128) -> None:
        super().__init__()
        self.time, self.first, last = (
            nn.Linear(1, time),
            nn.Conv2d(3, widths[0], 3, padding=1),
            len(widths) - 1,
        )
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(
            UnetBlock(a, b, time, number + 1 == last) for number, (a, b) in enumerate(pairs)
        )
        self.middle = UnetBlock(widths[-1], widths[-1], time, True)
        self.up = nn.ModuleList(UnetBlock(2 * b, a, time, False) for a, b in reversed(pairs))
        self.last = nn.Conv2d(widths[0], 3, 3, padding=1)

    def forward(self, images: Tensor, noise: Tensor) -> Tensor:
        time = self.time(images.new_ones(len(images), 1))
        x, kept = self.first(images + noise), []
        for block in self.down:
            x = block(x, time)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, time)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0)
            x = block(torch.cat((x, kept.pop()), dim=1), time)
        return F.mse_loss(self.last(x), noise)


@dataclass(frozen=True)
class Training:
    """A network with its loss, and the inputs of one step."""

    model: nn.Module
    inputs: tuple[Tensor, ...]


def _tokens(batch: int, length: int, tokens: int) -> tuple[Tensor, ...]:
    return torch.randint(tokens, (batch, length)), torch.randint(tokens, (batch, length))


def _images(batch: int, side: int) -> tuple[Tensor, ...]:
    return torch.randn(batch, 3, side, side), torch.randint(1000, (batch,))


FULL: dict[str, Callable[[], Training]] = {
    "gpt2": lambda: Training(LanguageModel(12, 768, 12, 50257, 256, causal=True), _tokens(8, 256, 50257)),
    "bert": lambda: Training(LanguageModel(12, 768, 12, 30522, 128, causal=False), _tokens(16, 128, 30522)),
    "vit": lambda: Training(Vit(12, 768, 12, 16, 224), _images(16, 224)),
    "resnet50": lambda: Training(ResNet((3, 4, 6, 3)), _images(16, 224)),
    "convnext": lambda: Training(ConvNext((3, 3, 9, 3), (96, 192, 384, 768)), _images(16, 224)),
    "unet": lambda: Training(
        Unet((64, 128, 256, 512)), (torch.randn(16, 3, 64, 64), torch.randn(16, 3, 64, 64))
    ),
    "llama": lambda: Training(Llama(12, 768, 12, 2048, 32000, 256), _tokens(8, 256, 32000)),
    "t5": lambda: Training(T5(6, 512, 8, 32128), _tokens(16, 128, 32128)),
}
"""The networks at the sizes of their papers, with batches that two cores can train."""

SMALL: dict[str, Callable[[], Training]] = {
    "gpt2": lambda: Training(LanguageModel(3, 128, 4, 500, 64, causal=True), _tokens(4, 64, 500)),
    "bert": lambda: Training(LanguageModel(3, 128, 4, 500, 64, causal=False), _tokens(4, 64, 500)),
    "vit": lambda: Training(Vit(3, 96, 3, 16, 96), _images(4, 96)),
    "resnet50": lambda: Training(ResNet((1, 1, 1, 1), 16), _images(2, 64)),
    "convnext": lambda: Training(ConvNext((1, 1, 2, 1), (24, 48, 96, 192)), _images(2, 64)),
    "unet": lambda: Training(Unet((16, 32, 64)), (torch.randn(2, 3, 32, 32), torch.randn(2, 3, 32, 32))),
    "llama": lambda: Training(Llama(3, 96, 3, 256, 500, 64), _tokens(4, 64, 500)),
    "t5": lambda: Training(T5(2, 96, 3, 500), _tokens(4, 64, 500)),
}
"""The same in a second or two."""


DROPOUT = ("gpt2", "bert", "t5")
"""Networks that draw random numbers."""

LARGE: dict[str, Callable[[int], Training]] = {
    "gpt2": lambda batch: Training(
        LanguageModel(12, 768, 12, 50257, 1024, causal=True), _tokens(batch or 16, 1024, 50257)
    ),
    "llama": lambda batch: Training(Llama(22, 2048, 32, 5632, 32000, 2048), _tokens(batch or 4, 2048, 32000)),
    "vit": lambda batch: Training(Vit(12, 768, 12, 16, 224), _images(batch or 128, 224)),
    "resnet50": lambda batch: Training(ResNet((3, 4, 6, 3)), _images(batch or 256, 224)),
    "convnext": lambda batch: Training(
        ConvNext((3, 3, 9, 3), (96, 192, 384, 768)), _images(batch or 128, 224)
    ),
    "bert": lambda batch: Training(
        LanguageModel(12, 768, 12, 30522, 512, causal=False), _tokens(batch or 32, 512, 30522)
    ),
    "t5": lambda batch: Training(T5(6, 512, 8, 32128), _tokens(batch or 32, 512, 32128)),
    "unet": lambda batch: Training(
        Unet((128, 256, 512, 1024)),
        (torch.randn(batch or 64, 3, 64, 64), torch.randn(batch or 64, 3, 64, 64)),
    ),
}
"""For a GPU, of a batch (0: one that takes 10 to 30 GiB); `llama` has the size of TinyLlama (Zhang et al. 2024)."""


class HalfPrecision(nn.Module):
    """A network whose products are computed in bfloat16, as PyTorch's autocast chooses; its weights stay float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> Tensor:
        with torch.autocast(inputs[0].device.type, torch.bfloat16):
            return self.model(*inputs)


def training(
    name: str, *, small: bool = False, device: str = "cpu", large: bool = False, batch: int = 0
) -> Training:
    """The network called `name` with fixed weights and inputs, in training mode.

    With `large` it has a size for GPUs, bfloat16 and a batch of its own.
    """
    torch.manual_seed(0)
    chosen = LARGE[name](batch) if large else (SMALL if small else FULL)[name]()
    model = HalfPrecision(chosen.model) if large else chosen.model
    return Training(model.to(device), tuple(tensor.to(device) for tensor in chosen.inputs))


@dataclass(frozen=True)
class Where:
    """Which size of the networks runs on which device."""

    small: bool
    device: str
    large: bool = False

    def training(self, name: str) -> Training:
        """The network called `name`, on the device."""
        return training(name, small=self.small, device=self.device, large=self.large)

    def alone(self) -> contextlib.AbstractContextManager[object]:
        """While this is held, no other process measures times on the same GPU, those of ops included."""
        return contextlib.nullcontext() if self.device == "cpu" else kept_times.alone()
