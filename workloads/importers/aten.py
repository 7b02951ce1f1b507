"""PyTorch's ops (ATen) in the words of ONNX.

Names and arguments: native_functions.yaml of https://github.com/pytorch/pytorch. What is in no table keeps its own name
and is priced as a mover of data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workloads.importers.aten_products import MAYBE, SIZES, sizes
from workloads.importers.ir import Node, Tensor
from workloads.importers.vocabulary import CONVOLUTIONS, PRODUCTS, RECURRENT


@dataclass(frozen=True)
class Ref:
    """A tensor that a call reads, by name."""

    name: str


@dataclass(frozen=True)
class Call:
    """A call of an op: "conv2d", its arguments by name (a `Ref`, a number, a text, None, or lists), its outputs."""

    name: str
    op: str
    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]


_SAME = ("alias", "detach", "contiguous", "dropout", "lift", "positive", "requires_grad", "resolve_conj")
_VIEWS = ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "expand", "expand_as", "view_as")
_MORE_VIEWS = ("broadcast_to", "reshape_as", "_reshape_alias", "view_as_real", "view_as_complex", "ravel")
_PARTS = (
    "slice",
    "select",
    "narrow",
    "split",
    "split_with_sizes",
    "chunk",
    "unbind",
    "tensor_split",
    "unfold",
)
_MORE_PARTS = ("unsafe_chunk", "unsafe_split", "diagonal", "as_strided", "real", "imag", "hsplit", "vsplit")
_TURNED = (
    "permute",
    "transpose",
    "t",
    "numpy_T",
    "movedim",
    "moveaxis",
    "swapaxes",
    "swapdims",
    "adjoint",
    "mT",
)

_ATTENTION = ("flash", "efficient", "cudnn", "fused", "math")

ALIASES = frozenset((*_SAME, *_VIEWS, *_MORE_VIEWS, *_PARTS, *_MORE_PARTS, *_TURNED))
"""Ops whose results share the memory of their first argument, or may do so."""

OPS: dict[str, str] = {
    **dict.fromkeys((*_SAME, "clone", "lift_fresh_copy"), "Identity"),
    **dict.fromkeys((*_VIEWS, *_MORE_VIEWS, "_unsafe_view", "getitem"), "Reshape"),
    **dict.fromkeys((*_PARTS, *_MORE_PARTS), "Select"),
    **dict.fromkeys(_TURNED, "Transpose"),
    **dict.fromkeys(SIZES, "MatMul"),
    **dict.fromkeys((name for name in SIZES if "conv" in name), "Conv"),
    **dict.fromkeys((name for name in SIZES if "conv_transpose" in name), "ConvTranspose"),
    **{"linear": "Gemm", "addmm": "Gemm", "einsum": "Einsum"},
    **dict.fromkeys(("baddbmm", "addbmm", "matmul", "linalg_matmul", "mm", "bmm"), "MatMul"),
    **dict.fromkeys(("mv", "addmv", "dot", "vdot", "_sparse_mm", "smm"), "MatMul"),
    "scaled_dot_product_attention": "Attention",
    **dict.fromkeys((f"_scaled_dot_product_{kind}_attention" for kind in _ATTENTION), "Attention"),
    "_scaled_dot_product_flash_attention_for_cpu": "Attention",
    "_scaled_dot_product_attention_math": "Attention",
    "higher_order.flex_attention": "Attention",
    **dict.fromkeys(("embedding", "embedding_bag"), "Gather"),
    **dict.fromkeys(("index_select", "index", "gather", "take"), "GatherElements"),
    **dict.fromkeys(("batch_norm", "_native_batch_norm_legit_no_training"), "BatchNormalization"),
    **dict.fromkeys(("layer_norm", "native_layer_norm"), "LayerNormalization"),
    **dict.fromkeys(("group_norm", "native_group_norm"), "GroupNormalization"),
    "instance_norm": "InstanceNormalization",
    **dict.fromkeys(("rms_norm", "_fused_rms_norm"), "RMSNormalization"),
    **dict.fromkeys(("softmax", "_softmax"), "Softmax"),
    **dict.fromkeys(("log_softmax", "_log_softmax"), "LogSoftmax"),
    **dict.fromkeys(("relu", "relu_"), "Relu"),
    **dict.fromkeys(("relu6", "hardtanh", "clamp", "clamp_min", "clamp_max", "clip"), "Clip"),
    **dict.fromkeys(("silu",), "Swish"),
    **{
        name: name.capitalize()
        for name in ("gelu", "elu", "selu", "celu", "mish", "sigmoid", "softplus", "tanh")
    },
    "leaky_relu": "LeakyRelu",
    "prelu": "PRelu",
    "hardswish": "HardSwish",
    "hardsigmoid": "HardSigmoid",
    **{
        name: name.capitalize()
        for name in ("add", "sub", "mul", "div", "pow", "exp", "log", "erf", "sin", "cos")
    },
    **{
        name: name.capitalize()
        for name in ("neg", "abs", "floor", "ceil", "round", "sign", "sqrt", "reciprocal")
    },
    **dict.fromkeys(("true_divide", "floor_divide"), "Div"),
    "rsub": "Sub",
    "rsqrt": "Sqrt",
    "square": "Mul",
    "remainder": "Mod",
    **dict.fromkeys(("maximum", "fmax"), "Max"),
    **dict.fromkeys(("minimum", "fmin"), "Min"),
    **dict.fromkeys(("where", "masked_fill"), "Where"),
    **dict.fromkeys(("logical_and", "bitwise_and", "__and__"), "And"),
    **dict.fromkeys(("logical_or", "bitwise_or", "__or__"), "Or"),
    **dict.fromkeys(("logical_not", "bitwise_not"), "Not"),
    **dict.fromkeys(("eq", "ne"), "Equal"),
    **{"gt": "Greater", "ge": "GreaterOrEqual", "lt": "Less", "le": "LessOrEqual"},
    **dict.fromkeys(("to", "_to_copy", "type_as", "copy"), "Cast"),
    **dict.fromkeys(
        ("slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter"), "ScatterElements"
    ),
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce", "masked_scatter"), "ScatterElements"),
    **dict.fromkeys(("index_put", "index_copy", "index_add", "index_fill"), "ScatterElements"),
    **dict.fromkeys(("cat", "concat", "stack"), "Concat"),
    **dict.fromkeys(("constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d"), "Pad"),
    **dict.fromkeys(("repeat", "tile", "repeat_interleave"), "Tile"),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices"), "MaxPool"),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), "AveragePool"),
    **{f"adaptive_avg_pool{n}d": "GlobalAveragePool" for n in (1, 2, 3)},
    **{f"_adaptive_avg_pool{n}d": "GlobalAveragePool" for n in (2, 3)},
    **{f"adaptive_max_pool{n}d": "GlobalMaxPool" for n in (1, 2, 3)},
    **dict.fromkeys(("mean", "var", "var_mean", "std"), "ReduceMean"),
    "sum": "ReduceSum",
    "prod": "ReduceProd",
    **dict.fromkeys(("amax", "max"), "ReduceMax"),
    **dict.fromkeys(("amin", "min"), "ReduceMin"),
    **dict.fromkeys(("norm", "linalg_vector_norm"), "ReduceL2"),
    "argmax": "ArgMax",
    "argmin": "ArgMin",
    "cumsum": "CumSum",
    "topk": "TopK",
    "one_hot": "OneHot",
    **dict.fromkeys(("tril", "triu"), "Trilu"),
    "pixel_shuffle": "DepthToSpace",
    "pixel_unshuffle": "SpaceToDepth",
    **dict.fromkeys(
        ("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d", "interpolate"), "Resize"
    ),
    **{"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"},
    **{"lstm_cell": "LSTM", "gru_cell": "GRU", "rnn_tanh_cell": "RNN", "rnn_relu_cell": "RNN"},
    **dict.fromkeys(("arange", "eye", "linspace"), "Constant"),
    **dict.fromkeys(("zeros", "ones", "full", "empty", "scalar_tensor"), "ConstantOfShape"),
    **dict.fromkeys(("zeros_like", "ones_like", "full_like", "empty_like"), "ConstantOfShape"),
    **dict.fromkeys(("new_zeros", "new_ones", "new_full", "new_empty", "fill", "zero"), "ConstantOfShape"),
}
"""ATen's op -> ONNX's. Variants (add.Tensor, add_.Scalar) are one op."""

DROPPED = frozenset(
    {"sym_size", "sym_numel", "sym_constrain_range_for_size", "_assert_scalar", "_assert_tensor_metadata"}
)
"""Calls that compute nothing at run time."""

_ORDER = {
    "embedding": ("weight", "indices"),
    "embedding_bag": ("weight", "indices"),
    "addmm": ("mat1", "mat2", "self"),
    "baddbmm": ("batch1", "batch2", "self"),
    "addbmm": ("batch1", "batch2", "self"),
    "addmv": ("mat", "vec", "self"),
    "_addmm_activation": ("mat1", "mat2", "self"),
    "torchvision.deform_conv2d.default": ("input", "weight", "offset"),
    "copy": ("src",),
}
"""Arguments in ONNX's order, where it is another; of a copy the target is only written."""

_UNREAD = {"copy": "self"}
_WRITING = frozenset(f"__i{name}__" for name in ("and", "or", "xor", "lshift", "rshift"))

_LISTS = {"stride": "strides", "padding": "pads", "dilation": "dilations", "kernel_size": "kernel_shape"}


def is_product(op: str) -> bool:
    """Whether an ATen op multiplies matrices."""
    return OPS.get(op, OPS.get(op.removesuffix("_"))) in CONVOLUTIONS | PRODUCTS | set(RECURRENT)


def targets_of(call: Call) -> list[str]:
    """Names of the tensors that a call writes to, other than its outputs; its first outputs are their new values."""
    if "out" in call.arguments:
        return _refs(call.arguments["out"])
    is_writing = call.op.endswith("_") and not call.op.endswith("__") and call.op[:-1] not in ALIASES
    if not is_writing and call.op not in _WRITING:
        return []
    return _refs(next(iter(call.arguments.values()), None))


def node_of(call: Call, tensors: Mapping[str, Tensor]) -> Node:
    """The call as a node; `tensors` holds what it reads and writes."""
    own = call.op if "." in call.op else f"aten.{call.op}"
    name = call.op if call.op in OPS else call.op.removesuffix("_")
    op, order = OPS.get(name, own), _ORDER.get(name, ())
    named = [*order, *(key for key in call.arguments if key not in (*order, "out", _UNREAD.get(name)))]
    inputs = [ref for key in named for ref in _refs(call.arguments.get(key))]
    attributes = _attributes(call)
    if op == "ConstantOfShape":  # of its inputs it reads the shape, and no data
        inputs = []
    if op == "Conv" and call.arguments.get("transposed") is True:
        op = "ConvTranspose"
    if op == "Transpose":
        attributes["perm"] = _permutation(call, tensors)
    if op == "Gemm":
        attributes["transB"] = int(name == "linear")
    if op in RECURRENT:
        inputs = _recurrent_inputs(call, inputs[:1])
    if name in SIZES:
        found = _sizes(call, name, tensors)
        if found is not None:
            attributes["products"] = found
            inputs *= 2 if op == "MatMul" and len(inputs) == 1 else 1
        elif name in MAYBE:
            op = own
    return Node(call.name, op, tuple(inputs), call.outputs, attributes)


def _sizes(call: Call, name: str, tensors: Mapping[str, Tensor]) -> tuple[int, ...] | None:
    shapes: dict[str, Any] = {}
    for key, value in call.arguments.items():
        shapes[key] = tensors[value.name].shape if isinstance(value, Ref) else value
    return sizes(name, shapes, tensors[call.outputs[0]].shape if call.outputs else None)


def _recurrent_inputs(call: Call, first: list[str]) -> list[str]:
    """In ONNX's order, which has the lengths of sequences before the states; PyTorch has the states second."""
    cell = [call.arguments.get(key) for key in ("w_ih", "w_hh", "b_ih", "b_hh")]
    matrices = _refs(call.arguments.get("params", cell))
    states = _refs(call.arguments.get("hx"))
    return [*first, *matrices[:3], "", *states, *matrices[3:]]


def _refs(value: Any) -> list[str]:
    if isinstance(value, Ref):
        return [value.name]
    if isinstance(value, list | tuple):
        return [name for each in value for name in _refs(each)]
    return []


def _attributes(call: Call) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, name in _LISTS.items():
        value = call.arguments.get(key)
        if isinstance(value, int):
            value = [value] * (2 if call.op.endswith("2d") else 1)
        if isinstance(value, list | tuple) and all(isinstance(v, int) for v in value):
            found[name] = list(value)
    groups = call.arguments.get("groups")
    if isinstance(groups, int):
        found["group"] = groups
    equation = call.arguments.get("equation")
    if isinstance(equation, str):
        found["equation"] = equation
    return found


def _permutation(call: Call, tensors: Mapping[str, Tensor]) -> list[int]:
    """The order of axes; empty (all reversed) where it is not to be had."""
    refs = _refs(call.arguments.get("self", call.arguments.get("input")))
    rank = len(tensors[refs[0]].shape or ()) if refs else 0
    dims = call.arguments.get("dims")
    if isinstance(dims, list | tuple) and len(dims) == rank:
        return [int(d) % rank for d in dims]
    order = list(range(rank))
    if call.op in ("mT", "adjoint") and rank > 1:
        first, second = rank - 2, rank - 1
    else:
        keys = ("dim0", "axis0"), ("dim1", "axis1")
        pair = [
            next((call.arguments[k] for k in names if isinstance(call.arguments.get(k), int)), None)
            for names in keys
        ]
        if pair[0] is None or pair[1] is None or not rank:
            return list(reversed(order))
        first, second = pair[0] % rank, pair[1] % rank
    order[first], order[second] = order[second], order[first]
    return order
