"""Fused and quantised ops as the nodes of ONNX that they stand for: those of ONNX Runtime, and QLinear ops of ONNX.

Operators: docs/ContribOperators.md of https://github.com/microsoft/onnxruntime. An op of that domain that is not here
keeps its name, and its work is unknown. Quantised operands are read as they are stored, and scaled back.

Deviations: attention that leaves its cache in the memory of the one it read counts as many keys as that holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from workloads.importers.ir import Shape
from workloads.importers.onnx_call import Call, Unknown, writer
from workloads.importers.onnx_reader import Writer

Result = str | Sequence[str]
Write = Callable[[Call], Result]
"""Writes a node out, and says which names its outputs have; "" for one that is not written."""

WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "ceil_mode")


def _writer(write: Write) -> Writer:
    """The writer of what says local names."""

    def tensors(call: Call) -> list[str]:
        found = write(call)
        return [
            call.reader.scope[name] if name else "" for name in ([found] if isinstance(found, str) else found)
        ]

    return writer(tensors)


# ---- products with a tail


def _fused_matmul(call: Call) -> str:
    a, b = call.inputs(0, 1)
    terms = []
    for which, labels in (("A", ("i", "j")), ("B", ("j", "k"))):
        turned, moved = call.given.integer(f"trans{which}", 0), call.given.integer(f"transBatch{which}", 0)
        first, last = labels[::-1] if turned else labels
        terms.append(f"{first}...{last}" if moved else f"...{first}{last}")
    if len(call.shape(a)) < 2 or len(call.shape(b)) < 2 or terms == ["...ij", "...jk"]:
        y = call.add("MatMul", a, b)
    else:
        y = call.add("Einsum", a, b, equation=f"{terms[0]},{terms[1]}->...ik")
    return call.activated(y)


def _fused_conv(call: Call) -> str:
    y = call.add("Conv", *call.inputs(0, 1, 2), **call.kept(*WINDOW))
    return call.activated(call.added(y, call.input(3)))


def _fused_gemm(call: Call) -> str:
    given = call.kept("transA", "transB", "alpha", "beta")
    return call.activated(call.add("Gemm", *call.inputs(0, 1, 2), **given))


def _packed_matmul(call: Call) -> str:
    """MatMulNBits, MatMulBnb4: weights [N, K] of few bits in blocks."""
    columns, depth = call.given.integer("N", 0), call.given.integer("K", 0)
    w = call.unpacked(call.input(1), (columns, depth), *call.inputs(2, 3, 4))
    y = call.add("Einsum", call.input(0), w, equation="...k,nk->...n")
    return call.added(y, call.input(5))


def _packed_table(call: Call) -> str:
    shape, bits = call.shape(call.input(0)), call.given.integer("bits", 4)
    tensor = call.reader.tensors[call.reader.scope[call.input(0)]]
    shape = (*shape[:-1], shape[-1] * max(1, int(8 * tensor.element_bytes) // bits))
    table = call.unpacked(call.input(0), shape, *call.inputs(2, 3))
    return call.add("Gather", table, call.input(1), axis=call.given.integer("gather_axis", 0))


def _quantised_lstm(call: Call) -> list[str]:
    """Weights are [directions, size of the input, gates] where ONNX has the other order."""
    matrices = []
    for position, scale in ((1, 8), (2, 10)):
        both, depth, gates = call.shape(call.input(position))
        scales = (call.input(scale), call.input(scale + 1))
        matrices.append(call.unpacked(call.input(position), (both, gates, depth), *scales))
    inputs = [call.input(0), *matrices, *call.inputs(*range(3, 8))]
    return call.split("LSTM", len(call.proto.output), *inputs, **call.kept("direction", "hidden_size"))


# ---- attention


def _attention(
    call: Call,
    q: str,
    k: str,
    v: str,
    others: Sequence[str],
    pairs: int = 0,
    length: int = 0,
    window: int = 0,
    packed: Shape = (),
    tables: Mapping[int, int] | None = None,
) -> list[str]:
    """Attention of [B, S, H] queries; `others` are mask, past keys, past values and whatever else it reads, `length`
    the keys with those of the past, unless 0, of which a query attends to the last `window`, unless 0. Outputs after
    the first are caches, `packed` of them in one. Of some inputs, by position, `tables` says how many rows are read.
    """
    heads = max(1, call.given.integer("num_heads", 1))
    query, key, value = (call.shape(name) for name in (q, k, v))
    pairs = pairs or heads
    value_size = value[-1] if len(value) > 3 else value[-1] // pairs
    past = call.shape(others[1]) if others[1] else ()
    length = length or key[-2] + (past[-2] if past else 0)
    outputs = [call.put((*query[:2], heads * value_size), call.kind(q))]
    for name, width in zip(call.proto.output[1:], (query[-1] // heads, value_size), strict=False):
        shape = (*past[:-2], length, past[-1]) if past else (*packed, query[0], pairs, length, width)
        outputs.append(call.put(shape, call.kind(others[1] or q)) if name else "")
    keys = min(length, window) if window > 0 else length
    read = [_last(call, name, keys) if at in (1, 2) and name else name for at, name in enumerate(others)]
    given = {"q_num_heads": heads, "kv_num_heads": pairs, "keys": keys}
    tables = tables or {}
    call.node(
        "Attention", [q, k, v, *read], outputs, **given, tables=list(tables), rows=list(tables.values())
    )
    return outputs


def _with_present(call: Call) -> list[str]:
    """Attention of ONNX itself, which says no size of its caches and scores where it reads no cache."""
    query, key, value = (call.shape(name) for name in call.inputs(0, 1, 2))
    past = call.shape(call.input(4))[-2] if call.input(4) else 0
    heads = query[1] if len(query) == 4 else call.given.integer("q_num_heads", 0)
    pairs = key[1] if len(key) == 4 else call.given.integer("kv_num_heads", 0)
    if min(heads, pairs) < 1 or {len(query), len(key), len(value)} - {3, 4}:
        raise Unknown("expected queries, keys and values with heads, found others")
    rows, keys = query[-2], past + key[-2]
    sizes = [each[-1] if len(each) == 4 else each[-1] // pairs for each in (key, value)]
    y = (query[0], rows, heads * sizes[1]) if len(query) == 3 else (query[0], heads, rows, sizes[1])
    caches = [(query[0], pairs, keys, size) for size in sizes]
    shapes = [y, *caches, (query[0], heads, rows, keys)]
    kinds = [call.kind(name) for name in (call.input(0), *call.inputs(1, 2), call.input(0))]
    written = zip(call.proto.output, shapes, kinds, strict=False)
    outputs = [call.put(shape, kind) if name else "" for name, shape, kind in written]
    call.node("Attention", call.proto.input, outputs, **call.given.attributes)
    return outputs


def _last(call: Call, cache: str, keys: int) -> str:
    """As many of the keys or values in a cache as are read."""
    *heads, past, size = call.shape(cache)
    return call.parts(cache, (*heads, keys, size), 1)[0] if keys < past else cache


def _projected(call: Call, x: str, weight: str, past: int, others: Sequence[int]) -> list[str]:
    """Attention after the product that makes queries, keys and values of x."""
    p = call.added(call.add("MatMul", x, weight), call.input(2))
    sizes = list(call.given.attributes.get("qkv_hidden_sizes", ())) or [call.shape(p)[-1] // 3] * 3
    q, k, v = call.split("Split", 3, p, call.constant(sizes), axis=-1)
    caches = ["", call.input(past), "", *call.inputs(*others)]
    return _attention(call, q, k, v, caches, packed=(2,))


def _self_attention(call: Call) -> list[str]:
    return _projected(call, call.input(0), call.input(1), 4, (3, 5))


def _quantised_attention(call: Call) -> list[str]:
    x, w = call.scaled(0, 3, 6), call.scaled(1, 4, 7)
    return _projected(call, x, w, 8, (5,))


def _multi_head(*positions: int) -> Write:
    """Attention whose mask, caches and other inputs stand at these positions."""

    def write(call: Call) -> list[str]:
        q, k, v = call.inputs(0, 1, 2)
        heads, shape = max(1, call.given.integer("num_heads", 1)), call.shape(q)
        if not k and len(shape) == 5:  # [B, S, heads, 3, size]
            q, k, v = call.parts(q, (*shape[:2], heads * shape[4]), 3)
        elif not v and len(call.shape(k)) == 5:  # [B, T, heads, 2, size]
            packed = call.shape(k)
            k, v = call.parts(k, (*packed[:2], heads * packed[4]), 2)
        shared = call.given.integer("past_present_share_buffer", 0) and call.input(positions[1])
        length = call.shape(call.input(positions[1]))[-2] if shared else 0
        return _attention(call, q, k, v, call.inputs(*positions), length=length)

    return write


ROTARY = (8, 9)
"""Where attention has the tables of cosines and sines that `_grouped` hands on."""


def _grouped(call: Call) -> list[str]:
    q, k, v = call.inputs(0, 1, 2)
    heads, pairs = max(1, call.given.integer("num_heads", 1)), max(1, call.given.integer("kv_num_heads", 1))
    if not k:
        size = call.shape(q)[-1] // (heads + 2 * pairs)
        sizes = call.constant([heads * size, pairs * size, pairs * size])
        q, k, v = call.split("Split", 3, q, sizes, axis=-1)
    total = call.reader.value(call.input(6))
    if total is not None and total.size == 1:
        length = int(total.item())
    else:
        present = call.proto.output[1] if len(call.proto.output) > 1 else ""
        length = (call.reader.stated_shape(present) or (0, 0))[-2]
    others = ["", *call.inputs(3, 4, 5, 6, 7, 8)]
    window = call.given.integer("local_window_size", 0)
    tables = dict.fromkeys(ROTARY, prod(call.shape(q)[:2]))
    return _attention(call, q, k, v, others, pairs, length=length, window=window, tables=tables)


def _paged(call: Call) -> list[str]:
    """Attention of all tokens of a batch to caches in blocks, of which a table names those of each sequence. A token
    counts as attending to all blocks that its sequence may have."""
    heads, pairs = max(1, call.given.integer("num_heads", 1)), max(1, call.given.integer("kv_num_heads", 1))
    q, k, v = call.inputs(0, 1, 2)
    blocks, (_, block, *_, size) = call.shape(call.input(7)), call.shape(call.input(3))
    tokens = call.shape(q)[0]
    if not k:
        sizes = call.constant([heads * size, pairs * size, pairs * size])
        q, k, v = call.split("Split", 3, q, sizes, axis=-1)
    keys = blocks[-1] * block
    read = dict.fromkeys((4, 5), blocks[0] * keys * pairs) | dict.fromkeys(ROTARY, tokens)
    caches = zip(call.proto.output[1:], call.inputs(3, 4), strict=False)
    made = [call.like(q), *(call.like(cache) if name else "" for name, cache in caches)]
    given = {"q_num_heads": heads, "kv_num_heads": pairs, "keys": keys}
    batched = [call.view(each, (1, *call.shape(each))) for each in (q, k, v)]
    inputs = [*batched, "", *call.inputs(3, 4, 5, 6, 8, 9, 7)]
    call.node("Attention", inputs, made, **given, tables=list(read), rows=list(read.values()))
    return made


# ---- norms, embeddings and element-wise ops


def _skip_norm(norm: str, bias: int) -> Write:
    """A norm of a sum, which is the fourth output; a bias of the sum stands at position `bias`."""

    def write(call: Call) -> list[str]:
        x = call.added(*call.inputs(0, 1, bias))
        shift = call.input(3) if norm == "LayerNormalization" else ""
        return [call.add(norm, x, call.input(2), shift, like=x), "", "", x]

    return write


def _embedding(call: Call) -> list[str]:
    ids, segments = call.inputs(0, 1)
    places = call.input(8) or call.constant(np.arange(call.shape(ids)[1])[None])
    x = call.add("Gather", call.input(2), ids)
    rows = [call.add("Gather", call.input(3), places)]
    if segments and call.input(4):
        rows.append(call.add("Gather", call.input(4), segments))
    x = call.added(x, *rows)
    y = call.add("LayerNormalization", x, *call.inputs(5, 6), like=x)
    return [y, call.add("ReduceSum", call.input(7) or ids, call.constant([1]), keepdims=0), x]


def _group_norm(skip: bool) -> Write:
    def write(call: Call) -> list[str]:
        x = call.input(0)
        x = call.added(x, *call.inputs(3, 4)) if skip else x
        y = call.add("InstanceNormalization", x, *call.inputs(1, 2), like=x)
        return [call.add("Swish", y, like=y) if call.given.integer("activation", 0) else y, x if skip else ""]

    return write


def _biased(op: str, *positions: int) -> Write:
    """An op of a sum of the inputs at these positions."""
    return lambda call: call.add(op, call.added(call.input(0), *call.inputs(*positions)), like=call.input(0))


def _split_gelu(call: Call) -> str:
    x = call.added(*call.inputs(0, 1))
    half = call.shape(x)[-1] // 2
    a, b = call.split("Split", 2, x, call.constant([half, half]), axis=-1)
    return call.add("Mul", a, call.add("Gelu", b))


def _same(op: str) -> Write:
    """The op of ONNX with these inputs and attributes."""

    def write(call: Call) -> str:
        return call.add(op, *call.proto.input, like=call.input(0), **call.given.attributes)

    return write


# ---- quantised ops: what they compute of numbers that are scaled back, quantised again


def _quantised(op: str, operands: int, bias: int = 0) -> Write:
    """An op whose operands are each followed by scale and zero point; those of its result come next."""

    def write(call: Call) -> str:
        inputs = [call.scaled(i, i + 1, i + 2) for i in range(0, 3 * operands, 3)]
        last = bool(call.given.integer("channels_last", 0))
        if last:
            n, *pixels, c = call.shape(inputs[0])
            inputs[0] = call.view(inputs[0], (n, c, *pixels))
        if bias and call.input(bias):
            inputs.append(call.add("DequantizeLinear", *call.inputs(bias, 4), like=call.input(bias)))
        names = (*WINDOW, "transA", "transB", "axis", "axes", "keepdims", "count_include_pad")
        y = call.add(op, *inputs, **call.kept(*names))
        scale = 3 * operands + (1 if op == "Gemm" else 0)
        if call.input(scale):
            y = call.add("QuantizeLinear", y, call.input(scale), call.input(scale + 1), like=y)
        if last:
            n, c, *pixels = call.shape(y)
            y = call.view(y, (n, *pixels, c))
        return y

    return write


def _quantised_concat(call: Call) -> str:
    inputs = [call.scaled(i, i + 1, i + 2) for i in range(2, len(call.proto.input), 3)]
    y = call.add("Concat", *inputs, **call.kept("axis"))
    return call.add("QuantizeLinear", y, *call.inputs(0, 1), like=y)


def _scaled_matmul(a: tuple[int, ...], b: tuple[int, ...], bias: int) -> Write:
    """A product of operands that may be quantised, by the positions of each with its scale and zero point."""

    def write(call: Call) -> str:
        x, w = (call.scaled(*each) if len(each) == 3 else call.input(each[0]) for each in (a, b))
        return call.added(call.add("MatMul", x, w), call.input(bias))

    return write


def _cast_like(call: Call) -> str:
    return call.add("Cast", call.input(0), to=call.kind(call.input(1)))


_MICROSOFT: dict[str, Write] = {
    "FusedMatMul": _fused_matmul,
    "FusedMatMulActivation": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "GemmFastGelu": lambda call: call.add(
        "Gelu", call.added(call.add("MatMul", *call.inputs(0, 1)), call.input(2))
    ),
    "MatMulNBits": _packed_matmul,
    "MatMulBnb4": _packed_matmul,
    "GatherBlockQuantized": _packed_table,
    "DynamicQuantizeLSTM": _quantised_lstm,
    "Attention": _self_attention,
    "DecoderMaskedSelfAttention": _self_attention,
    "QAttention": _quantised_attention,
    "MultiHeadAttention": _multi_head(4, 6, 7, 3, 5),
    "DecoderMaskedMultiHeadAttention": _multi_head(3, 5, 6, 4, 10),
    "GroupQueryAttention": _grouped,
    "PagedAttention": _paged,
    "SkipLayerNormalization": _skip_norm("LayerNormalization", 4),
    "SkipSimplifiedLayerNormalization": _skip_norm("RMSNormalization", 3),
    "EmbedLayerNormalization": _embedding,
    "GroupNorm": _group_norm(False),
    "SkipGroupNorm": _group_norm(True),
    "BiasGelu": _biased("Gelu", 1),
    "FastGelu": _biased("Gelu", 1),
    "BiasAdd": lambda call: call.added(*call.inputs(0, 1, 2)),
    "BiasSoftmax": _biased("Softmax", 1),
    "BiasSplitGelu": _split_gelu,
    "QuickGelu": lambda call: call.add("Gelu", call.input(0)),
    "Gelu": _same("Gelu"),
    "SimplifiedLayerNormalization": lambda call: call.add(
        "RMSNormalization", *call.inputs(0, 1), like=call.input(0)
    ),
    "RotaryEmbedding": lambda call: call.add("RotaryEmbedding", *call.inputs(0, 2, 3, 1), like=call.input(0)),
    **{op: _same(op) for op in ("QuantizeLinear", "DequantizeLinear", "Trilu", "Pad", "GatherND")},
    **{f"QLinear{op}": _quantised(op, 2) for op in ("Add", "Mul")},
    **{
        f"QLinear{op}": _quantised(op, 1)
        for op in ("LeakyRelu", "Sigmoid", "Softmax", "AveragePool", "GlobalAveragePool", "ReduceMean")
    },
    "QLinearConv": _quantised("Conv", 2, bias=8),
    "QLinearConcat": _quantised_concat,
    "QGemm": _quantised("Gemm", 2, bias=6),
    "DynamicQuantizeMatMul": _scaled_matmul((0,), (1, 2, 3), 4),
    "MatMulIntegerToFloat": _scaled_matmul((0, 2, 4), (1, 3, 5), 6),
}

WRITERS: dict[str, Writer] = {
    **{f"com.microsoft.{op}": _writer(write) for op, write in _MICROSOFT.items()},
    "SimplifiedLayerNormalization": _writer(_MICROSOFT["SimplifiedLayerNormalization"]),
    "Attention": _writer(_with_present),
    "CastLike": _writer(_cast_like),
    "QLinearConv": _writer(_quantised("Conv", 2, bias=8)),
    "QLinearMatMul": _writer(_quantised("MatMul", 2)),
}
"""Op -> what it is in nodes of ONNX."""
