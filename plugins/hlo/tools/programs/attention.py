"""Networks of attention, and recommenders."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from programs.layers import (
    Array,
    Params,
    attention,
    cross_entropy,
    dense,
    kept,
    layer_norm,
    mlp,
    transformer_block,
)


def translator(vocabulary: int, width: int, heads: int, layers: int):
    """The loss of an encoder and decoder with shared embeddings, in bfloat16."""

    def loss(p: Params, source: Array, target: Array, labels: Array) -> Array:
        table = p(vocabulary, width, dtype=jnp.bfloat16)
        x = table[source] + p(1, source.shape[1], width, dtype=jnp.bfloat16)
        for _ in range(layers):
            x = transformer_block(p, x, heads, 4 * width)
        memory = layer_norm(p, x)
        y = table[target] + p(1, target.shape[1], width, dtype=jnp.bfloat16)
        for _ in range(layers):
            inside = layer_norm(p, y)
            y = kept(y + attention(p, inside, inside, heads, causal=True))
            y = kept(y + attention(p, layer_norm(p, y), memory, heads))
            y = kept(y + mlp(p, layer_norm(p, y), 4 * width, jax.nn.relu))
        return cross_entropy(layer_norm(p, y) @ table.T, labels)

    return loss


def language_model(
    vocabulary: int, width: int, heads: int, layers: int, causal: bool = True, narrow: bool = False
):
    """The loss of a language model like GPT-2, or BERT where it is not causal; `narrow`: in bfloat16."""
    dtype = jnp.bfloat16 if narrow else jnp.float32

    def loss(p: Params, ids: Array, labels: Array) -> Array:
        x = p(vocabulary, width, dtype=dtype)[ids] + p(1, ids.shape[1], width, dtype=dtype)
        for _ in range(layers):
            x = transformer_block(p, x, heads, 4 * width, causal)
        return cross_entropy(dense(p, layer_norm(p, x), vocabulary, bias=False), labels)

    return loss


def encoder(vocabulary: int, width: int, heads: int, layers: int):
    """BERT's encoder, forward."""

    def network(p: Params, ids: Array) -> Array:
        x = layer_norm(p, p(vocabulary, width)[ids] + p(1, ids.shape[1], width))
        for _ in range(layers):
            x = layer_norm(p, x + attention(p, x, x, heads))
            x = layer_norm(p, x + mlp(p, x, 4 * width))
        return x

    return network


def decode_step(vocabulary: int, width: int, heads: int, layers: int):
    """One token of a language model with its caches of keys and values, which are updated in place."""

    def network(p: Params, ids: Array, at: Array, caches: list[Array]) -> tuple[Array, list[Array]]:
        batch, size = ids.shape[0], width // heads
        x = p(vocabulary, width)[ids]
        new = []
        for layer in range(layers):
            inside = layer_norm(p, x)
            query, key, value = (dense(p, inside, width).reshape(batch, heads, size) for _ in range(3))
            keys = lax.dynamic_update_slice_in_dim(caches[2 * layer], key[:, None], at, 1)
            values = lax.dynamic_update_slice_in_dim(caches[2 * layer + 1], value[:, None], at, 1)
            scores = jnp.einsum("bhd,blhd->bhl", query, keys) * size**-0.5
            scores = jnp.where(jnp.arange(keys.shape[1]) <= at, scores, -1e9)
            mixed = jnp.einsum("bhl,blhd->bhd", jax.nn.softmax(scores, -1), values).reshape(batch, width)
            x = kept(x + dense(p, mixed, width))
            x = kept(x + mlp(p, layer_norm(p, x), 4 * width))
            new += [keys, values]
        return dense(p, layer_norm(p, x), vocabulary, bias=False), new

    return network


def alphatensor(size: int, width: int, heads: int, blocks: int, actions: int):
    """The loss of a network like AlphaTensor's: the tensor seen from its three sides as grids of vectors, attention
    between each pair of them in turn, heads for policy and value."""

    def loss(p: Params, tensors: Array, labels: Array, returns: Array) -> Array:
        batch = tensors.shape[0]
        grids = []
        for side in range(3):
            turned = jnp.moveaxis(tensors, 1 + side, 3).reshape(batch, size, size, -1)
            grids.append(dense(p, turned, width))
        for _ in range(blocks):
            for a, b in ((0, 1), (2, 0), (1, 2)):
                both = jnp.concatenate([grids[a], jnp.swapaxes(grids[b], 1, 2)], 2)
                flat = both.reshape(batch * size, 2 * size, width)
                inside = layer_norm(p, flat)
                flat = kept(flat + attention(p, inside, inside, heads))
                flat = kept(flat + mlp(p, layer_norm(p, flat), 4 * width))
                both = flat.reshape(batch, size, 2 * size, width)
                grids[a], grids[b] = both[:, :, :size], jnp.swapaxes(both[:, :, size:], 1, 2)
        seen = jnp.concatenate([grid.reshape(batch, -1, width) for grid in grids], 1)
        pooled = jnp.mean(layer_norm(p, seen), 1)
        value = dense(p, jax.nn.relu(dense(p, pooled, width)), 1)[:, 0]
        logits = dense(p, jax.nn.relu(dense(p, pooled, 4 * width)), actions)
        return cross_entropy(logits, labels) + jnp.mean(jnp.square(value - returns))

    return loss


def dlrm(rows: tuple[int, ...], width: int):
    """The logit of a recommender: tables, a bottom and a top network, products of all pairs of features."""

    def network(p: Params, numbers: Array, ids: Array) -> Array:
        x = numbers
        for size in (512, 256, width):
            x = jax.nn.relu(dense(p, x, size))
        found = [x] + [p(count, width)[ids[:, i]] for i, count in enumerate(rows)]
        features = jnp.stack(found, 1)
        products = jnp.einsum("bif,bjf->bij", features, features)
        first, second = jnp.triu_indices(len(found), 1)
        x = jnp.concatenate([x, products[:, first, second]], -1)
        for size in (1024, 1024, 512, 256):
            x = jax.nn.relu(dense(p, x, size))
        return dense(p, x, 1)[:, 0]

    return network


def clicks(network):
    """The loss of a recommender."""

    def loss(p: Params, numbers: Array, ids: Array, labels: Array) -> Array:
        logits = network(p, numbers, ids)
        return jnp.mean(jax.nn.softplus(logits) - labels * logits)

    return loss
