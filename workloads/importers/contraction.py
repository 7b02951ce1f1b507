"""Matrix products as contractions: what Einsum, matrix products, convolutions and attention have in common.

An operand is its axes, sizes by label; axes with one label belong together, and those that are not kept are summed
over. Of two operands the kept axes of both are groups, the kept ones of one are rows or columns, the others of both the
reduction. A convolution is the contraction of its patches; an axis of size 1 is broadcast, and no axis.

Arithmetic on small constants: what models compute shapes, masks and indices with.

Only a fixed list of harmless ops is computed, and only up to `MAX_ELEMENTS` elements, so that no file can make the
importer compute for long or take much memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.importers.ir import Node, Shape
from workloads.workload import Gemm

Axes = Mapping[str, int]

MOST_TRIED = 5
"""Operands of which every order is tried; of more the cheapest pair is taken first."""


def contract(operands: Sequence[Axes], kept: frozenset[str]) -> list[Gemm]:
    """The products of a contraction of two operands or more, pair by pair in the cheapest order; none of fewer."""
    if len(operands) < 2:
        return []
    operands = [{label: size for label, size in axes.items() if size != 1} for axes in operands]
    pairs = [(pair_product(operands, i, j, kept), i, j) for i, j in combinations(range(len(operands)), 2)]
    if len(operands) > MOST_TRIED:
        pairs = [min(pairs, key=lambda each: each[0][0].macs)]
    plans = (
        [gemm, *contract([*(axes for k, axes in enumerate(operands) if k not in (i, j)), left], kept)]
        for (gemm, left), i, j in pairs
    )
    return min(plans, key=lambda plan: sum(gemm.macs for gemm in plan))


def pair_product(operands: Sequence[Axes], i: int, j: int, kept: frozenset[str]) -> tuple[Gemm, Axes]:
    """The product of two of the operands, and the axes of its result: those that the others or the whole still need."""
    a, b = operands[i], operands[j]
    needed = kept.union(*(axes for k, axes in enumerate(operands) if k not in (i, j)))
    left = {label: size for label, size in {**a, **b}.items() if label in needed}
    gemm = Gemm(
        prod(size for label, size in left.items() if label in a and label in b),
        prod(size for label, size in left.items() if label not in b),
        prod(size for label, size in left.items() if label not in a),
        prod(size for label, size in a.items() if label in b and label not in needed),
    )
    return gemm, left


def summed(operands: Sequence[Axes], kept: frozenset[str]) -> int:
    """Elements of the operands that are summed before any product, along axes that nothing else has."""
    found = 0
    for k, axes in enumerate(operands):
        others = kept.union(*(each for i, each in enumerate(operands) if i != k))
        found += prod(axes.values()) if axes.keys() - others else 0
    return found


def as_one(products: Sequence[Gemm]) -> Gemm | None:
    """Products of one op as one batch of as many multiply-accumulates: what groups, rows and columns have in common,
    and the rest as reduction. None where there are none, or they are empty."""
    filled = [gemm for gemm in products if gemm.macs]
    if not filled:
        return None
    groups, rows, cols = (gcd(*(getattr(gemm, key) for gemm in filled)) for key in ("groups", "rows", "cols"))
    return Gemm(groups, rows, cols, sum(gemm.macs for gemm in filled) // (groups * rows * cols))


def einsum(equation: str, shapes: Sequence[Shape]) -> tuple[list[Axes], frozenset[str]]:
    """The operands of an equation, and the labels of its result; axes under an ellipsis are counted from the right.

    Raises:
        ValueError: the equation has not as many operands or axes as the shapes, or axes of one label have two sizes
            (one of them may be 1).
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    operands = [_axes(term, shape) for term, shape in zip(terms, shapes, strict=True)]
    labels = list(dict.fromkeys(label for axes in operands for label in axes))
    for label in labels:
        agree(*(axes[label] for axes in operands if axes.get(label, 1) != 1))
    hidden = {label for label in labels if len(label) > 1}
    letters = right if arrow else "".join(label for label in labels if left.count(label) == 1)
    kept = {label for label in labels if label in letters} - hidden
    return operands, frozenset(kept | hidden if "." in right or not arrow else kept)


def einsum_shape(equation: str, shapes: Sequence[Shape]) -> Shape:
    """The shape of the result of an equation. ValueError as `einsum`."""
    operands, kept = einsum(equation, shapes)
    _, arrow, right = equation.replace(" ", "").partition("->")
    letters = sorted(label for label in kept if len(label) == 1)
    before, _, after = (right if arrow else "..." + "".join(letters)).partition("...")
    hidden = sorted((label for label in kept if len(label) > 1), key=lambda label: -int(label[3:]))
    found = ([axes[label] for axes in operands if label in axes] for label in (*before, *hidden, *after))
    return tuple(min(sizes) and max(sizes) for sizes in found)


def agree(*sizes: int) -> None:
    """ValueError unless the sizes of an axis are the same."""
    if len(set(sizes)) > 1:
        raise ValueError(f"sizes: expected the same along one axis, received {sizes}")


def _axes(term: str, shape: Shape) -> Axes:
    """Sizes by label; a label that stands twice (a diagonal) is one axis."""
    before, dots, after = term.partition("...")
    hidden = len(shape) - len(before) - len(after)
    if hidden < 0 or (hidden and not dots) or not f"a{before}{after}".isalpha():
        raise ValueError(f"term: expected the axes of {shape}, received {term!r}")
    labels = [*before, *(f"...{k}" for k in range(hidden, 0, -1)), *after]
    found = dict(zip(labels, shape, strict=True))
    for label, size in zip(labels, shape, strict=True):
        agree(found[label], size)
    return found


def matmul(a: Shape, b: Shape) -> tuple[list[Axes], frozenset[str]]:
    """The operands of a matrix product as NumPy has it, and the labels of its result; ValueError if there is none."""
    agree(*a[-1:], *(b[-2:-1] or b))
    rows, cols = "i" if len(a) > 1 else "", "k" if len(b) > 1 else ""
    return einsum(f"...{rows}j,...j{cols}->...{rows}{cols}", (a, b))


MAX_ELEMENTS = 4096
"""Elements of a tensor whose value is followed."""

Array = NDArray[Any]

_BINARY: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mod": np.mod,
    "Pow": np.power,
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "Identity": np.asarray,
    "Neg": np.negative,
    "Abs": np.abs,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.round,
    "Sqrt": np.sqrt,
    "Not": np.logical_not,
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
}


def evaluate(node: Node, inputs: Sequence[Array | None], cast: Mapping[int, Any]) -> list[Array] | None:
    """The outputs of a node whose inputs [None: left out] are known; None where that is not to be had cheaply.

    `cast` gives NumPy's type for the number of a type in the file.
    """
    if any(value is not None and value.size > MAX_ELEMENTS for value in inputs):
        return None
    try:
        with np.errstate(all="ignore"):
            found = _evaluate(node, inputs, cast)
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError, ZeroDivisionError):
        return None
    if found is None or any(value.size > MAX_ELEMENTS or value.dtype == object for value in found):
        return None
    return found


def _evaluate(node: Node, inputs: Sequence[Array | None], cast: Mapping[int, Any]) -> list[Array] | None:
    op, given = node.op, [value for value in inputs if value is not None]
    if op in _BINARY and len(given) == 2:
        return [np.asarray(_BINARY[op](given[0], given[1]))] if _fits(given) else None
    if op == "Div" and len(given) == 2 and _fits(given):
        whole = all(np.issubdtype(value.dtype, np.integer) for value in given)
        return [
            np.asarray(np.trunc(given[0] / given[1]).astype(given[0].dtype) if whole else given[0] / given[1])
        ]
    if op == "Where" and len(given) == 3 and _fits(given):
        return [np.where(given[0].astype(bool), given[1], given[2])]
    if op in _UNARY and given:
        return [np.asarray(_UNARY[op](given[0]))]
    if op == "Cast" and given:
        return [given[0].astype(cast[node.integer("to", 0)])]
    if op in _REDUCTIONS and given:
        axes = tuple(int(v) for v in given[1].ravel()) if len(given) > 1 else node.integers("axes") or None
        return [np.asarray(_REDUCTIONS[op](given[0], axis=axes, keepdims=bool(node.integer("keepdims", 1))))]
    return _rearrange(node, inputs, given)


def _rearrange(node: Node, inputs: Sequence[Array | None], given: list[Array]) -> list[Array] | None:
    """Ops that move or pick elements, whose result is no larger than what is given."""
    op = node.op
    if op == "Concat" and given:
        return [np.concatenate(given, axis=node.integer("axis", 0))]
    if op == "Gather":
        return [np.take(given[0], given[1].astype(np.int64), axis=node.integer("axis", 0))]
    if op == "Transpose":
        return [np.transpose(given[0], node.integers("perm") or None)]
    # Axes are an input in newer versions of the format, an attribute in older ones.
    if op == "Squeeze":
        axes = tuple(int(v) for v in given[1]) if len(given) > 1 else node.integers("axes")
        return [np.squeeze(given[0], axis=axes or None)]
    if op == "Unsqueeze":
        axes = tuple(int(v) for v in given[1].ravel()) if len(given) > 1 else node.integers("axes")
        return [np.expand_dims(given[0], axes)]
    if op == "Reshape":
        return [given[0].reshape([int(v) for v in given[1]])]
    if op == "Slice":
        return [_slice(node, inputs)]
    if op == "Split":
        axis, parts = node.integer("axis", 0), len(node.outputs)
        size = -(-given[0].shape[axis] // parts)
        sizes = given[1].ravel() if len(given) > 1 else node.integers("split") or [size] * parts
        return np.split(given[0], np.cumsum(sizes)[:-1], axis)
    return _fill(node, given)


def _fill(node: Node, given: list[Array]) -> list[Array] | None:
    """Ops that make arrays of a size that a value states: the size is checked before there is an array."""
    if node.op == "Range":
        start, limit, step = (value.item() for value in given)
        # Written so that a length that is not a number is refused, too.
        if step == 0 or not abs((limit - start) / step) <= MAX_ELEMENTS:
            return None
        return [np.arange(start, limit, step, dtype=given[0].dtype)]
    if node.op == "Expand":
        shape = np.broadcast_shapes(given[0].shape, tuple(int(v) for v in given[1]))
        return [np.broadcast_to(given[0], shape)] if prod(shape) <= MAX_ELEMENTS else None
    if node.op == "ConstantOfShape":
        shape = tuple(int(v) for v in given[0])
        if prod(shape) > MAX_ELEMENTS:
            return None
        value = np.asarray(node.attributes.get("value", np.zeros(1, np.float32))).ravel()
        return [np.full(shape, value[0])]
    return None


def _slice(node: Node, inputs: Sequence[Array | None]) -> Array:
    data = inputs[0]
    if data is None:
        raise ValueError("data: expected an array, received None")
    lists: list[list[int] | None] = []
    for position, name in enumerate(("starts", "ends", "axes", "steps"), start=1):
        value = inputs[position] if position < len(inputs) else None
        listed = [int(v) for v in value.ravel()] if value is not None else list(node.integers(name))
        lists.append(listed or None)
    starts, ends, axes, steps = lists
    if starts is None or ends is None:
        raise ValueError("starts, ends: expected integers, received none")
    index = [slice(None)] * data.ndim
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        step = steps[i] if steps else 1
        axis = axes[i] if axes else i
        stop: int | None = end
        # Backwards to the very first element: -1 would count from the end again, so that only None says it.
        if step < 0 and end < -data.shape[axis]:
            stop = None
        index[axis] = slice(start, stop, step)
    return data[tuple(index)]


def _fits(values: Sequence[Array]) -> bool:
    return prod(np.broadcast_shapes(*(value.shape for value in values))) <= MAX_ELEMENTS
