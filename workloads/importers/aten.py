"""PyTorch's ops (ATen) in the words of ONNX.

Names and arguments: native_functions.yaml of https://github.com/pytorch/pytorch. What is in no table keeps its own name
and is priced as a mover of data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workloads.importers.ir import Node, Tensor


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


_SAME_SHAPE_VIEWS = (
    "alias",
    "detach",
    "contiguous",
    "clone",
    "lift_fresh_copy",
    "dropout",
    "positive",
    "lift",
)
_VIEWS = (
    "view",
    "_unsafe_view",
    "reshape",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "expand",
    "expand_as",
)
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

OPS: dict[str, str] = {
    **dict.fromkeys(_SAME_SHAPE_VIEWS, "Identity"),
    **dict.fromkeys(
        (*_VIEWS, "broadcast_to", "view_as", "reshape_as", "_reshape_alias", "getitem"), "Reshape"
    ),
    **dict.fromkeys(_PARTS, "Select"),
    **dict.fromkeys(
        ("permute", "transpose", "t", "numpy_T", "movedim", "swapaxes", "adjoint", "mT"), "Transpose"
    ),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), "Conv"),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), "ConvTranspose"),
    **dict.fromkeys(("linear", "addmm", "baddbmm", "matmul", "mm", "bmm", "mv", "dot"), "MatMul"),
    "einsum": "Einsum",
    "scaled_dot_product_attention": "Attention",
    "_scaled_dot_product_flash_attention_for_cpu": "Attention",
    "_scaled_dot_product_flash_attention": "Attention",
    "_scaled_dot_product_efficient_attention": "Attention",
    "embedding": "Gather",
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
    **dict.fromkeys(("to", "_to_copy", "type_as"), "Cast"),
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
    **dict.fromkeys(("arange", "eye", "linspace"), "Constant"),
    **dict.fromkeys(("zeros", "ones", "full", "empty", "scalar_tensor"), "ConstantOfShape"),
    **dict.fromkeys(("zeros_like", "ones_like", "full_like", "empty_like"), "ConstantOfShape"),
    **dict.fromkeys(("new_zeros", "new_ones", "new_full", "new_empty"), "ConstantOfShape"),
}
"""ATen's op -> ONNX's. Variants (add.Tensor, add_.Scalar) are one op."""

DROPPED = frozenset(
    {"sym_size", "sym_numel", "sym_constrain_range_for_size", "_assert_scalar", "_assert_tensor_metadata"}
)
"""Calls that compute nothing at run time."""

_ORDER = {
    "embedding": ("weight", "indices"),
    "addmm": ("mat1", "mat2", "self"),
    "baddbmm": ("batch1", "batch2", "self"),
}
"""Arguments in ONNX's order, where it is another."""

_LISTS = {"stride": "strides", "padding": "pads", "dilation": "dilations", "kernel_size": "kernel_shape"}


def node_of(call: Call, tensors: Mapping[str, Tensor]) -> Node:
    """The call as a node; `tensors` holds what it reads."""
    own = call.op if "." in call.op else f"aten.{call.op}"
    op = OPS.get(call.op, OPS.get(call.op.removesuffix("_"), own))
    order = _ORDER.get(call.op, ())
    named = [*order, *(key for key in call.arguments if key not in order)]
    inputs = [ref for key in named for ref in _refs(call.arguments.get(key))]
    attributes = _attributes(call)
    if op == "ConstantOfShape":  # of its inputs it reads the shape, and no data
        inputs = []
    if op == "Conv" and call.arguments.get("transposed") is True:
        op = "ConvTranspose"
    if op == "Transpose":
        attributes["perm"] = _permutation(call, tensors)
    if op == "MatMul" and call.op in ("linear", "addmm"):
        op = "Gemm"
        attributes["transB"] = int(call.op == "linear")
    if op in ("LSTM", "GRU", "RNN"):
        matrices = _refs(call.arguments.get("params"))
        inputs = [*inputs[:1], *matrices[:3], "", *matrices[3:]]  # ONNX has the lengths of sequences there
    return Node(call.name, op, tuple(inputs), call.outputs, attributes)


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
