"""Sizes of the products of ATen's ops that have no like in ONNX, or other arguments there.

Each is (groups, rows, columns, reduction), by the shapes of the arguments and of the first result, and by what the
other arguments say. Names: native_functions.yaml of https://github.com/pytorch/pytorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from string import ascii_letters
from typing import Any

from workloads.importers.contraction import as_one, pair_product
from workloads.importers.ir import Shape

Sizes = tuple[int, int, int, int]
Given = Mapping[str, Any]
"""Arguments by name, tensors as their shapes; the shape of the first result is "result"."""


def _linear(given: Given) -> Sizes:
    """Of a weight in whatever form, the result says how many columns it has."""
    first, result = next(iter(given.values())), given["result"]
    return 1, prod(result[:-1]), result[-1], first[-1]


def _time_first(given: Given) -> Sizes:
    """A convolution of [time, batch, channels] by [taps, channels, columns]."""
    taps, channels, columns = given["weight"]
    return 1, prod(given["result"][:2]), columns, taps * channels


def _tensordot(given: Given) -> Sizes:
    first, second = given["self"], given["other"]
    reduction = prod(first[axis] for axis in given["dims_self"])
    return 1, prod(first) // reduction, prod(second) // reduction, reduction


def _inner(given: Given) -> Sizes:
    first, second = given["self"], given["other"]
    return (1, prod(first[:-1]), prod(second[:-1]), first[-1]) if first and second else (0, 0, 0, 0)


def _bilinear(given: Given) -> Sizes:
    """The first input by the weight, and the second one by that."""
    outputs, first, second = given["weight"]
    return 1, prod(given["input1"][:-1]), outputs * second, first + 1


def _trilinear(given: Given) -> Sizes:
    """The first tensor by the second, and the third one by that; each lacks the axes that it is expanded along."""
    axes = range(len(given["i1"]) + len(given["expand1"]))
    operands = [
        dict(zip((f"{axis}" for axis in axes if axis not in expanded), shape, strict=True))
        for shape, expanded in ((given[f"i{k}"], given[f"expand{k}"]) for k in (1, 2, 3))
    ]
    kept = frozenset(f"{axis}" for axis in axes if axis not in given["sumdim"])
    first, left = pair_product(operands, 0, 1, kept)
    both = as_one([first, pair_product([left, operands[2]], 0, 1, kept)[0]])
    return (both.groups, both.rows, both.cols, both.reduction) if both else (0, 0, 0, 0)


def _cell(given: Given) -> Sizes:
    gates, inputs = given["w_ih"]
    return 1, prod(given["input"][:-1]), gates, inputs + given["w_hh"][-1]


def _grouped(given: Given) -> Sizes:
    """A matrix a group, or rows, columns or places of the reduction that are dealt out to groups."""
    first, second = list(given.values())[:2]
    groups = first[0] if len(first) == len(second) == 3 else 1
    return groups, first[-2], second[-1], first[-1]


def _power(given: Given) -> Sizes:
    """As many products as squaring takes."""
    matrix, power = given["self"], abs(given["n"])
    times = max(0, power.bit_length() - 1 + power.bit_count() - 1)
    return prod(matrix[:-2]) * times, matrix[-2], matrix[-1], matrix[-1]


def _covariance(given: Given) -> Sizes:
    variables, observations = given["self"]
    return 1, variables, variables, observations


LEAST_MANY = 25
"""More rows than these have their distances by a product, unless the call says otherwise."""


def _distances(given: Given) -> Sizes | None:
    """Euclidean ones of many rows: a product of matrices that have the squares in two more columns."""
    first, second, mode = given["x1"], given["x2"], given.get("compute_mode")
    many = max(first[-2], second[-2]) > LEAST_MANY if not mode else mode == 1
    return (
        (prod(first[:-2]), first[-2], second[-2], first[-1] + 2) if many and given.get("p", 2) == 2 else None
    )


CHAINS = frozenset({"linalg_multi_dot", "chain_matmul"})
"""Products of a list of matrices."""

PACKED = frozenset(
    {
        "_weight_int4pack_mm",
        "_weight_int4pack_mm_for_cpu",
        "_weight_int4pack_mm_with_scales_and_zeros",
        "_dyn_quant_matmul_4bit",
        "_mixed_dtypes_linear",
    }
)
"""Ops whose second argument is a weight of which an element may hold several numbers."""

SIZES: dict[str, Callable[[Given], Sizes | None]] = {
    **dict.fromkeys(("linear", "_int_mm", "_scaled_mm", "_weight_int8pack_mm", "_addmm_activation"), _linear),
    **dict.fromkeys(PACKED, _linear),
    "conv_tbc": _time_first,
    "tensordot": _tensordot,
    "inner": _inner,
    "bilinear": _bilinear,
    "_trilinear": _trilinear,
    **dict.fromkeys(("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"), _cell),
    **dict.fromkeys(("matrix_power", "linalg_matrix_power"), _power),
    **dict.fromkeys(("cov", "corrcoef"), _covariance),
    "cdist": _distances,
    **dict.fromkeys(
        ("_grouped_mm", "_scaled_grouped_mm", "transformers.grouped_mm_fallback.default"), _grouped
    ),
}


MAYBE = frozenset({"cdist", "cov", "corrcoef", "matrix_power", "linalg_matrix_power"})
"""Ops that are products for some arguments only."""


def sizes(op: str, arguments: Mapping[str, Any], result: Shape | None) -> Sizes | None:
    """The products of an op whose `arguments` have shapes in place of tensors; None where others know them."""
    if op not in SIZES or result is None:
        return None
    try:
        return SIZES[op]({**arguments, "result": result})
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError):
        return None


def chain(shapes: Sequence[Shape]) -> str:
    """The product of a chain of matrices as an equation of Einsum; the first and the last may be vectors."""
    terms = list(map("".join, pairwise(ascii_letters[: len(shapes) + 1])))
    first, last = terms[0][-len(shapes[0]) :], terms[-1][: len(shapes[-1])]
    return f"{','.join([first, *terms[1:-1], last])}->{first[:-1]}{last[1:]}"
