"""Decoders of large language models, op by op: grouped-query attention, rotary embedding, mixtures of experts.

Sources:
- Llama 3: Grattafiori et al., "The Llama 3 Herd of Models", 2024, table 3 (layers, hidden, heads, key and value heads,
  intermediate size, vocabulary); the configurations published with the checkpoints Meta-Llama-3-8B and -70B.
- Mixtral: Jiang et al., "Mixtral of Experts", 2024, table 1.
- RMS normalisation: Zhang and Sennrich 2019; rotary embedding: Su et al. 2021; SwiGLU: Shazeer 2020.

A *prefill* reads a prompt of `length` tokens and gives the logits of the last one, as servers do it. A *decode* step
reads one token a sample with the keys and values of `length` earlier ones in a cache, and gives its logits.

Deviations:
- The cache is held and read as a weight of the product that reads it, with no parameters: it stays from one step to the
  next and is placed by a decision of its own (`weight` of `layer0.attention.scores` is the keys' cache). The new keys
  and values come as activations; writing them into the cache is not counted.
- Views (heads apart and together) are no ops, and keys are transposed in the product, as compilers do it. Norms, rotary
  embeddings, softmax, residual adds and products are separate ops.
- The causal mask is computed from positions and holds no bytes; products of a prefill are computed in full.
- Experts get equal shares of the tokens (*assumption*: training balances them). What is left over goes to the first
  ones, so that a decode step of one token reads two of eight experts; an expert without tokens holds its weights
  unread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from workloads.workload import Gemm, Shape3, Workload
from workloads.zoo.builder import ID_BYTES, Builder, Tensor, sized
from workloads.zoo.vector_ops import VECTOR_OPS


@dataclass(frozen=True)
class Sizes:
    """What a decoder is made of. `experts` is 0 where every token takes the one feed-forward part.

    Attributes:
        batch, length: samples; tokens of a sample's prompt, or in its cache.
        layers, hidden, intermediate, vocabulary: as in the papers' tables.
        heads, kv_heads: query heads, and the key and value heads that they share.
        experts, active: feed-forward parts of a layer, and how many of them a token takes.
        decode: one token a sample, with a cache, instead of a prompt.
    """

    batch: int
    length: int
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabulary: int
    experts: int = 0
    active: int = 0
    decode: bool = False

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise ValueError(f"heads: expected a divisor of hidden = {self.hidden}, received {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(
                f"kv_heads: expected a divisor of heads = {self.heads}, received {self.kv_heads}"
            )
        if not self.active <= self.experts:
            raise ValueError(f"experts: expected at least {self.active} (active), received {self.experts}")

    @property
    def tokens(self) -> int:
        """Tokens a sample that go through the layers."""
        return 1 if self.decode else self.length

    @property
    def head_size(self) -> int:
        """Elements of one head."""
        return self.hidden // self.heads


def _build(source: str, **given: Any) -> Workload:
    """Any decoder, of the fields of `Sizes`."""
    sizes = Sizes(**given)
    net = Builder(sizes.batch)
    x = net.gather(
        "embedding", [net.input((sizes.tokens, 1, 1), ID_BYTES)], sizes.vocabulary, sizes.hidden, sizes.tokens
    )
    for layer in range(sizes.layers):
        x = _attention(net, f"layer{layer}.attention", x, sizes)
        feed = _experts if sizes.experts else _feed_forward
        x = feed(net, f"layer{layer}.mlp", x, sizes)
    if not sizes.decode:
        x = net.pointwise("last", "split", [x.part((1, 1, sizes.hidden))], "copy")
    x = _norm(net, "norm", x)
    x = net.matmul("lm_head", x, sizes.vocabulary)
    return net.build("decoder", [x], source)


def _attention(net: Builder, prefix: str, x: Tensor, sizes: Sizes) -> Tensor:
    """Normalisation, projections, rotary embedding, attention of grouped heads, and the residual add."""
    group, size = sizes.heads // sizes.kv_heads, sizes.head_size
    normed = _norm(net, f"{prefix}.norm", x)
    q = net.matmul(f"{prefix}.query", normed, sizes.heads * size)
    k = net.matmul(f"{prefix}.key", normed, sizes.kv_heads * size)
    v = net.matmul(f"{prefix}.value", normed, sizes.kv_heads * size)
    q = net.pointwise(f"{prefix}.query.rotary", "elementwise", [q], "rotary")
    k = net.pointwise(f"{prefix}.key.rotary", "elementwise", [k], "rotary")

    cached = sizes.length if sizes.decode else 0
    rows, context = group * sizes.tokens, cached + sizes.tokens
    q = q.view((sizes.kv_heads, rows, size))
    y = _product(net, f"{prefix}.scores", q, k, (sizes.kv_heads, rows, context), size, cached * size)
    y = net.pointwise(f"{prefix}.scale", "elementwise", [y], "scale")
    if not sizes.decode:  # the one new token sees the whole cache
        y = net.pointwise(f"{prefix}.mask", "elementwise", [y], "mask")
    y = net.pointwise(f"{prefix}.softmax", "softmax", [y], "softmax")
    y = _product(net, f"{prefix}.context", y, v, (sizes.kv_heads, rows, size), context, cached * size)
    y = net.matmul(f"{prefix}.output", y.view((sizes.tokens, 1, sizes.heads * size)), sizes.hidden)
    return net.pointwise(f"{prefix}.add", "elementwise", [y, x], "add")


def _product(
    net: Builder, name: str, x: Tensor, y: Tensor, ofm: Shape3, reduction: int, cached: int
) -> Tensor:
    """A product of `x` with `y` and `cached` elements a head before it, a key and value head at a time."""
    held = net.batch * ofm[0] * cached
    gemm = Gemm(net.batch * ofm[0], ofm[1], ofm[2], reduction)
    return net.add(name, "attention_matmul", [x, y], ofm, weights=held, parameters=0, gemm=gemm)


def _feed_forward(net: Builder, prefix: str, x: Tensor, sizes: Sizes) -> Tensor:
    """Normalisation, SwiGLU and the residual add."""
    y = _swiglu(net, prefix, _norm(net, f"{prefix}.norm", x), sizes)
    return net.pointwise(f"{prefix}.add", "elementwise", [y, x], "add")


def _experts(net: Builder, prefix: str, x: Tensor, sizes: Sizes) -> Tensor:
    """The same with a router: tokens are dispatched to experts, and their results combined."""
    normed = _norm(net, f"{prefix}.norm", x)
    routes = net.matmul(f"{prefix}.router", normed, sizes.experts)
    routes = net.pointwise(f"{prefix}.router.softmax", "softmax", [routes], "softmax")
    tokens = sizes.batch * sizes.tokens
    routed = tokens * sizes.active
    flat = replace(normed, shape=(tokens, 1, sizes.hidden), batch=1)
    work = VECTOR_OPS["copy"] * routed * sizes.hidden
    shape = (routed, 1, sizes.hidden)
    sent = net.add(f"{prefix}.dispatch", "split", [flat, routes], shape, batch=1, vector_ops=work)
    results = []
    for expert in range(sizes.experts):
        rows = routed // sizes.experts + (expert < routed % sizes.experts)
        part = sent.part((rows, 1, sizes.hidden))
        results.append(_swiglu(net, f"{prefix}.expert{expert}", part, sizes))
    work = (VECTOR_OPS["scale"] + VECTOR_OPS["add"]) * routed * sizes.hidden
    y = net.add(f"{prefix}.combine", "elementwise", [*results, routes], flat.shape, batch=1, vector_ops=work)
    return net.pointwise(f"{prefix}.add", "elementwise", [x, y], "add")


def _swiglu(net: Builder, prefix: str, x: Tensor, sizes: Sizes) -> Tensor:
    """(silu(x gate) * (x up)) down: five ops."""
    gate = _linear(net, f"{prefix}.gate", x, sizes.intermediate)
    up = _linear(net, f"{prefix}.up", x, sizes.intermediate)
    gate = _elementwise(net, f"{prefix}.silu", "activation", [gate], "swish")
    y = _elementwise(net, f"{prefix}.product", "elementwise", [gate, up], "scale")
    return _linear(net, f"{prefix}.down", y, sizes.hidden)


def _linear(net: Builder, name: str, x: Tensor, features: int) -> Tensor:
    """A product with weights that are read only where there are tokens."""
    rows, weights = x.batch * x.shape[0], x.shape[2] * features
    return net.add(
        name,
        "matmul",
        [x],
        (x.shape[0], 1, features),
        weights=weights,
        weights_read=weights if rows else 0,
        gemm=Gemm(1, rows, features, x.shape[2]) if rows else None,
        batch=x.batch,
    )


def _elementwise(net: Builder, name: str, kind: str, inputs: list[Tensor], work: str) -> Tensor:
    x = inputs[0]
    vector_ops = VECTOR_OPS[work] * x.batch * x.elements
    return net.add(name, kind, inputs, x.shape, batch=x.batch, vector_ops=vector_ops)


def _norm(net: Builder, name: str, x: Tensor) -> Tensor:
    return net.pointwise(name, "norm", [x], "rmsnorm", weights=x.shape[2])


DECODERS: dict[str, Callable[..., Workload]] = {
    "llama3_8b": sized(
        "llama3_8b", partial(_build, "Grattafiori et al. 2024, 8B, int8"), batch=1, length=512,
        layers=32, hidden=4096, intermediate=14336, heads=32, kv_heads=8, vocabulary=128256, decode=False,
    ),
    "llama3_70b": sized(
        "llama3_70b", partial(_build, "Grattafiori et al. 2024, 70B, int8"), batch=1, length=512,
        layers=80, hidden=8192, intermediate=28672, heads=64, kv_heads=8, vocabulary=128256, decode=False,
    ),
    "mixtral_8x7b": sized(
        "mixtral_8x7b", partial(_build, "Jiang et al. 2024, 8x7B, int8"), batch=1, length=512,
        layers=32, hidden=4096, intermediate=14336, heads=32, kv_heads=8, vocabulary=32000, experts=8, active=2,
        decode=False,
    ),
}  # fmt: skip
"""Name -> builder at its published size. Llama 3 has 4 + 20 x layers ops as a prefill and 3 + 19 x layers as a decode
step, Mixtral 4 + 59 x layers and 3 + 58 x layers."""
