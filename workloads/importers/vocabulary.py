"""What the importer knows of op types, in ONNX's words.

Work of the vector unit follows `workloads.zoo.vector_ops.VECTOR_OPS`; what is not there is an *assumption* of the same
kind: the passes of a plain implementation, 1 for what one instruction does, 4 for a transcendental function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from workloads.importers.ir import Node
from workloads.zoo.vector_ops import VECTOR_OPS

Key = TypeVar("Key")


def words(text: str) -> frozenset[str]:
    """The names in a text."""
    return frozenset(text.split())


def by_name(table: Mapping[Key, str]) -> dict[str, Key]:
    """A key for each name, of texts with several names."""
    return {name: key for key, names in table.items() for name in names.split()}


VIEWS = words("Reshape Flatten Squeeze Unsqueeze Identity Dropout Expand BitCast")
"""Ops whose output is their first input in another shape: no bytes move."""

PARTS = words("Slice Split Select")
"""Ops whose outputs are parts of their first input: a consumer reads only its part."""

QUANTISERS = words("QuantizeLinear DequantizeLinear")
"""Their scales and zero points are stored beside the numbers."""

CASTS = QUANTISERS | {"Cast"}
CONVOLUTIONS = words("Conv ConvTranspose DeformConv")
PRODUCTS = words("MatMul Gemm Einsum Attention")
RECURRENT = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""Gates of a recurrent cell."""

SETTINGS = by_name(
    {
        (1,): """
            Reshape Expand Tile Split Squeeze Unsqueeze TopK Upsample ReduceMean ReduceSum ReduceMax ReduceMin
            ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare CumSum CumProd CenterCropPad
            ReverseSequence""",
        (2,): "MaxUnpool",
        (4,): "LSTM GRU RNN",
        (1, 2): "Clip OneHot Dropout Col2Im",
        (1, 2, 3): "Pad Resize",
        (1, 2, 3, 4): "Slice",
    }
)
"""Inputs that say how an op works: they are part of the op, and no data."""

ELEMENTWISE: dict[str, int] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "PRelu"), VECTOR_OPS["add"]),
    **dict.fromkeys(CASTS, VECTOR_OPS["cast"]),
    "DynamicQuantizeLinear": 2 + VECTOR_OPS["cast"],
    "Where": VECTOR_OPS["mask"],
    **by_name(
        {
            1: "Neg Abs Floor Ceil Round Sign Not BitwiseNot And Or Xor BitwiseAnd BitwiseOr BitwiseXor BitShift "
            "Equal Greater GreaterOrEqual Less LessOrEqual IsNaN IsInf Mod Reciprocal Sqrt",
            3: "RotaryEmbedding",
            4: "Pow Exp Log Erf Sin Cos Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh",
        }
    ),
}
"""Op type -> element operations an output element."""

ACTIVATIONS: dict[str, int] = {
    "Relu": VECTOR_OPS["relu"],
    "Clip": VECTOR_OPS["relu6"],
    "Tanh": VECTOR_OPS["tanh"],
    "Gelu": VECTOR_OPS["gelu"],
    **by_name(
        {
            2: "LeakyRelu ThresholdedRelu Shrink",
            3: "HardSigmoid Softsign",
            4: "HardSwish Sigmoid Softplus Elu Selu Celu",
            5: "Swish",
            6: "SwiGLU",
            8: "Mish",
        }
    ),
}
"""As `ELEMENTWISE`, for activation functions."""

NORMS: dict[str, int] = {
    "BatchNormalization": 2,
    **by_name(
        {
            VECTOR_OPS["layernorm"]: "LayerNormalization SimplifiedLayerNormalization RMSNormalization "
            "InstanceNormalization GroupNormalization LpNormalization MeanVarianceNormalization LRN"
        }
    ),
}

SOFTMAXES = by_name({VECTOR_OPS["softmax"]: "Softmax LogSoftmax Hardmax"})
TRANSFORMS = words("DFT STFT")
"""Fourier transforms: of n points, in pairs of real and imaginary part, 5 n log2 n operations."""
POOLS = words("MaxPool AveragePool LpPool")
SAMPLERS = by_name({8: "GridSample RoiAlign MaxRoiPool"})
"""As `ELEMENTWISE`, for ops that interpolate at places that data say: four neighbours, a product and a sum each."""
LOOKUPS = words("Gather GatherElements GatherND")
"""Ops that read elements of their first input at places that another one says."""
GLOBAL_POOLS = words("GlobalAveragePool GlobalMaxPool GlobalLpPool")
REDUCTIONS = words(
    "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
    "ReduceSumSquare ArgMax ArgMin"
)

MOVERS = by_name(
    {
        "transpose": "Transpose DepthToSpace SpaceToDepth",
        "concat": "Concat",
        "split": "Slice Split Select Gather GatherElements GatherND Compress CenterCropPad",
        "reshape": " ".join(VIEWS),
        "upsample": "Resize Upsample",
        "elementwise": "Trilu",
        "reduce": "CumSum CumProd NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
        "embedding": "OneHot",
        "other": "Scatter ScatterElements ScatterND TensorScatter Col2Im NonZero Unique NonMaxSuppression MaxUnpool "
        "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial BlackmanWindow "
        "HammingWindow HannWindow MelWeightMatrix ReverseSequence Pad Tile Constant ConstantOfShape Range EyeLike "
        "Shape Size TopK",
    }
)
"""Ops that move elements, one operation an element, and their kinds."""

PASSES = {**ELEMENTWISE, **ACTIVATIONS, **NORMS, **SOFTMAXES, **SAMPLERS}
"""As `ELEMENTWISE`, for all ops of which an output element takes as many."""

KINDS: dict[str, str] = {
    **MOVERS,
    **dict.fromkeys(CONVOLUTIONS, "conv"),
    **dict.fromkeys(PRODUCTS, "matmul"),
    **dict.fromkeys(RECURRENT, "recurrent"),
    **dict.fromkeys(NORMS, "norm"),
    **dict.fromkeys(SOFTMAXES, "softmax"),
    **dict.fromkeys(ACTIVATIONS, "activation"),
    **dict.fromkeys(ELEMENTWISE, "elementwise"),
    **dict.fromkeys((*POOLS, *GLOBAL_POOLS, *SAMPLERS), "pool"),
    **dict.fromkeys(REDUCTIONS, "reduce"),
    **dict.fromkeys(TRANSFORMS, "other"),
}
"""Known op -> its kind, of `workloads.workload.KINDS`, as far as the op alone says it."""

_SCATTERED = ((0, 0, -1),)
PLACED: dict[str, tuple[tuple[int, int, int], ...]] = {
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), _SCATTERED),
    "TensorScatter": ((0, 0, 1),),
    "Attention": ((1, 4, 1), (2, 5, 2)),
}
"""Ops that put elements into a tensor that is there: (output, input that it was before, input that is put in), each."""

COMPUTED = words(
    "Add Sub Mul Div Max Min Mod Pow Equal Less LessOrEqual Greater GreaterOrEqual And Or Not Where Identity Neg Abs "
    "Floor Ceil Round Sqrt Cast ReduceProd ReduceSum ReduceMax ReduceMin Concat Gather Transpose Squeeze Unsqueeze "
    "Reshape Slice Split Range Expand ConstantOfShape Constant"
)
"""What models compute shapes, masks and indices with: harmless ops, whose results on small constants are followed."""

FUSABLE = frozenset({*ELEMENTWISE, *ACTIVATIONS, "BatchNormalization"})
"""What can be the tail of an op before it."""

HEADS = CONVOLUTIONS | PRODUCTS | FUSABLE | frozenset(NORMS)
"""What can have a tail: what computes its output element by element in an accumulator or a vector register."""

LEAST_INPUTS = by_name(
    {
        0: "Constant ConstantOfShape Range EyeLike RandomNormal RandomUniform",
        2: "Conv ConvTranspose MatMul Gemm Gather",
        3: "Attention DeformConv RNN GRU LSTM",
    }
)
"""Inputs that an op cannot do without; 1 for all other known ops."""

SAME_AS: dict[str, tuple[str, tuple[int, ...]]] = {
    "ConvInteger": ("Conv", (0, 1)),
    "MatMulInteger": ("MatMul", (0, 1)),
}
"""Op type -> the one it is priced as, and which of its inputs are that one's (zero points are not)."""


def is_known(op: str) -> bool:
    """Whether an op's work is known; others are priced as movers of data."""
    return op in KINDS


def data_of(node: Node) -> list[str]:
    """The inputs of a node that hold data or weights."""
    settings = SETTINGS.get(node.op, ())
    return [read for i, read in enumerate(node.inputs) if read and i not in settings]
