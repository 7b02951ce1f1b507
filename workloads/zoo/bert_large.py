"""BERT-large at the granularity of a compiler: every broadcast, reduction, reshape and elementary product is an op.

Sources:
- Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers …", 2019: large (24 layers, 1,024, 16 heads).
- "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", section 5.1: its BERT has
  2,138 nodes and about 340 million parameters; the graph itself is not published.

Deviations:
- This graph has 2,103 ops. What is an op follows what an array compiler does with the published code: a bias, gain or
  shift is held by the broadcast that spreads it; softmax, layer normalisation and GELU (tanh form) are taken apart;
  matmuls work on matrices, with a reshape after each; constants are part of the op that uses them.
- 335 million parameters with the pooler and a classifier of two classes, which the paper rounds; no dropout.
"""

from __future__ import annotations

from math import prod

from workloads.graph import Gemm, Shape3, Workload
from workloads.zoo.builder import ID_BYTES, Builder, Tensor
from workloads.zoo.naming import variant_name
from workloads.zoo.transformer import check_sizes


def bert_large(
    *,
    batch: int = 1,
    length: int = 128,
    layers: int = 24,
    hidden: int = 1024,
    heads: int = 16,
    intermediate: int = 4096,
    vocabulary: int = 30522,
    positions: int = 512,
    classes: int = 2,
) -> Workload:
    """BERT with a sequence classification head, in elementary ops: 39 + 86 x layers.

    Raises ValueError where heads do not divide hidden or the sequence is longer than `positions`.
    """
    check_sizes(length, positions, hidden, heads)
    net = Builder(batch)
    ids = net.input((length, 1, 1), ID_BYTES)
    word = net.gather("embeddings.word", [ids], vocabulary, hidden, length)
    position = net.gather("embeddings.position", [], positions, hidden, length)
    token_type = net.gather("embeddings.token_type", [ids], 2, hidden, length)
    x = _two(net, "embeddings.add_token_type", word, token_type)
    x = _two(net, "embeddings.add_position", x, position)
    x = _layernorm(net, "embeddings.layernorm", x)
    mask = net.pointwise("mask.cast", "elementwise", [ids], "cast")
    mask = net.pointwise("mask.invert", "elementwise", [mask], "mask")
    mask = net.pointwise("mask.scale", "elementwise", [mask], "scale")
    for layer in range(layers):
        x = _layer(net, f"layer{layer}", x, mask, heads, intermediate)
    y = net.pointwise("pooler.slice", "split", [x.part((1, 1, hidden))], "copy")
    y = net.pointwise("pooler.reshape", "reshape", [y], "view")
    y = _biased(net, "pooler", net.matmul("pooler.matmul", y, hidden))
    y = net.pointwise("pooler.tanh", "activation", [y], "tanh")
    y = _biased(net, "classifier", net.matmul("classifier.matmul", y, classes))
    y = _softmax(net, "classifier.softmax", y)
    name = variant_name(
        "bert_large",
        bert_large,
        batch=batch,
        length=length,
        layers=layers,
        hidden=hidden,
        heads=heads,
        intermediate=intermediate,
        vocabulary=vocabulary,
        positions=positions,
        classes=classes,
    )
    return net.build(name, [y], "Devlin et al. 2019, large, int8, elementary ops")


def _layer(net: Builder, prefix: str, x: Tensor, mask: Tensor, heads: int, intermediate: int) -> Tensor:
    """86 ops: normalisation after each residual add."""
    length, _, hidden = x.shape
    size = hidden // heads
    parts = []
    for role in ("query", "key", "value"):
        y = _dense(net, f"{prefix}.{role}", x, hidden)
        y = net.pointwise(f"{prefix}.{role}.heads", "reshape", [y], "view", ofm=(length, heads, size))
        parts.append(
            net.pointwise(f"{prefix}.{role}.transpose", "transpose", [y], "copy", ofm=(heads, length, size))
        )
    q, k, v = parts
    k = net.pointwise(f"{prefix}.key.turn", "transpose", [k], "copy", ofm=(heads, size, length))
    y = _product(net, f"{prefix}.attention.scores", q, k, (heads, length, length), size)
    y = net.pointwise(f"{prefix}.attention.scale", "elementwise", [y], "scale")
    spread = net.pointwise(
        f"{prefix}.attention.mask.broadcast", "other", [mask], "copy", ofm=(heads, length, length)
    )
    y = _two(net, f"{prefix}.attention.mask", y, spread)
    y = _softmax(net, f"{prefix}.attention.softmax", y)
    y = _product(net, f"{prefix}.attention.context", y, v, (heads, length, size), length)
    y = net.pointwise(f"{prefix}.attention.transpose", "transpose", [y], "copy", ofm=(length, heads, size))
    y = net.pointwise(f"{prefix}.attention.reshape", "reshape", [y], "view", ofm=(length, 1, hidden))
    y = _dense(net, f"{prefix}.output", y, hidden)
    x = _layernorm(net, f"{prefix}.output.layernorm", _two(net, f"{prefix}.output.add", y, x))
    y = _gelu(net, f"{prefix}.intermediate.gelu", _dense(net, f"{prefix}.intermediate", x, intermediate))
    y = _dense(net, f"{prefix}.feedforward", y, hidden)
    return _layernorm(net, f"{prefix}.feedforward.layernorm", _two(net, f"{prefix}.feedforward.add", y, x))


def _two(net: Builder, name: str, x: Tensor, y: Tensor, work: str = "add") -> Tensor:
    """An elementary op of two tensors."""
    return net.pointwise(name, "elementwise", [x, y], work)


def _dense(net: Builder, prefix: str, x: Tensor, features: int) -> Tensor:
    """Four ops: matmul, reshape, broadcast of the bias, add."""
    y = net.matmul(f"{prefix}.matmul", x, features)
    y = net.pointwise(f"{prefix}.reshape", "reshape", [y], "view")
    return _biased(net, prefix, y)


def _biased(net: Builder, prefix: str, x: Tensor) -> Tensor:
    """Two ops: the broadcast that holds the bias, and the add."""
    return _two(net, f"{prefix}.bias.add", x, _parameter(net, f"{prefix}.bias", x.shape))


def _parameter(net: Builder, name: str, shape: Shape3) -> Tensor:
    """A vector of parameters, spread to a shape; once for the batch."""
    return net.add(name, "other", [], shape, weights=shape[2], vector_ops=prod(shape), batch=1)


def _reduce(net: Builder, name: str, x: Tensor) -> Tensor:
    """The sum or the largest of each row."""
    ofm = (x.shape[0], x.shape[1], 1)
    return net.add(name, "reduce", [x], ofm, vector_ops=net.batch * x.elements)


def _softmax(net: Builder, prefix: str, x: Tensor) -> Tensor:
    """Seven ops."""
    most = _reduce(net, f"{prefix}.max", x)
    most = net.pointwise(f"{prefix}.max.broadcast", "other", [most], "copy", ofm=x.shape)
    y = _two(net, f"{prefix}.subtract", x, most)
    y = net.pointwise(f"{prefix}.exp", "activation", [y], "scale")
    total = _reduce(net, f"{prefix}.sum", y)
    total = net.pointwise(f"{prefix}.sum.broadcast", "other", [total], "copy", ofm=x.shape)
    return _two(net, f"{prefix}.divide", y, total, "scale")


def _layernorm(net: Builder, prefix: str, x: Tensor) -> Tensor:
    """Fifteen ops."""
    mean = net.pointwise(f"{prefix}.mean", "elementwise", [_reduce(net, f"{prefix}.sum", x)], "scale")
    mean = net.pointwise(f"{prefix}.mean.broadcast", "other", [mean], "copy", ofm=x.shape)
    centred = _two(net, f"{prefix}.subtract", x, mean)
    square = net.pointwise(f"{prefix}.square", "elementwise", [centred], "scale")
    y = _reduce(net, f"{prefix}.square.sum", square)
    y = net.pointwise(f"{prefix}.variance", "elementwise", [y], "scale")
    y = net.pointwise(f"{prefix}.epsilon", "elementwise", [y], "add")
    y = net.pointwise(f"{prefix}.rsqrt", "elementwise", [y], "scale")
    y = net.pointwise(f"{prefix}.rsqrt.broadcast", "other", [y], "copy", ofm=x.shape)
    y = _two(net, f"{prefix}.normalise", centred, y, "scale")
    y = _two(net, f"{prefix}.multiply", y, _parameter(net, f"{prefix}.gain", x.shape), "scale")
    return _two(net, f"{prefix}.add", y, _parameter(net, f"{prefix}.shift", x.shape))


def _gelu(net: Builder, prefix: str, x: Tensor) -> Tensor:
    """Nine ops: x / 2 * (1 + tanh(a * (x + b * x^3)))."""
    y = net.pointwise(f"{prefix}.square", "elementwise", [x], "scale")
    y = _two(net, f"{prefix}.cube", y, x, "scale")
    y = net.pointwise(f"{prefix}.inner", "elementwise", [y], "scale")
    y = _two(net, f"{prefix}.sum", y, x)
    y = net.pointwise(f"{prefix}.outer", "elementwise", [y], "scale")
    y = net.pointwise(f"{prefix}.tanh", "activation", [y], "tanh")
    y = net.pointwise(f"{prefix}.one", "elementwise", [y], "add")
    y = net.pointwise(f"{prefix}.half", "elementwise", [y], "scale")
    return _two(net, f"{prefix}.product", y, x, "scale")


def _product(net: Builder, name: str, x: Tensor, y: Tensor, ofm: Shape3, reduction: int) -> Tensor:
    """A product of activations, a head at a time."""
    gemm = Gemm(net.batch * ofm[0], ofm[1], ofm[2], reduction)
    return net.add(name, "attention_matmul", [x, y], ofm, gemm=gemm)
