"""What the networks are made of: parameters by order of use, layers in plain jax.numpy, and training steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array
Shape = jax.ShapeDtypeStruct


class Params:
    """Hands out parameters by the order in which a network asks for them; without values it notes their shapes."""

    def __init__(self, values: Sequence[Array] | None = None) -> None:
        self.values = values
        self.shapes: list[Shape] = []

    def __call__(self, *shape: int, dtype: Any = jnp.float32) -> Array:
        self.shapes.append(Shape(shape, dtype))
        if self.values is None:
            return jnp.zeros(shape, dtype)
        return self.values[len(self.shapes) - 1]


Network = Callable[..., Any]
"""(Params, inputs …) -> an array or several."""


def parameters(network: Network, inputs: Sequence[Any]) -> list[Shape]:
    """The shapes of a network's parameters."""
    params = Params()
    jax.eval_shape(lambda *given: network(params, *given), *inputs)
    return params.shapes


def f32(*shape: int) -> Shape:
    return Shape(shape, jnp.float32)


def bf16(*shape: int) -> Shape:
    return Shape(shape, jnp.bfloat16)


def i32(*shape: int) -> Shape:
    return Shape(shape, jnp.int32)


def kept(x: Array) -> Array:
    """The same value, which is to lie in memory: XLA's CPU back end would otherwise work out residual sums and the
    states of unrolled cells again, from their beginning, in every fusion that needs them."""
    return lax.optimization_barrier(x)


def dense(p: Params, x: Array, width: int, bias: bool = True) -> Array:
    y = x @ p(x.shape[-1], width, dtype=x.dtype)
    return y + p(width, dtype=x.dtype) if bias else y


def conv(
    p: Params, x: Array, width: int, size: int, stride: int = 1, groups: int = 1, padding: Any = "SAME"
) -> Array:
    """2-D convolution, NHWC."""
    kernel = p(size, size, x.shape[-1] // groups, width, dtype=x.dtype)
    return lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def conv1d(p: Params, x: Array, width: int, size: int, dilation: int = 1) -> Array:
    """Causal convolution over time, [batch, time, channels]."""
    kernel = p(size, x.shape[-1], width, dtype=x.dtype)
    return lax.conv_general_dilated(
        x,
        kernel,
        (1,),
        [((size - 1) * dilation, 0)],
        rhs_dilation=(dilation,),
        dimension_numbers=("NWC", "WIO", "NWC"),
    )


def batch_norm(p: Params, x: Array, training: bool) -> Array:
    scale, bias = p(x.shape[-1]), p(x.shape[-1])
    if training:
        axes = tuple(range(x.ndim - 1))
        mean = jnp.mean(x, axes)
        variance = jnp.mean(jnp.square(x), axes) - jnp.square(mean)
    else:
        mean, variance = p(x.shape[-1]), p(x.shape[-1])
    return (x - mean) * (scale * lax.rsqrt(variance + 1e-5)) + bias


def layer_norm(p: Params, x: Array) -> Array:
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, -1, keepdims=True)
    variance = jnp.mean(jnp.square(wide - mean), -1, keepdims=True)
    scaled = (wide - mean) * lax.rsqrt(variance + 1e-6)
    return (scaled * p(x.shape[-1]) + p(x.shape[-1])).astype(x.dtype)


def max_pool(x: Array, size: int, stride: int) -> Array:
    """The largest of the strided slices; as a window its gradient would become a scatter with an index an element."""
    out = -(-x.shape[1] // stride)
    pad = max((out - 1) * stride + size - x.shape[1], 0)
    sides = (pad // 2, pad - pad // 2)
    x = jnp.pad(x, ((0, 0), sides, sides, (0, 0)), constant_values=-3e38)
    reach = (out - 1) * stride + 1
    parts = [x[:, i : i + reach : stride, j : j + reach : stride] for i in range(size) for j in range(size)]
    return functools.reduce(jnp.maximum, parts)


def attention(p: Params, x: Array, memory: Array, heads: int, causal: bool = False) -> Array:
    """Multi-head attention of x [batch, length, width] over memory."""
    batch, length, width = x.shape
    size = width // heads

    def split(source: Array) -> Array:
        return dense(p, source, width, bias=False).reshape(batch, source.shape[1], heads, size)

    query, key, value = split(x), split(memory), split(memory)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * size**-0.5
    if causal:
        mask = jnp.arange(length)[:, None] >= jnp.arange(memory.shape[1])[None, :]
        scores = jnp.where(mask, scores, jnp.asarray(-1e9, scores.dtype))
    weights = jax.nn.softmax(scores.astype(jnp.float32), axis=-1).astype(x.dtype)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(batch, length, width)
    return dense(p, mixed, width, bias=False)


def mlp(p: Params, x: Array, hidden: int, act: Callable[[Array], Array] = jax.nn.gelu) -> Array:
    return dense(p, act(dense(p, x, hidden)), x.shape[-1])


def transformer_block(p: Params, x: Array, heads: int, hidden: int, causal: bool = False) -> Array:
    """Pre-norm block."""
    inside = layer_norm(p, x)
    x = kept(x + attention(p, inside, inside, heads, causal))
    return kept(x + mlp(p, layer_norm(p, x), hidden))


def lstm_cell(
    weights: tuple[Array, Array, Array], x: Array, state: tuple[Array, Array]
) -> tuple[Array, Array]:
    h, c = state
    gates = x @ weights[0] + h @ weights[1] + weights[2]
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    c = kept(jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g))
    return kept(jax.nn.sigmoid(o) * jnp.tanh(c)), c


def lstm_weights(p: Params, inputs: int, width: int, dtype: Any = jnp.float32) -> tuple[Array, Array, Array]:
    return p(inputs, 4 * width, dtype=dtype), p(width, 4 * width, dtype=dtype), p(4 * width, dtype=dtype)


def gru_cell(weights: tuple[Array, Array, Array], x: Array, h: Array) -> Array:
    width = h.shape[-1]
    a, b = x @ weights[0] + weights[2], h @ weights[1]
    z = jax.nn.sigmoid(a[..., :width] + b[..., :width])
    r = jax.nn.sigmoid(a[..., width : 2 * width] + b[..., width : 2 * width])
    n = jnp.tanh(a[..., 2 * width :] + r * b[..., 2 * width :])
    return kept((1 - z) * n + z * h)


def gru_weights(p: Params, inputs: int, width: int) -> tuple[Array, Array, Array]:
    return p(inputs, 3 * width), p(width, 3 * width), p(3 * width)


def cross_entropy(logits: Array, labels: Array) -> Array:
    wide = logits.astype(jnp.float32)
    picked = jnp.sum(wide * jax.nn.one_hot(labels, wide.shape[-1]), axis=-1)
    return jnp.mean(jax.nn.logsumexp(wide, axis=-1) - picked)


Step = tuple[Callable[..., Any], list[Any], tuple[int, ...]]
"""A function, the shapes of its arguments, and which of these are donated. Training steps donate nothing:
XLA's CPU back end copies a donated parameter that is read after its successor is written."""


def inference(network: Network, *inputs: Any, donated: int = 0) -> Step:
    """A forward pass; the last `donated` inputs are donated."""
    values = parameters(network, inputs)
    last = len(inputs)
    donate = tuple(range(last + 1 - donated, last + 1))
    return (lambda values, *given: network(Params(values), *given)), [values, *inputs], donate


def sgd(loss: Network, *inputs: Any) -> Step:
    """A step of gradient descent; `loss` gives a number."""
    shapes = parameters(loss, inputs)

    def step(values: list[Array], *given: Any) -> Any:
        cost, grads = jax.value_and_grad(lambda v: loss(Params(v), *given))(values)
        return [v - (0.01 * g).astype(v.dtype) for v, g in zip(values, grads, strict=True)], cost

    return step, [shapes, *inputs], ()


def momentum(loss: Network, *inputs: Any) -> Step:
    """A step of gradient descent with momentum."""
    shapes = parameters(loss, inputs)

    def step(values: list[Array], speeds: list[Array], *given: Any) -> Any:
        cost, grads = jax.value_and_grad(lambda v: loss(Params(v), *given))(values)
        speeds = [0.9 * s + g for s, g in zip(speeds, grads, strict=True)]
        return [v - 0.1 * s for v, s in zip(values, speeds, strict=True)], speeds, cost

    return step, [shapes, shapes, *inputs], ()


def adam(loss: Network, *inputs: Any, clip: bool = False) -> Step:
    """A step of Adam with its moments in float32; `clip` bounds the norm of all gradients together."""
    shapes = parameters(loss, inputs)
    moments = [Shape(s.shape, jnp.float32) for s in shapes]

    def step(values: list[Array], first: list[Array], second: list[Array], count: Array, *given: Any) -> Any:
        cost, grads = jax.value_and_grad(lambda v: loss(Params(v), *given))(values)
        wide = [g.astype(jnp.float32) for g in grads]
        if clip:
            norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in wide))
            wide = [g * jnp.minimum(1.0, 1.0 / norm) for g in wide]
        first = [0.9 * m + 0.1 * g for m, g in zip(first, wide, strict=True)]
        second = [0.98 * m + 0.02 * g * g for m, g in zip(second, wide, strict=True)]
        time = (count + 1).astype(jnp.float32)
        rate = 1e-3 * jnp.sqrt(1 - 0.98**time) / (1 - 0.9**time)
        new = [
            (v - rate * m / (jnp.sqrt(s) + 1e-8)).astype(v.dtype)
            for v, m, s in zip(values, first, second, strict=True)
        ]
        return new, first, second, count + 1, cost

    return step, [shapes, moments, moments, i32(), *inputs], ()
