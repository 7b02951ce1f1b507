"""Transformers, unfused: the graph a framework exports, a matmul and its bias being two ops.

Sources:
- BERT: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers …", 2019 (base, classifier).
- GPT-2: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (124M).

Shapes (x, y, z): a sequence is (length, 1, hidden); split by heads (length, heads, head size), transposed
(heads, length, head size), for the keys (heads, head size, length); scores are (heads, length, length).

Deviations:
- No dropout: it does nothing at inference.
- The tied output matrix of GPT-2 counts once in `parameters` (at the embedding), but the head *holds* a copy:
  a gather wants whole rows and reads a few of them, a matmul wants tiles and reads all, and the two are
  placed by independent decisions. Capacity is therefore asked for twice.
- GPT-2's causal mask is computed from positions and holds no bytes; the products are computed in full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from workloads.workload import Gemm, Shape3, Workload
from workloads.zoo.builder import ID_BYTES, Builder, Tensor, network, sized

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


def encoder(
    pieces: Pieces,
    source: str,
    *,
    batch: int,
    length: int,
    layers: int,
    hidden: int,
    heads: int,
    intermediate: int,
    vocabulary: int,
    positions: int,
    classes: int,
) -> Workload:
    """BERT with a classifier of sequences, made of these pieces.

    Raises ValueError where heads do not divide hidden or the sequence is longer than `positions`.
    """
    check_sizes(length, positions, hidden, heads)
    net = Builder(batch)
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
    return net.build("encoder", [pieces.softmax(net, "classifier.softmax", y)], source)


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


@network
def gpt2(
    *,
    batch: int = 1,
    length: int = 128,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    vocabulary: int = 50257,
    positions: int = 1024,
) -> Workload:
    """GPT-2 with its language head, logits of every position: 5 + 27 x layers ops.

    Raises ValueError where heads do not divide hidden or the sequence is longer than `positions`.
    """
    check_sizes(length, positions, hidden, heads)
    net = Builder(batch)
    word = net.gather("wte", [net.input((length, 1, 1), ID_BYTES)], vocabulary, hidden, length)
    position = net.gather("wpe", [], positions, hidden, length)
    x = net.pointwise("embeddings.add", "elementwise", [word, position], "add")
    for layer in range(layers):
        x = _decoder_layer(net, f"h{layer}", x, heads)
    x = _layernorm(net, "ln_f", x)
    x = net.matmul("lm_head", x, vocabulary, parameters=0)
    return net.build("gpt2", [x], "Radford et al. 2019, 124M, int8")


def _encoder_attention(net: Builder, prefix: str, x: Tensor, mask: Tensor, heads: int) -> Tensor:
    """Projections and heads of queries, keys and values, and the attention: 19 ops."""
    q, k, v = (
        _split_heads(net, f"{prefix}.{role}", _projection(net, f"{prefix}.{role}", x, x.shape[2]), heads)
        for role in ("query", "key", "value")
    )
    return _attention(net, f"{prefix}.attention", q, k, v, [mask])


def _decoder_layer(net: Builder, prefix: str, x: Tensor, heads: int) -> Tensor:
    """27 ops: normalisation before attention and before the feed-forward part; one matmul for q, k and v."""
    length, _, hidden = x.shape
    y = _layernorm(net, f"{prefix}.ln_1", x)
    y = _projection(net, f"{prefix}.c_attn", y, 3 * hidden)
    each = (length, 1, hidden)
    one = net.add(
        f"{prefix}.split", "split", [y], each, outputs=3, vector_ops=net.batch * length * 3 * hidden
    )
    q, k, v = (_split_heads(net, f"{prefix}.{role}", one, heads) for role in ("query", "key", "value"))
    y = _attention(net, f"{prefix}.attention", q, k, v, [])
    y = _projection(net, f"{prefix}.c_proj", y, hidden)
    x = net.pointwise(f"{prefix}.add_attention", "elementwise", [y, x], "add")
    y = _layernorm(net, f"{prefix}.ln_2", x)
    y = _projection(net, f"{prefix}.mlp.c_fc", y, 4 * hidden)
    y = net.pointwise(f"{prefix}.mlp.gelu", "activation", [y], "gelu")
    y = _projection(net, f"{prefix}.mlp.c_proj", y, hidden)
    return net.pointwise(f"{prefix}.add_mlp", "elementwise", [y, x], "add")


def _projection(net: Builder, prefix: str, x: Tensor, features: int) -> Tensor:
    """Matmul and bias add."""
    y = net.matmul(f"{prefix}.matmul", x, features)
    return net.pointwise(f"{prefix}.bias", "elementwise", [y], "add", weights=features)


def _layernorm(net: Builder, name: str, x: Tensor) -> Tensor:
    return net.pointwise(name, "norm", [x], "layernorm", weights=2 * x.shape[2])


def _split_heads(net: Builder, prefix: str, x: Tensor, heads: int) -> Tensor:
    """Reshape and transpose; keys are transposed further, so that scores are a plain product."""
    length, _, hidden = x.shape
    size = hidden // heads
    y = net.pointwise(f"{prefix}.reshape", "reshape", [x], "view", ofm=(length, heads, size))
    ofm = (heads, size, length) if prefix.endswith("key") else (heads, length, size)
    return net.pointwise(f"{prefix}.transpose", "transpose", [y], "copy", ofm=ofm)


def _attention(net: Builder, prefix: str, q: Tensor, k: Tensor, v: Tensor, mask: list[Tensor]) -> Tensor:
    """Seven ops: scores, scale, mask, softmax, context, transpose, reshape."""
    heads, length, size = q.shape
    y = head_product(net, f"{prefix}.scores", q, k, (heads, length, length), size)
    y = net.pointwise(f"{prefix}.scale", "elementwise", [y], "scale")
    y = net.pointwise(f"{prefix}.mask", "elementwise", [y, *mask], "mask")
    y = _softmax(net, f"{prefix}.softmax", y)
    y = head_product(net, f"{prefix}.context", y, v, (heads, length, size), length)
    y = net.pointwise(f"{prefix}.transpose", "transpose", [y], "copy", ofm=(length, heads, size))
    return net.pointwise(f"{prefix}.reshape", "reshape", [y], "view", ofm=(length, 1, heads * size))


def _first(net: Builder, prefix: str, x: Tensor) -> Tensor:
    return net.pointwise(f"{prefix}.slice", "split", [x.part((1, 1, x.shape[2]))], "copy")


def _gelu(net: Builder, name: str, x: Tensor) -> Tensor:
    return net.pointwise(name, "activation", [x], "gelu")


def _softmax(net: Builder, name: str, x: Tensor) -> Tensor:
    return net.pointwise(name, "softmax", [x], "softmax")


_PIECES = Pieces(_first, _projection, _projection, _encoder_attention, _layernorm, _gelu, _softmax)


bert = sized(
    "bert", partial(encoder, _PIECES, "Devlin et al. 2019, base, int8"),
    batch=1, length=128, layers=12, hidden=768, heads=12,
    intermediate=3072, vocabulary=30522, positions=512, classes=2,
)  # fmt: skip
"""BERT with a sequence classification head: 16 + 30 x layers ops. Raises ValueError where `encoder` does."""
