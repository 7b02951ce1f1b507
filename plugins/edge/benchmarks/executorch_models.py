"""The models of `executorch_banks.py`, in plain PyTorch with random weights, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads.zoo.cnn import MOBILENET_V2

Built = tuple[nn.Module, list[tuple[Any, ...]]]
RUNS = 3
"""Inputs of each model."""


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Inverted(nn.Module):
    """MobileNet-v2's block (Sandler et al., 2018, table 1)."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
        super().__init__()
        inner = inputs * expand
        widen = [_conv(inputs, inner, 1), nn.ReLU6()] if expand > 1 else []
        self.body = nn.Sequential(
            *widen, _conv(inner, inner, 3, stride, inner), nn.ReLU6(), _conv(inner, outputs, 1)
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


class Bottleneck(nn.Module):
    """ResNet-50's block (He et al., 2016, table 1)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(inputs, width, 1),
            nn.ReLU(),
            _conv(width, width, 3, stride),
            nn.ReLU(),
            _conv(width, 4 * width, 1),
        )
        self.skip = (
            _conv(inputs, 4 * width, 1, stride) if inputs != 4 * width or stride > 1 else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.skip(x))


class Attention(nn.Module):
    """Attention of several heads over a whole sequence."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.inner = heads, width // heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.reshape(batch, length, self.heads, self.inner).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        weights = torch.softmax(q @ k.transpose(2, 3) * self.inner**-0.5, dim=3)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """A layer of BERT (Devlin et al., 2019), normalised after each part."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x + self.attention(x))
        return self.second(x + self.feed(x))


class Bert(nn.Module):
    """A small BERT."""

    def __init__(self, words: int = 1000, length: int = 64, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width))
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(Layer(width, 4) for _ in range(layers)))

    def forward(self, ids: Tensor) -> Tensor:
        return self.layers(self.norm(self.words(ids) + self.places))


class UNet(nn.Module):
    """A convolutional U-Net (Ronneberger et al., 2015) of three levels."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        sizes = [3, width, 2 * width, 4 * width]
        self.down = nn.ModuleList(self._level(a, b) for a, b in pairwise(sizes))
        self.bottom = self._level(4 * width, 8 * width)
        self.up = nn.ModuleList(self._level(3 * b, b) for b in reversed(sizes[1:]))
        self.out = nn.Conv2d(width, 2, 1)

    @staticmethod
    def _level(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(_conv(inputs, outputs, 3), nn.ReLU(), _conv(outputs, outputs, 3), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for level in self.down:
            x = level(x)
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for level in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = level(torch.cat([x, skips.pop()], dim=1))
        return self.out(x)


class Cached(nn.Module):
    """Attention of one new token over a key-value cache."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads, self.inner = heads, width // heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("keys", torch.zeros(1, heads, length, self.inner))
        self.register_buffer("values", torch.zeros(1, heads, length, self.inner))

    def forward(self, x: Tensor, at: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (part.reshape(1, self.heads, 1, self.inner) for part in self.qkv(x).chunk(3, dim=2))
        self.keys[:, :, at] = k
        self.values[:, :, at] = v
        scores = q @ self.keys.transpose(2, 3) * self.inner**-0.5
        weights = torch.softmax(torch.where(mask, scores, torch.full_like(scores, -1e9)), dim=3)
        # What no token has written yet may be anything, and 0 times NaN is NaN.
        values = torch.where(mask.reshape(1, 1, -1, 1), self.values, torch.zeros_like(self.values))
        return self.out((weights @ values).reshape(1, 1, -1))


class Decoder(nn.Module):
    """A small decoder that reads one token at a time."""

    def __init__(self, words: int = 500, length: int = 64, width: int = 128, layers: int = 3) -> None:
        super().__init__()
        self.words, self.length = nn.Embedding(words, width), length
        self.attentions = nn.ModuleList(Cached(width, 4, length) for _ in range(layers))
        self.feeds = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )
            for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.out = nn.Linear(width, words)

    def forward(self, token: Tensor, at: Tensor) -> Tensor:
        x = self.words(token)
        mask = torch.arange(self.length) <= at
        for attention, norm, feed in zip(self.attentions, self.norms, self.feeds, strict=True):
            x = x + attention(norm(x), at, mask)
            x = x + feed(x)
        return self.out(x)


def _images(module: nn.Module, side: int) -> Built:
    return module, [(torch.randn(1, 3, side, side),) for _ in range(RUNS)]


def mobilenet_v2() -> Built:
    """MobileNet-v2 (table 2) on images of 96 x 96."""
    parts: list[nn.Module] = [_conv(3, 32, 3, 2), nn.ReLU6()]
    inputs = 32
    for expand, outputs, repeats, stride in MOBILENET_V2:
        for number in range(repeats):
            parts.append(Inverted(inputs, outputs, stride if number == 0 else 1, expand))
            inputs = outputs
    head = [_conv(320, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return _images(nn.Sequential(*parts, *head), 96)


def resnet50() -> Built:
    """ResNet-50 (table 1) on images of 64 x 64."""
    parts: list[nn.Module] = [_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for level, repeats in enumerate((3, 4, 6, 3)):
        for number in range(repeats):
            parts.append(Bottleneck(inputs, 64 << level, 2 if level and not number else 1))
            inputs = 256 << level
    return _images(nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)), 64)


def bert() -> Built:
    """The small BERT on 64 tokens."""
    return Bert(), [(torch.randint(0, 1000, (1, 64)),) for _ in range(RUNS)]


def unet() -> Built:
    """The U-Net on images of 64 x 64."""
    return _images(UNet(), 64)


def decoder() -> Built:
    """The decoder on its first tokens."""
    return Decoder(), [(torch.randint(0, 500, (1, 1)), torch.tensor([at])) for at in range(RUNS)]


MODELS: dict[str, Callable[[], Built]] = {
    "mobilenet_v2": mobilenet_v2,
    "resnet50": resnet50,
    "bert": bert,
    "unet": unet,
    "decoder": decoder,
}
"""Builders by name."""
