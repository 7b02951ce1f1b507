"""Networks over time: recurrent ones, unrolled or as loops, and WaveNet."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from programs.layers import (
    Array,
    Params,
    conv1d,
    cross_entropy,
    dense,
    gru_cell,
    gru_weights,
    kept,
    lstm_cell,
    lstm_weights,
)


def wavenet(blocks: int, layers: int, width: int, skips: int):
    """Stacks of dilated causal convolutions with gates; logits of 256 levels an instant."""

    def network(p: Params, x: Array) -> Array:
        x = conv1d(p, x, width, 2)
        total: Any = 0.0
        for _ in range(blocks):
            for layer in range(layers):
                gates = conv1d(p, x, 2 * width, 2, 1 << layer)
                y = jnp.tanh(gates[..., :width]) * jax.nn.sigmoid(gates[..., width:])
                total = kept(total + dense(p, y, skips))
                x = kept(x + dense(p, y, width))
        return dense(p, jax.nn.relu(dense(p, jax.nn.relu(total), skips)), 256)

    return network


def zeros(batch: int, width: int) -> tuple[Array, Array]:
    return jnp.zeros((batch, width)), jnp.zeros((batch, width))


def lstm_unrolled(p: Params, x: Array, width: int, layers: int) -> Array:
    """[batch, time, inputs] -> [batch, time, width], a step after the other."""
    steps = [x[:, t] for t in range(x.shape[1])]
    for _ in range(layers):
        weights = lstm_weights(p, steps[0].shape[-1], width)
        state = zeros(x.shape[0], width)
        for t, step in enumerate(steps):
            state = lstm_cell(weights, step, state)
            steps[t] = state[0]
    return jnp.stack(steps, 1)


def lstm_loop(p: Params, x: Array, width: int, back: bool = False) -> Array:
    """The same as a loop, one layer."""
    weights = lstm_weights(p, x.shape[-1], width)

    def body(state: tuple[Array, Array], step: Array) -> tuple[tuple[Array, Array], Array]:
        state = lstm_cell(weights, step, state)
        return state, state[0]

    _, out = lax.scan(body, zeros(x.shape[0], width), jnp.swapaxes(x, 0, 1), reverse=back)
    return jnp.swapaxes(out, 0, 1)


def gru_unrolled(p: Params, x: Array, width: int, layers: int) -> Array:
    steps = [x[:, t] for t in range(x.shape[1])]
    for _ in range(layers):
        weights = gru_weights(p, steps[0].shape[-1], width)
        state = jnp.zeros((x.shape[0], width))
        for t, step in enumerate(steps):
            steps[t] = state = gru_cell(weights, step, state)
    return jnp.stack(steps, 1)


def embed(p: Params, ids: Array, vocabulary: int, width: int) -> Array:
    return p(vocabulary, width)[ids]


def lstm_classifier(width: int, layers: int):
    """Unrolled LSTM over vectors; 1,000 classes at the last step."""

    def network(p: Params, x: Array) -> Array:
        return dense(p, lstm_unrolled(p, x, width, layers)[:, -1], 1000)

    return network


def language_model_loops(vocabulary: int, width: int, layers: int):
    """The loss of a language model of LSTM loops."""

    def loss(p: Params, ids: Array, labels: Array) -> Array:
        x = embed(p, ids, vocabulary, width)
        for _ in range(layers):
            x = lstm_loop(p, x, width)
        return cross_entropy(dense(p, x, vocabulary), labels)

    return loss


def gru_model(vocabulary: int, width: int, layers: int):
    """The loss of a language model of unrolled GRUs."""

    def loss(p: Params, ids: Array, labels: Array) -> Array:
        x = gru_unrolled(p, embed(p, ids, vocabulary, width), width, layers)
        return cross_entropy(dense(p, x, vocabulary), labels)

    return loss


def bidirectional_tagger(vocabulary: int, width: int, layers: int, tags: int):
    """The loss of a tagger of bidirectional LSTM loops."""

    def loss(p: Params, ids: Array, labels: Array) -> Array:
        x = embed(p, ids, vocabulary, width)
        for _ in range(layers):
            x = jnp.concatenate([lstm_loop(p, x, width), lstm_loop(p, x, width, back=True)], -1)
        return cross_entropy(dense(p, x, tags), labels)

    return loss


def residual_lstm(width: int, layers: int):
    """The loss of a deep unrolled LSTM with residual connections that predicts vectors."""

    def loss(p: Params, x: Array, y: Array) -> Array:
        for _ in range(layers):
            x = kept(x + lstm_unrolled(p, x, width, 1))
        return jnp.mean(jnp.square(dense(p, x, y.shape[-1]) - y))

    return loss


def gnmt(vocabulary: int, width: int, layers: int):
    """The loss of a translator like GNMT: encoder and decoder of unrolled LSTMs, the first encoder bidirectional, and
    attention of the decoder's first layer over the encoder's last."""

    def loss(p: Params, source: Array, target: Array, labels: Array) -> Array:
        x = embed(p, source, vocabulary, width)
        both = [lstm_unrolled(p, x, width, 1), lstm_unrolled(p, x[:, ::-1], width, 1)[:, ::-1]]
        x = lstm_unrolled(p, jnp.concatenate(both, -1), width, 1)
        for _ in range(layers - 2):
            x = x + lstm_unrolled(p, x, width, 1)
        keys = dense(p, x, width, bias=False)
        y = embed(p, target, vocabulary, width)
        weights, query, score = lstm_weights(p, 2 * width, width), p(width, width), p(width)
        state = zeros(y.shape[0], width)
        context = jnp.zeros((y.shape[0], width))
        outs, contexts = [], []
        for t in range(y.shape[1]):
            state = lstm_cell(weights, jnp.concatenate([y[:, t], context], -1), state)
            scores = jnp.tanh(keys + (state[0] @ query)[:, None]) @ score
            context = jnp.einsum("bs,bsw->bw", jax.nn.softmax(scores, -1), x)
            outs.append(state[0])
            contexts.append(context)
        y, seen = jnp.stack(outs, 1), jnp.stack(contexts, 1)
        for layer in range(layers - 1):
            out = lstm_unrolled(p, jnp.concatenate([y, seen], -1), width, 1)
            y = y + out if layer else out
        return cross_entropy(dense(p, y, vocabulary), labels)

    return loss
