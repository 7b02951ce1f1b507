"""BERT's encoder with a classifier, whatever its pieces are made of: single ops, or the elementary ops of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workloads.workload import Gemm, Shape3
from workloads.zoo.builder import ID_BYTES, Builder, Tensor

Piece = Callable[[Builder, str, Tensor], Tensor]
"""Adds ops whose names begin with the given one; their result."""
Projection = Callable[[Builder, str, Tensor, int], Tensor]
"""The same, to a number of features."""
Attention = Callable[[Builder, str, Tensor, Tensor, int], Tensor]
"""The same, of a layer's prefix, its input, the mask and the number of heads; (length, 1, hidden)."""


@dataclass(frozen=True)
class Pieces:
    """What an encoder is made of.

    Attributes:
        first: takes the first position's vector, (1, 1, hidden), out of a sequence.
        projection: a matmul over a sequence with its bias.
        output: a matmul over one vector with its bias.
        attention: projections of queries, keys and values, and what follows up to the heads side by side.
        layernorm, gelu, softmax: as they are called.
    """

    first: Piece
    projection: Projection
    output: Projection
    attention: Attention
    layernorm: Piece
    gelu: Piece
    softmax: Piece


def classifier(
    net: Builder,
    pieces: Pieces,
    *,
    length: int,
    layers: int,
    hidden: int,
    heads: int,
    intermediate: int,
    vocabulary: int,
    positions: int,
    classes: int,
) -> Tensor:
    """Probabilities of the classes of a sequence.

    Raises ValueError where heads do not divide hidden or the sequence is longer than `positions`.
    """
    check_sizes(length, positions, hidden, heads)
    ids = net.input((length, 1, 1), ID_BYTES)
    word = net.gather("embeddings.word", [ids], vocabulary, hidden, length)
    position = net.gather("embeddings.position", [], positions, hidden, length)
    token_type = net.gather("embeddings.token_type", [ids], 2, hidden, length)
    x = net.pointwise("embeddings.add_token_type", "elementwise", [word, token_type], "add")
    x = net.pointwise("embeddings.add_position", "elementwise", [x, position], "add")
    x = pieces.layernorm(net, "embeddings.layernorm", x)
    mask = net.pointwise("mask.cast", "elementwise", [ids], "cast")
    mask = net.pointwise("mask.invert", "elementwise", [mask], "mask")
    mask = net.pointwise("mask.scale", "elementwise", [mask], "scale")
    for layer in range(layers):
        x = _layer(net, pieces, f"layer{layer}", x, mask, heads, intermediate)
    y = pieces.output(net, "pooler", pieces.first(net, "pooler", x), hidden)
    y = net.pointwise("pooler.tanh", "activation", [y], "tanh")
    y = pieces.output(net, "classifier", y, classes)
    return pieces.softmax(net, "classifier.softmax", y)


def _layer(
    net: Builder, pieces: Pieces, prefix: str, x: Tensor, mask: Tensor, heads: int, intermediate: int
) -> Tensor:
    """Attention and a feed-forward part, with a normalisation after each residual add."""
    hidden = x.shape[2]
    y = pieces.attention(net, prefix, x, mask, heads)
    y = pieces.projection(net, f"{prefix}.output", y, hidden)
    y = net.pointwise(f"{prefix}.output.add", "elementwise", [y, x], "add")
    x = pieces.layernorm(net, f"{prefix}.output.layernorm", y)
    y = pieces.projection(net, f"{prefix}.intermediate", x, intermediate)
    y = pieces.gelu(net, f"{prefix}.intermediate.gelu", y)
    y = pieces.projection(net, f"{prefix}.feedforward", y, hidden)
    y = net.pointwise(f"{prefix}.feedforward.add", "elementwise", [y, x], "add")
    return pieces.layernorm(net, f"{prefix}.feedforward.layernorm", y)


def head_product(net: Builder, name: str, x: Tensor, y: Tensor, ofm: Shape3, reduction: int) -> Tensor:
    """A product of activations, a head at a time."""
    gemm = Gemm(net.batch * ofm[0], ofm[1], ofm[2], reduction)
    return net.add(name, "attention_matmul", [x, y], ofm, gemm=gemm)


def check_sizes(length: int, positions: int, hidden: int, heads: int) -> None:
    """ValueError where a sequence is longer than its positions, or heads do not divide the hidden size."""
    if not 1 <= length <= positions:
        raise ValueError(f"length: expected 1 to {positions} (positions), received {length}")
    if heads < 1 or hidden % heads:
        raise ValueError(f"heads: expected a divisor of hidden = {hidden}, received {heads}")
