"""PyTorch's ops (ATen) in the words of ONNX.

Names and arguments: native_functions.yaml of https://github.com/pytorch/pytorch. What is in no table keeps its own name
and is priced as a mover of data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from workloads.importers.aten_products import CHAINS, CONTRACTIONS, MAYBE, PACKED, chain, sizes
from workloads.importers.ir import Node, Tensor
from workloads.importers.vocabulary import RECURRENT, SETTINGS, TRANSFORMS


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


_ALIASES = {
    "Identity": "alias detach contiguous dropout lift positive requires_grad resolve_conj resolve_neg",
    "Reshape": """view reshape flatten unflatten squeeze unsqueeze expand expand_as view_as broadcast_to
        reshape_as _reshape_alias view_as_real view_as_complex ravel""",
    "Select": """slice select narrow split split_with_sizes chunk unbind tensor_split unfold unsafe_chunk
        unsafe_split diagonal as_strided real imag hsplit vsplit dsplit unsafe_split_with_sizes
        linalg_diagonal""",
    "Transpose": "permute transpose t numpy_T movedim moveaxis swapaxes swapdims adjoint mT mH matrix_H",
}
"""ONNX's op -> ops of ATen that are the same, and share the memory of their first argument, or may do so."""

_NAMES = {
    "Identity": """clone lift_fresh_copy lift_fresh native_dropout alpha_dropout feature_dropout
        feature_alpha_dropout""",
    "BitCast": "_convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu _dyn_quant_pack_4bit_weight",
    "Reshape": "_unsafe_view getitem atleast_1d atleast_2d atleast_3d",
    "Conv": """conv1d conv2d conv3d convolution _convolution convolution_overrideable _slow_conv2d_forward
        thnn_conv2d slow_conv3d conv_depthwise3d _conv_depthwise2d slow_conv_dilated2d mkldnn_convolution
        _convolution_mode slow_conv3d_forward slow_conv_dilated3d""",
    "ConvTranspose": """conv_transpose1d conv_transpose2d conv_transpose3d slow_conv_transpose2d
        slow_conv_transpose3d""",
    "DeformConv": "torchvision.deform_conv2d",
    "Gemm": "linear addmm _addmm_activation _weight_int8pack_mm",
    "MatMul": """baddbmm addbmm matmul linalg_matmul mm bmm mv addmv dot vdot _sparse_mm smm _int_mm
        _scaled_mm _scaled_mm_v2""",
    "LSTM": "lstm_cell lstm",
    "GRU": "gru_cell gru",
    "RNN": "rnn_tanh_cell rnn_relu_cell rnn_tanh rnn_relu",
    "Einsum": "einsum",
    "Attention": """scaled_dot_product_attention _scaled_dot_product_flash_attention
        _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
        _scaled_dot_product_fused_attention _scaled_dot_product_math_attention
        _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math
        higher_order.flex_attention""",
    "Gather": """embedding embedding_bag _embedding_bag _embedding_bag_forward_only
        quantized_decomposed.embedding_byte""",
    "GatherElements": """index_select index gather take roll flip fliplr flipud rot90 channel_shuffle
        native_channel_shuffle im2col col2im take_along_dim
        fft_fftshift fft_ifftshift _unsafe_index _unsafe_masked_index""",
    "NonZero": "nonzero argwhere nonzero_static",
    "Compress": "masked_select",
    "BatchNormalization": """batch_norm _native_batch_norm_legit_no_training native_batch_norm
        _native_batch_norm_legit _native_batch_norm_legit_functional cudnn_batch_norm _batch_norm_no_update
        _batch_norm_with_update _batch_norm_with_update_functional""",
    "LayerNormalization": "layer_norm native_layer_norm",
    "GroupNormalization": "group_norm native_group_norm",
    "InstanceNormalization": "instance_norm",
    "RMSNormalization": "rms_norm _fused_rms_norm",
    "Softmax": "softmax _softmax _safe_softmax softmin _masked_softmax",
    "LogSoftmax": "log_softmax _log_softmax",
    "Relu": "relu relu_",
    "Clip": """relu6 hardtanh clamp clamp_min clamp_max clip nan_to_num fake_quantize_per_tensor_affine
        fake_quantize_per_channel_affine""",
    "Swish": "silu glu",
    "LeakyRelu": "leaky_relu rrelu rrelu_with_noise",
    "PRelu": "prelu _prelu_kernel",
    "HardSwish": "hardswish",
    "HardSigmoid": "hardsigmoid",
    "Sub": "rsub subtract",
    "Mul": "square multiply outer ger kron cross linalg_cross lerp deg2rad rad2deg ldexp",
    "Div": "true_divide floor_divide divide",
    "Sqrt": "rsqrt hypot",
    "Mod": "remainder fmod",
    "Max": "maximum fmax heaviside",
    "Min": "minimum fmin",
    "Where": "where masked_fill",
    "And": "logical_and bitwise_and __and__",
    "Or": "logical_or bitwise_or __or__",
    "Not": "logical_not bitwise_not",
    "Equal": "eq ne isclose not_equal",
    "Greater": "gt greater",
    "GreaterOrEqual": "ge greater_equal",
    "Less": "lt less",
    "LessOrEqual": "le less_equal",
    "Cast": "to _to_copy type_as copy quantized_decomposed.convert_element_type",
    "ScatterElements": """slice_scatter select_scatter diagonal_scatter as_strided_scatter scatter
        scatter_add scatter_reduce masked_scatter index_put index_copy index_add index_fill diag_embed diag
        max_unpool2d block_diag diagflat fill_diagonal index_reduce segment_reduce max_unpool3d
        _unsafe_index_put _unsafe_masked_index_put_accumulate""",
    "Concat": """cat concat stack hstack vstack dstack column_stack row_stack concatenate complex meshgrid
        cartesian_prod broadcast_tensors combinations""",
    "Pad": """constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
        replication_pad2d replication_pad3d _pad_circular pad_sequence""",
    "Tile": "repeat tile repeat_interleave",
    "MaxPool": """max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices
        max_pool1d_with_indices fractional_max_pool2d fractional_max_pool3d""",
    "AveragePool": "avg_pool1d avg_pool2d avg_pool3d",
    "GlobalAveragePool": """adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d
        _adaptive_avg_pool3d""",
    "GlobalMaxPool": "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d",
    "ReduceMean": "mean var var_mean std std_mean nanmean",
    "ReduceSum": """sum nansum cosine_similarity pairwise_distance mse_loss l1_loss smooth_l1_loss
        huber_loss cross_entropy_loss nll_loss nll_loss_nd linalg_vecdot count_nonzero trace
        nll_loss_forward nll_loss2d nll_loss2d_forward binary_cross_entropy binary_cross_entropy_with_logits
        kl_div poisson_nll_loss soft_margin_loss hinge_embedding_loss margin_ranking_loss
        cosine_embedding_loss triplet_margin_loss ctc_loss trapezoid trapz""",
    "ReduceProd": "prod",
    "ReduceMax": """amax max any all aminmax quantized_decomposed.choose_qparams torchao.choose_qparams_affine
        quantized_decomposed.choose_qparams_symmetric quantized_decomposed.choose_qparams_per_token
        quantized_decomposed.choose_qparams_per_token_asymmetric
        quantized_decomposed._choose_qparams_per_token_asymmetric_impl""",
    "ReduceMin": "amin min",
    "ReduceL2": "norm linalg_vector_norm linalg_norm linalg_matrix_norm frobenius_norm dist norm_except_dim",
    "ArgMax": "argmax",
    "ArgMin": "argmin",
    "CumSum": "cumsum cumprod cummax cummin logcumsumexp diff",
    "TopK": """topk sort argsort msort kthvalue median mode searchsorted bucketize isin unique_dim unique2
        histc bincount unique_consecutive quantile nanquantile nanmedian""",
    "OneHot": "one_hot",
    "Trilu": "tril triu",
    "DepthToSpace": "pixel_shuffle",
    "SpaceToDepth": "pixel_unshuffle",
    "Resize": """upsample_nearest2d upsample_bilinear2d upsample_bicubic2d interpolate upsample_linear1d
        upsample_trilinear3d upsample_nearest1d upsample_nearest3d _upsample_bilinear2d_aa
        _upsample_bicubic2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d
        _upsample_nearest_exact3d""",
    "GridSample": "grid_sampler grid_sampler_2d grid_sampler_3d",
    "RoiAlign": "torchvision.roi_align torchvision.ps_roi_align torchvision.roi_pool torchvision.ps_roi_pool",
    "NonMaxSuppression": "torchvision.nms",
    "Constant": """arange eye linspace logspace tril_indices triu_indices hann_window hamming_window blackman_window
        bartlett_window kaiser_window fft_fftfreq fft_rfftfreq""",
    "ConstantOfShape": """zeros ones full empty scalar_tensor zeros_like ones_like full_like empty_like
        new_zeros new_ones new_full new_empty fill zero empty_strided empty_permuted new_empty_strided""",
    "ReduceLogSumExp": "logsumexp",
    "Add": "addcmul addcdiv addr",
    "Neg": "negative conj _conj conj_physical _conj_physical _neg_view",
    "Abs": "absolute",
    "Sign": "sgn copysign signbit",
    "Exp": "exp2 expm1 logaddexp special_expm1",
    "Log": "log2 log10 log1p xlogy logit special_xlogy logaddexp2 lgamma digamma special_gammaln special_psi",
    "Erf": "erfc erfinv special_erf special_erfc",
    "Floor": "trunc frac fix",
    "Pow": "float_power",
    "Atan": "atan2 arctan arctan2 angle",
    "Cos": "polar",
    "Xor": "logical_xor bitwise_xor __xor__",
    "BitShift": "__lshift__ __rshift__ bitwise_left_shift bitwise_right_shift",
    "IsNaN": "isnan isfinite",
    "IsInf": "isinf isposinf isneginf",
    "ThresholdedRelu": "threshold",
    "Shrink": "hardshrink softshrink",
    "Softplus": "log_sigmoid log_sigmoid_forward",
    "Tanh": "tanhshrink",
    "LpNormalization": "renorm _weight_norm _weight_norm_interface",
    "RandomUniform": """rand randn rand_like randn_like randint randperm bernoulli normal randint_like
        uniform exponential multinomial poisson""",
    "Sin": "sinc special_sinc",
    "Asin": "arcsin",
    "Acos": "arccos",
    "Asinh": "arcsinh",
    "Acosh": "arccosh",
    "Atanh": "arctanh",
    "Sigmoid": "special_expit",
    "QuantizeLinear": """quantized_decomposed.quantize_per_tensor quantized_decomposed.quantize_per_channel
        quantized_decomposed.quantize_per_token quantized_decomposed.quantize_per_channel_group
        torchao.quantize_affine""",
    "DequantizeLinear": """quantized_decomposed.dequantize_per_tensor quantized_decomposed.dequantize_per_channel
        quantized_decomposed.dequantize_per_token quantized_decomposed.dequantize_per_channel_group
        torchao.dequantize_affine""",
    "DFT": """fft_fft fft_ifft fft_rfft fft_irfft fft_hfft fft_ihfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2
        fft_fftn fft_ifftn fft_rfftn fft_irfftn _fft_r2c _fft_c2c _fft_c2r""",
    "STFT": "stft istft",
}
"""ONNX's op -> those of ATen and others that are the same. Variants (add.Tensor, add_.Scalar) are one op."""

_SAME_NAMES = (
    "gelu elu selu celu mish sigmoid softplus tanh add sub mul div pow exp log erf sin cos neg abs floor ceil round "
    "sign sqrt reciprocal tan sinh cosh asin acos atan asinh acosh atanh"
)
"""Ops that ONNX calls the same, with a capital."""

ALIASES = frozenset(name for names in _ALIASES.values() for name in names.split())
"""Ops whose results share the memory of their first argument, or may do so."""

OPS: dict[str, str] = {
    **{name: name.capitalize() for name in _SAME_NAMES.split()},
    **dict.fromkeys(CONTRACTIONS, "MatMul"),
    **dict.fromkeys(CHAINS, "Einsum"),
    **{name: op for table in (_ALIASES, _NAMES) for op, names in table.items() for name in names.split()},
}
"""ATen's op -> ONNX's."""

DROPPED = frozenset(
    {"sym_size", "sym_numel", "sym_constrain_range_for_size", "_assert_scalar", "_assert_tensor_metadata"}
)
"""Calls that compute nothing at run time."""

_ORDER = {
    **dict.fromkeys(("embedding", "quantized_decomposed.embedding_byte"), ("weight", "indices")),
    **dict.fromkeys(
        ("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"), ("weight", "indices")
    ),
    "addmm": ("mat1", "mat2", "self"),
    "baddbmm": ("batch1", "batch2", "self"),
    "addbmm": ("batch1", "batch2", "self"),
    "addmv": ("mat", "vec", "self"),
    "_addmm_activation": ("mat1", "mat2", "self"),
    "bilinear": ("input1", "weight", "input2"),
    "torchvision.deform_conv2d": ("input", "weight", "offset"),
    "copy": ("src",),
}
"""Arguments in ONNX's order, where it is another; of a copy the target is only written."""

_SUMMING = frozenset({"scatter_add", "index_add"})
"""Ops that write sums with what was there."""
_UNREAD = {"copy": "self", **dict.fromkeys(("type_as", "expand_as", "view_as", "reshape_as"), "other")}
"""Arguments that are only written, or whose type or shape alone is read."""
_WRITING = frozenset(f"__i{name}__" for name in ("and", "or", "xor", "lshift", "rshift"))

_LISTS = {"stride": "strides", "padding": "pads", "dilation": "dilations", "kernel_size": "kernel_shape"}


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
    plain = call.op.removeprefix("_foreach_").removesuffix("_")
    variant_of = call.op.rpartition(".")[0]
    names = call.op, plain, plain.removesuffix("_copy"), call.op.replace("__i", "__", 1), variant_of
    name = next((each for each in names if each in OPS), call.op)
    op = OPS.get(name, own)
    if op == "Conv" and call.arguments.get("transposed") is True:
        op = "ConvTranspose"
    inputs = _inputs(call, op, name)
    attributes = _attributes(call, op, name, inputs, tensors)
    found = _sizes(call, name, tensors) if name in CONTRACTIONS else None
    if found is not None:
        attributes["products"] = found
        attributes["packed"] = found[2] * found[3] if name in PACKED else 0
        inputs *= 2 if len(inputs) == 1 else 1
    elif name in MAYBE:
        op = own
    return Node(call.name, op, tuple(inputs), call.outputs, attributes)


def _inputs(call: Call, op: str, name: str) -> list[str]:
    """What a call reads, in ONNX's order; where that has a tensor that says how the op works, ATen has numbers."""
    order = _ORDER.get(name, ())
    named = [*order, *(key for key in call.arguments if key not in (*order, "out", _UNREAD.get(name)))]
    inputs = [ref for key in named for ref in _refs(call.arguments.get(key))]
    if op == "ConstantOfShape" or name.endswith("_like"):  # the shape of its inputs, and no data
        return []
    if op in RECURRENT:
        return _recurrent_inputs(call, inputs[:1])
    for place in SETTINGS.get(op, ()):
        if place < len(inputs):
            inputs.insert(place, "")
    return inputs


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
    first_matrices, first_states = [*matrices, "", ""][:3], [*states, "", ""][:2]
    return [*first, *first_matrices, "", *first_states, *matrices[3:]]


def _placing(call: Call, name: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """What a call puts into a tensor: whether it adds to what was there, how many elements where they are repeated."""
    sums = name in _SUMMING or call.arguments.get("accumulate") is True or "reduce" in call.arguments
    found: dict[str, Any] = {"reduction": "add" if sums else "none"}
    if name.endswith(("index_put", "index_fill")):
        found["put"] = _put(call, tensors)
    return found


def _put(call: Call, tensors: Mapping[str, Tensor]) -> int:
    """Elements that a call writes at indices; all of them where these are a mask."""
    written, given = call.arguments["self"].name, call.arguments.get("indices", [call.arguments.get("index")])
    shape, axes = list(tensors[written].shape or ()), call.arguments.get("dim", 0)
    indices = [tensors[each.name] if isinstance(each, Ref) else None for each in given]
    if any(each is not None and each.element_bytes == 1 for each in indices):
        return prod(shape)
    for axis, each in enumerate(indices, start=axes):
        shape[axis] = shape[axis] if each is None else 1
    return prod(shape) * max((each.elements for each in indices if each is not None), default=1)


def _refs(value: Any) -> list[str]:
    if isinstance(value, Ref):
        return [value.name]
    if isinstance(value, list | tuple):
        return [name for each in value for name in _refs(each)]
    return []


def _attributes(
    call: Call, op: str, name: str, inputs: list[str], tensors: Mapping[str, Tensor]
) -> dict[str, Any]:
    found = _plain_attributes(call)
    if op == "Transpose":
        found["perm"] = _permutation(call, tensors)
    if op == "Gemm":
        found["transB"] = int("linear" in name or "int8pack" in name)
    if op == "ScatterElements":
        found |= _placing(call, name, tensors)
    if op in RECURRENT:
        found["steps"] = _steps(call, name, tensors)
    if op in TRANSFORMS:
        found["points"] = _points(call, name, tensors)
    if name in CHAINS:
        found["equation"] = chain([tensors[each].shape or () for each in inputs])
    if "bag" in name:
        found["in_bags"] = 1
    return found


def _plain_attributes(call: Call) -> dict[str, Any]:
    """Attributes that are arguments of the call."""
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
    if call.arguments.get("training") is True:
        found["training_mode"] = 1
    equation = call.arguments.get("equation")
    if isinstance(equation, str):
        found["equation"] = equation
    return found


def _steps(call: Call, name: str, tensors: Mapping[str, Tensor]) -> int:
    """How many steps a recurrent call takes: one a cell, and of packed sequences those of the longest."""
    if name.endswith("_cell"):
        return 1
    lengths = call.arguments.get("batch_sizes")
    if isinstance(lengths, Ref):
        return max(1, *(tensors[lengths.name].shape or ()))
    sizes = tensors[_refs(call.arguments.get("input"))[0]].shape or ()
    return max(1, sizes[1 if len(sizes) > 2 and call.arguments.get("batch_first") is True else 0])


def _points(call: Call, name: str, tensors: Mapping[str, Tensor]) -> int:
    """Over how many numbers a Fourier transform runs."""
    if "n_fft" in call.arguments:
        return int(call.arguments["n_fft"])
    shapes = [tensors[each].shape or () for each in (call.arguments["self"].name, call.outputs[0])]
    of_name = {"2": [-2, -1], "n": list(range(len(shapes[0])))}
    axes = call.arguments.get("dim")
    axes = of_name.get(name[-1], [-1]) if axes is None else axes
    return prod(max(shape[axis] for shape in shapes) for axis in ([axes] if isinstance(axes, int) else axes))


def _permutation(call: Call, tensors: Mapping[str, Tensor]) -> list[int]:
    """The order of axes; empty (all reversed) where it is not to be had."""
    refs = _refs(call.arguments.get("self", call.arguments.get("input")))
    rank = len(tensors[refs[0]].shape or ()) if refs else 0
    dims = call.arguments.get("dims")
    if isinstance(dims, list | tuple) and len(dims) == rank:
        return [int(d) % rank for d in dims]
    order = list(range(rank))
    pair = [call.arguments.get(f"dim{at}", call.arguments.get(f"axis{at}")) for at in (0, 1)]
    if call.op in ("mT", "mH", "matrix_H", "adjoint"):
        pair = [-2, -1]
    if rank < 2 or not all(isinstance(axis, int) for axis in pair):
        return order[::-1]
    first, second = (axis % rank for axis in pair)
    order[first], order[second] = order[second], order[first]
    return order
