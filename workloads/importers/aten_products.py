"""Products of ATen's ops that have no like in ONNX, or other arguments there.

Each is a contraction: an equation of Einsum and the shapes of its operands, by the shapes of the arguments and of the
first result, and by what the other arguments say. Names: native_functions.yaml of https://github.com/pytorch/pytorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from string import ascii_letters
from typing import Any

from workloads.importers.contraction import as_one, contract, einsum
from workloads.importers.ir import Shape

Given = Mapping[str, Any]
"""Arguments by name, tensors as their shapes; the shape of the first result is "result"."""
Contraction = tuple[str, *tuple[Shape, ...]]


def _packed(given: Given) -> Contraction:
    """For a weight in whatever form: the result says how many columns it has."""
    first, result = next(iter(given.values())), given["result"]
    return "...k,kn->...n", first, (first[-1], result[-1])


def _time_first(given: Given) -> Contraction:
    """A convolution of [time, batch, channels] by [taps, channels, columns]."""
    taps, channels, columns = given["weight"]
    return "tbk,kn->tbn", (*given["result"][:2], taps * channels), (taps * channels, columns)


def _tensordot(given: Given) -> Contraction:
    first, second = given["self"], given["other"]
    terms = [list(ascii_letters[: len(first)]), list(ascii_letters[len(first) :][: len(second)])]
    for axis, other in zip(given["dims_self"], given["dims_other"], strict=True):
        terms[1][other] = terms[0][axis]
    a, b = map("".join, terms)
    return f"{a},{b}->{''.join(sorted({*a} ^ {*b}))}", first, second


def _inner(given: Given) -> Contraction:
    return _tensordot({**given, "dims_self": [-1], "dims_other": [-1]})


def _bilinear(given: Given) -> Contraction:
    """The first input by the weight, and the second one by that: one more place of the reduction."""
    outputs, first, second = given["weight"]
    return "...k,kn->...n", (*given["input1"][:-1], first + 1), (first + 1, outputs * second)


def _trilinear(given: Given) -> Contraction:
    """Each tensor lacks the axes that it is expanded along."""
    axes = range(len(given["i1"]) + len(given["expand1"]))
    terms = [
        "".join(ascii_letters[axis] for axis in axes if axis not in given[f"expand{k}"]) for k in (1, 2, 3)
    ]
    kept = "".join(ascii_letters[axis] for axis in axes if axis not in given["sumdim"])
    return f"{','.join(terms)}->{kept}", given["i1"], given["i2"], given["i3"]


def _grouped(given: Given) -> Contraction:
    """A matrix a group, or rows, columns or places of the reduction that are dealt out to groups."""
    first, second = list(given.values())[:2]
    is_batch = len(first) == len(second) == 3
    a, b = "gik"[3 - len(first) :], "gkj"[3 - len(second) :]
    return f"{a},{b}->{'gij' if is_batch else 'ij'}", first, second


def _power(given: Given) -> Contraction:
    """As many products as squaring takes."""
    matrix, power = given["self"], abs(given["n"])
    times = max(0, power.bit_length() - 1 + power.bit_count() - 1)
    return "...ij,...jk->...ik", (times, *matrix), (times, *matrix)


def _affine_grid(given: Given) -> Contraction:
    """Every place of the result by the matrix of its sample."""
    samples, coordinates, places = given["theta"]
    pixels = prod(given["result"][1:-1])
    return "bpk,bkc->bpc", (samples, pixels, places), (samples, places, coordinates)


def _covariance(given: Given) -> Contraction:
    return "io,jo->ij", given["self"], given["self"]


LEAST_MANY = 25
"""More rows than these have their distances by a product, unless the call says otherwise."""


def _distances(given: Given) -> Contraction | None:
    """Euclidean ones of many rows: a product of matrices that have the squares in two more columns."""
    first, second, mode = given["x1"], given["x2"], given.get("compute_mode")
    many = max(first[-2], second[-2]) > LEAST_MANY if not mode else mode == 1
    wide = [(*shape[:-1], shape[-1] + 2) for shape in (first, second)]
    return ("...ik,...jk->...ij", *wide) if many and given.get("p", 2) == 2 else None


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

CONTRACTIONS: dict[str, Callable[[Given], Contraction | None]] = {
    **dict.fromkeys(PACKED, _packed),
    "conv_tbc": _time_first,
    "tensordot": _tensordot,
    "inner": _inner,
    "bilinear": _bilinear,
    "_trilinear": _trilinear,
    **dict.fromkeys(("matrix_power", "linalg_matrix_power"), _power),
    **dict.fromkeys(("cov", "corrcoef"), _covariance),
    "affine_grid_generator": _affine_grid,
    "cdist": _distances,
    **dict.fromkeys(
        (
            "_grouped_mm",
            "_scaled_grouped_mm",
            "_scaled_grouped_mm_v2",
            "transformers.grouped_mm_fallback",
        ),
        _grouped,
    ),
}


MAYBE = frozenset({"cdist", "cov", "corrcoef", "inner", "matrix_power", "linalg_matrix_power"})
"""Ops that are products for some arguments only."""


def sizes(op: str, arguments: Mapping[str, Any], result: Shape | None) -> tuple[int, int, int, int] | None:
    """(groups, rows, columns, reduction) of the products of an op whose `arguments` have shapes in place of tensors;
    None where others know them."""
    try:
        equation, *shapes = CONTRACTIONS[op]({**arguments, "result": result}) or (
            ",",
        )  # no equation of these shapes
        both = as_one(contract(*einsum(equation, shapes), in_order=True))
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError):
        return None
    return (both.groups, both.rows, both.cols, both.reduction) if both else (0, 0, 0, 0)


def chain(shapes: Sequence[Shape]) -> str:
    """The product of a chain of matrices as an equation of Einsum; the first and the last may be vectors."""
    terms = list(map("".join, pairwise(ascii_letters[: len(shapes) + 1])))
    first, last = terms[0][-len(shapes[0]) :], terms[-1][: len(shapes[-1])]
    return f"{','.join([first, *terms[1:-1], last])}->{first[:-1]}{last[1:]}"
