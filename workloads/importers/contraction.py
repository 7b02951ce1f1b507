"""Matrix products as contractions: what Einsum, matrix products, convolutions and attention have in common.

An operand is its axes, sizes by label; axes with one label belong together, and those that are not kept are summed
over. Of two operands the kept axes of both are groups, the kept ones of one are rows or columns, the others of both the
reduction. A convolution is the contraction of its patches; an axis of size 1 is broadcast, and no axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import gcd, prod

from workloads.importers.ir import Shape
from workloads.workload import Gemm

Axes = Mapping[str, int]

MOST_TRIED = 5
"""Operands of which every order is tried; of more the cheapest pair is taken first."""


def contract(operands: Sequence[Axes], kept: frozenset[str], in_order: bool = False) -> list[Gemm]:
    """The products of a contraction of two operands or more, pair by pair in the cheapest order, or beginning with the
    first two; none of fewer."""
    if len(operands) < 2:
        return []
    operands = [{label: size for label, size in axes.items() if size != 1} for axes in operands]
    pairs = [(pair_product(operands, i, j, kept), i, j) for i, j in combinations(range(len(operands)), 2)]
    if in_order:
        pairs = pairs[:1]
    elif len(operands) > MOST_TRIED:
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
