"""Networks that look at pictures."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from programs.layers import (
    Array,
    Params,
    attention,
    batch_norm,
    conv,
    cross_entropy,
    dense,
    kept,
    layer_norm,
    max_pool,
    mlp,
    transformer_block,
)

relu = jax.nn.relu


def alexnet(p: Params, x: Array) -> Array:
    x = relu(conv(p, x, 64, 11, 4) + p(64))
    x = max_pool(x, 3, 2)
    x = max_pool(relu(conv(p, x, 192, 5) + p(192)), 3, 2)
    for width in (384, 256, 256):
        x = relu(conv(p, x, width, 3) + p(width))
    x = max_pool(x, 3, 2).reshape(x.shape[0], -1)
    for width in (4096, 4096):
        x = relu(dense(p, x, width))
    return dense(p, x, 1000)


def classification(network):
    """The loss of a network that gives logits a picture, or a pixel."""

    def loss(p: Params, x: Array, labels: Array) -> Array:
        return cross_entropy(network(p, x), labels)

    return loss


def resnet(blocks: tuple[int, ...], training: bool):
    """ResNet with bottlenecks."""

    def network(p: Params, x: Array) -> Array:
        x = max_pool(relu(batch_norm(p, conv(p, x, 64, 7, 2), training)), 3, 2)
        for stage, count in enumerate(blocks):
            width = 64 << stage
            for block in range(count):
                stride = 2 if stage and not block else 1
                y = relu(batch_norm(p, conv(p, x, width, 1), training))
                y = relu(batch_norm(p, conv(p, y, width, 3, stride), training))
                y = batch_norm(p, conv(p, y, 4 * width, 1), training)
                if not block:
                    x = batch_norm(p, conv(p, x, 4 * width, 1, stride), training)
                x = kept(relu(x + y))
        return dense(p, jnp.mean(x, (1, 2)), 1000)

    return network


def mnasnet_b1(training: bool):
    """MnasNet-B1: inverted bottlenecks (expansion, kernel, stride, width, repeats)."""
    stages = (
        (3, 3, 2, 24, 3),
        (3, 5, 2, 40, 3),
        (6, 5, 2, 80, 3),
        (6, 3, 1, 96, 2),
        (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    )

    def network(p: Params, x: Array) -> Array:
        x = relu(batch_norm(p, conv(p, x, 32, 3, 2), training))
        x = relu(batch_norm(p, conv(p, x, 32, 3, groups=32), training))
        x = batch_norm(p, conv(p, x, 16, 1), training)
        for expansion, size, first, width, repeats in stages:
            for block in range(repeats):
                stride = 1 if block else first
                hidden = expansion * x.shape[-1]
                y = relu(batch_norm(p, conv(p, x, hidden, 1), training))
                y = relu(batch_norm(p, conv(p, y, hidden, size, stride, groups=hidden), training))
                y = batch_norm(p, conv(p, y, width, 1), training)
                x = kept(x + y if block else y)
        x = relu(batch_norm(p, conv(p, x, 1280, 1), training))
        return dense(p, jnp.mean(x, (1, 2)), 1000)

    return network


def vit(layers: int, width: int, heads: int, patch: int):
    def network(p: Params, x: Array) -> Array:
        x = conv(p, x, width, patch, patch, padding="VALID")
        x = x.reshape(x.shape[0], -1, width)
        x = x + p(1, x.shape[1], width, dtype=x.dtype)
        for _ in range(layers):
            x = transformer_block(p, x, heads, 4 * width)
        return dense(p, jnp.mean(layer_norm(p, x), 1), 1000)

    return network


def mixer(layers: int, width: int, patch: int):
    """MLP-Mixer."""

    def network(p: Params, x: Array) -> Array:
        x = conv(p, x, width, patch, patch, padding="VALID")
        x = x.reshape(x.shape[0], -1, width)
        for _ in range(layers):
            turned = jnp.swapaxes(layer_norm(p, x), 1, 2)
            x = kept(x + jnp.swapaxes(mlp(p, turned, width // 2), 1, 2))
            x = kept(x + mlp(p, layer_norm(p, x), 4 * width))
        return dense(p, jnp.mean(layer_norm(p, x), 1), 1000)

    return network


def diffusion_unet(width: int, multipliers: tuple[int, ...], heads: int):
    """The denoiser of a diffusion model: residual blocks with the time mixed in, attention at the coarse levels."""

    def block(p: Params, x: Array, time: Array, channels: int) -> Array:
        y = conv(p, jax.nn.silu(layer_norm(p, x)), channels, 3)
        y = y + dense(p, jax.nn.silu(time), channels)[:, None, None, :]
        y = conv(p, jax.nn.silu(layer_norm(p, y)), channels, 3)
        return kept(y + (x if x.shape[-1] == channels else conv(p, x, channels, 1)))

    def attend(p: Params, x: Array) -> Array:
        flat = layer_norm(p, x).reshape(x.shape[0], -1, x.shape[-1])
        return kept(x + attention(p, flat, flat, heads).reshape(x.shape))

    def network(p: Params, x: Array, steps: Array) -> Array:
        angles = steps[:, None] * jnp.exp(-jnp.arange(width // 2) * (9.2 / (width // 2)))
        time = mlp(p, jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1), 4 * width, jax.nn.silu)
        x = conv(p, x, width, 3)
        skips = [x]
        for level, times in enumerate(multipliers):
            for _ in range(2):
                x = block(p, x, time, width * times)
                x = attend(p, x) if level >= 2 else x
                skips.append(x)
            if level < len(multipliers) - 1:
                x = conv(p, x, width * times, 3, 2)
                skips.append(x)
        x = block(p, attend(p, block(p, x, time, x.shape[-1])), time, x.shape[-1])
        for level, times in reversed(list(enumerate(multipliers))):
            for _ in range(3):
                x = block(p, jnp.concatenate([x, skips.pop()], -1), time, width * times)
                x = attend(p, x) if level >= 2 else x
            if level:
                x = conv(p, jnp.repeat(jnp.repeat(x, 2, 1), 2, 2), width * times, 3)
        return conv(p, jax.nn.silu(layer_norm(p, x)), 3, 3)

    return network


def unet(width: int, depth: int):
    """U-Net for segmentation into 8 classes."""

    def block(p: Params, x: Array, channels: int) -> Array:
        for _ in range(2):
            x = relu(conv(p, x, channels, 3) + p(channels))
        return x

    def network(p: Params, x: Array) -> Array:
        skips = []
        for level in range(depth):
            x = block(p, x, width << level)
            skips.append(x)
            x = max_pool(x, 2, 2)
        x = block(p, x, width << depth)
        for level in reversed(range(depth)):
            x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
            x = jnp.concatenate([skips[level], conv(p, x, width << level, 3)], -1)
            x = block(p, x, width << level)
        return conv(p, x, 8, 1)

    return network
