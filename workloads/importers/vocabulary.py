"""What the importer knows of op types, in ONNX's words.

Work of the vector unit follows `workloads.zoo.vector_ops.VECTOR_OPS`; what is not there is an *assumption* of the same
kind: the passes of a plain implementation, 1 for what one instruction does, 4 for a transcendental function.
"""

from __future__ import annotations

from workloads.importers.ir import Node
from workloads.zoo.vector_ops import VECTOR_OPS


def words(text: str) -> frozenset[str]:
    """The names in a text."""
    return frozenset(text.split())


VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Expand", "BitCast"})
"""Ops whose output is their first input in another shape: no bytes move."""

PARTS = frozenset({"Slice", "Split", "Select"})
"""Ops whose outputs are parts of their first input: a consumer reads only its part."""

QUANTISERS = frozenset({"QuantizeLinear", "DequantizeLinear"})
"""Their scales and zero points are stored beside the numbers."""

CASTS = QUANTISERS | {"Cast"}

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "DeformConv"})
PRODUCTS = frozenset({"MatMul", "Gemm", "Einsum", "Attention"})
RECURRENT = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""Gates of a recurrent cell."""

SETTINGS = {
    "Reshape": (1,),
    "Expand": (1,),
    "Tile": (1,),
    "Pad": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
    "Clip": (1, 2),
    "TopK": (1,),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "OneHot": (1, 2),
    "Dropout": (1, 2),
    "ReduceMean": (1,),
    "ReduceSum": (1,),
    "ReduceMax": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,),
    "ReduceSumSquare": (1,),
    "CumSum": (1,),
    "CumProd": (1,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "MaxUnpool": (2,),
    "ReverseSequence": (1,),
    "LSTM": (4,),
    "GRU": (4,),
    "RNN": (4,),
}
"""Inputs that say how an op works: they are part of the op, and no data."""

ELEMENTWISE: dict[str, int] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "PRelu"), VECTOR_OPS["add"]),
    **dict.fromkeys(("Neg", "Abs", "Floor", "Ceil", "Round", "Sign", "Not", "BitwiseNot"), 1),
    **dict.fromkeys(("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"), 1),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN", "IsInf"), 1),
    **dict.fromkeys(CASTS, VECTOR_OPS["cast"]),
    "DynamicQuantizeLinear": 2 + VECTOR_OPS["cast"],
    "RotaryEmbedding": 3,
    "Where": VECTOR_OPS["mask"],
    "Mod": 1,
    "Reciprocal": 1,
    "Sqrt": 1,
    **dict.fromkeys(("Pow", "Exp", "Log", "Erf", "Sin", "Cos", "Tan", "Sinh", "Cosh"), 4),
    **dict.fromkeys(("Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh"), 4),
}
"""Op type -> element operations an output element."""

ACTIVATIONS: dict[str, int] = {
    "Relu": VECTOR_OPS["relu"],
    "Clip": VECTOR_OPS["relu6"],
    "LeakyRelu": 2,
    "ThresholdedRelu": 2,
    "HardSigmoid": 3,
    "HardSwish": 4,
    "Softsign": 3,
    "Shrink": 2,
    "Tanh": VECTOR_OPS["tanh"],
    "Sigmoid": 4,
    "Softplus": 4,
    "Elu": 4,
    "Selu": 4,
    "Celu": 4,
    "Mish": 8,
    "Swish": 5,
    "SwiGLU": 6,
    "Gelu": VECTOR_OPS["gelu"],
}
"""As `ELEMENTWISE`, for activation functions."""

NORMS: dict[str, int] = {
    "BatchNormalization": 2,
    **dict.fromkeys(
        (
            "LayerNormalization",
            "SimplifiedLayerNormalization",
            "RMSNormalization",
            "InstanceNormalization",
            "GroupNormalization",
            "LpNormalization",
            "MeanVarianceNormalization",
            "LRN",
        ),
        VECTOR_OPS["layernorm"],
    ),
}

SOFTMAXES = dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), VECTOR_OPS["softmax"])
TRANSFORMS = frozenset({"DFT", "STFT"})
"""Fourier transforms: of n points, in pairs of real and imaginary part, 5 n log2 n operations."""
POOLS = frozenset({"MaxPool", "AveragePool", "LpPool"})
SAMPLERS = {"GridSample": 8, "RoiAlign": 8, "MaxRoiPool": 8}
"""As `ELEMENTWISE`, for ops that interpolate at places that data say: four neighbours, a product and a sum each."""
LOOKUPS = frozenset({"Gather", "GatherElements", "GatherND"})
"""Ops that read elements of their first input at places that another one says."""
GLOBAL_POOLS = frozenset({"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"})
REDUCTIONS = frozenset(
    {
        "ReduceMean",
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceSumSquare",
        "ArgMax",
        "ArgMin",
    }
)

MOVERS: dict[str, str] = {
    "Transpose": "transpose",
    "Concat": "concat",
    "Slice": "split",
    "Split": "split",
    "Select": "split",
    **dict.fromkeys(VIEWS, "reshape"),
    "Gather": "split",
    "GatherElements": "split",
    "GatherND": "split",
    "Compress": "split",
    "CenterCropPad": "split",
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND", "TensorScatter", "Col2Im"), "other"),
    **dict.fromkeys(("NonZero", "Unique", "NonMaxSuppression", "MaxUnpool"), "other"),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), "other"),
    **dict.fromkeys(("Bernoulli", "Multinomial"), "other"),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"), "other"),
    "ReverseSequence": "other",
    "Pad": "other",
    "Tile": "other",
    "Resize": "upsample",
    "Upsample": "upsample",
    "DepthToSpace": "transpose",
    "SpaceToDepth": "transpose",
    "Constant": "other",
    "ConstantOfShape": "other",
    "Range": "other",
    "EyeLike": "other",
    "Shape": "other",
    "Size": "other",
    "Trilu": "elementwise",
    "CumSum": "reduce",
    "CumProd": "reduce",
    "NegativeLogLikelihoodLoss": "reduce",
    "SoftmaxCrossEntropyLoss": "reduce",
    "OneHot": "embedding",
    "TopK": "other",
}
"""Ops that move elements, one operation an element, and their kinds."""

COMPUTED = words(
    "Add Sub Mul Div Max Min Mod Pow Equal Less LessOrEqual Greater GreaterOrEqual And Or Not Where Identity Neg Abs "
    "Floor Ceil Round Sqrt Cast ReduceProd ReduceSum ReduceMax ReduceMin Concat Gather Transpose Squeeze Unsqueeze "
    "Reshape Slice Split Range Expand ConstantOfShape Constant"
)
"""What models compute shapes, masks and indices with: harmless ops, whose results on small constants are followed."""

FUSABLE = frozenset(ELEMENTWISE) | frozenset(ACTIVATIONS) | {"BatchNormalization"}
"""What can be the tail of an op before it."""

HEADS = CONVOLUTIONS | PRODUCTS | FUSABLE | frozenset(NORMS)
"""What can have a tail: what computes its output element by element in an accumulator or a vector register."""

LEAST_INPUTS: dict[str, int] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "MatMul", "Gemm", "Gather"), 2),
    **dict.fromkeys(("Attention", "DeformConv", *RECURRENT), 3),
    **dict.fromkeys(("Constant", "ConstantOfShape", "Range", "EyeLike", "RandomNormal", "RandomUniform"), 0),
}
"""Inputs that an op cannot do without; 1 for all other known ops."""

SAME_AS: dict[str, tuple[str, tuple[int, ...]]] = {
    "ConvInteger": ("Conv", (0, 1)),
    "MatMulInteger": ("MatMul", (0, 1)),
}
"""Op type -> the one it is priced as, and which of its inputs are that one's (zero points are not)."""


def is_known(op: str) -> bool:
    """Whether an op's work is known; others are priced as movers of data."""
    return any(
        op in each
        for each in (
            HEADS,
            RECURRENT,
            SOFTMAXES,
            TRANSFORMS,
            POOLS,
            SAMPLERS,
            GLOBAL_POOLS,
            REDUCTIONS,
            MOVERS,
        )
    )


def data_of(node: Node) -> list[str]:
    """The inputs of a node that hold data or weights."""
    settings = SETTINGS.get(node.op, ())
    return [read for i, read in enumerate(node.inputs) if read and i not in settings]
