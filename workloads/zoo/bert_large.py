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

from functools import partial
from math import prod

from workloads.workload import Shape3
from workloads.zoo.builder import Builder, Tensor, sized
from workloads.zoo.transformer import Pieces, encoder, head_product


def _first(net: Builder, prefix: str, x: Tensor) -> Tensor:
    """Two ops: slice and reshape, since matmuls work on matrices."""
    y = net.pointwise(f"{prefix}.slice", "split", [x.part((1, 1, x.shape[2]))], "copy")
    return net.pointwise(f"{prefix}.reshape", "reshape", [y], "view")


def _output(net: Builder, prefix: str, x: Tensor, features: int) -> Tensor:
    """Three ops: matmul, broadcast of the bias, add."""
    return _add_bias(net, prefix, net.matmul(f"{prefix}.matmul", x, features))


def _attention(net: Builder, prefix: str, x: Tensor, mask: Tensor, heads: int) -> Tensor:
    """Queries, keys and values, scores, mask, softmax and context, an op for each step."""
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
    y = head_product(net, f"{prefix}.attention.scores", q, k, (heads, length, length), size)
    y = net.pointwise(f"{prefix}.attention.scale", "elementwise", [y], "scale")
    spread = net.pointwise(
        f"{prefix}.attention.mask.broadcast", "other", [mask], "copy", ofm=(heads, length, length)
    )
    y = _two(net, f"{prefix}.attention.mask", y, spread)
    y = _softmax(net, f"{prefix}.attention.softmax", y)
    y = head_product(net, f"{prefix}.attention.context", y, v, (heads, length, size), length)
    y = net.pointwise(f"{prefix}.attention.transpose", "transpose", [y], "copy", ofm=(length, heads, size))
    return net.pointwise(f"{prefix}.attention.reshape", "reshape", [y], "view", ofm=(length, 1, hidden))


def _two(net: Builder, name: str, x: Tensor, y: Tensor, work: str = "add") -> Tensor:
    """An elementary op of two tensors."""
    return net.pointwise(name, "elementwise", [x, y], work)


def _dense(net: Builder, prefix: str, x: Tensor, features: int) -> Tensor:
    """Four ops: matmul, reshape, broadcast of the bias, add."""
    y = net.matmul(f"{prefix}.matmul", x, features)
    y = net.pointwise(f"{prefix}.reshape", "reshape", [y], "view")
    return _add_bias(net, prefix, y)


def _add_bias(net: Builder, prefix: str, x: Tensor) -> Tensor:
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


_PIECES = Pieces(_first, _dense, _output, _attention, _layernorm, _gelu, _softmax)


bert_large = sized(
    "bert_large", partial(encoder, _PIECES, "Devlin et al. 2019, large, int8, elementary ops"),
    batch=1, length=128, layers=24, hidden=1024, heads=16,
    intermediate=4096, vocabulary=30522, positions=512, classes=2,
)  # fmt: skip
"""BERT with a sequence classifier, in elementary ops: 39 + 86 x layers. Raises ValueError as `encoder` does."""
