"""The multiply-accumulates of an op, from its shapes, as one batch of matrix products."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from workloads.importers.ir import Node, Shape
from workloads.importers.vocabulary import RECURRENT
from workloads.workload import Gemm

ShapeOf = Callable[[str], Shape]


def gemm_of(node: Node, shape: ShapeOf) -> Gemm | None:
    """The products of a node, `shape` giving a tensor's shape by name; None where it has none or they are empty."""
    try:
        found = _sizes(node, shape)
    except (IndexError, KeyError, ValueError, ZeroDivisionError):
        return None
    return Gemm(*found) if found is not None and min(found) > 0 else None


def _sizes(node: Node, shape: ShapeOf) -> tuple[int, int, int, int] | None:
    """(groups, rows, cols, reduction)."""
    if node.op == "Conv":
        return _convolution(node, shape)
    if node.op == "ConvTranspose":
        image, weight, groups = shape(node.inputs[0]), shape(node.inputs[1]), max(1, node.integer("group", 1))
        return groups, image[0] * prod(image[2:]), prod(weight[1:]), weight[0] // groups
    if node.op == "Gemm":
        a, b = shape(node.inputs[0]), shape(node.inputs[1])
        rows, reduction = (a[1], a[0]) if node.integer("transA", 0) else (prod(a[:-1]), a[-1])
        return 1, rows, b[0] if node.integer("transB", 0) else b[1], reduction
    if node.op == "MatMul":
        return _matmul(shape(node.inputs[0]), shape(node.inputs[1]))
    if node.op == "Einsum":
        return _einsum(node, shape)
    if node.op == "Attention":
        return _attention(node, shape)
    if node.op in RECURRENT:
        return _recurrent(node, shape)
    return None


def _convolution(node: Node, shape: ShapeOf) -> tuple[int, int, int, int]:
    weight, output, groups = shape(node.inputs[1]), shape(node.outputs[0]), max(1, node.integer("group", 1))
    return groups, output[0] * prod(output[2:]), weight[0] // groups, prod(weight[1:])


def _recurrent(node: Node, shape: ShapeOf) -> tuple[int, int, int, int]:
    """Every step multiplies every matrix: ONNX has those of both directions in one tensor, PyTorch a tensor each."""
    steps, weights = shape(node.inputs[0]), [shape(name) for name in node.inputs[1:] if name]
    if len(weights[0]) == 3:
        return weights[0][0], steps[0] * steps[1], weights[0][1], weights[0][2] + weights[1][2]
    matrices = [weight for weight in weights if len(weight) == 2]
    return 1, prod(steps[:-1]), matrices[0][0], sum(map(prod, matrices)) // matrices[0][0]


def _matmul(a: Shape, b: Shape) -> tuple[int, int, int, int]:
    """A matrix on either side that is the same for the whole batch is one product with more rows or columns."""
    a = (1, *a) if len(a) == 1 else a
    b = (*b, 1) if len(b) == 1 else b
    if prod(b[:-2]) == 1:
        return 1, prod(a[:-1]), b[-1], a[-1]
    if prod(a[:-2]) == 1:
        return 1, a[-2], prod(b[:-2]) * b[-1], a[-1]
    batch = _broadcast(a[:-2], b[:-2])
    return prod(batch), a[-2], b[-1], a[-1]


def _broadcast(a: Shape, b: Shape) -> Shape:
    length = max(len(a), len(b))
    left, right = (1,) * (length - len(a)) + a, (1,) * (length - len(b)) + b
    return tuple(y if x == 1 else x for x, y in zip(left, right, strict=True))


def _einsum(node: Node, shape: ShapeOf) -> tuple[int, int, int, int] | None:
    """Two operands only: axes in both and the result are groups, in both alone the reduction."""
    left, arrow, result = node.text("equation").replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != 2 or "." in left:
        return None
    first, second = (
        dict(zip(term, shape(name), strict=True)) for term, name in zip(terms, node.inputs, strict=True)
    )
    sizes = first | second
    kept = result if arrow else "".join(label for label in sizes if left.count(label) == 1)
    groups = prod(
        size for label, size in sizes.items() if label in first and label in second and label in kept
    )
    rows = prod(size for label, size in first.items() if label not in second)
    cols = prod(size for label, size in second.items() if label not in first)
    both = prod(
        size for label, size in sizes.items() if label in first and label in second and label not in kept
    )
    return groups, rows, cols, both


def _attention(node: Node, shape: ShapeOf) -> tuple[int, int, int, int]:
    """Scores and context of scaled dot-product attention: as many columns, both reductions added."""
    query, key, value = (shape(name) for name in node.inputs[:3])
    if len(query) == 3:
        heads = max(1, node.integer("q_num_heads", 1))
        pairs = max(1, node.integer("kv_num_heads", heads))
        return query[0] * heads, query[1], key[1], query[2] // heads + value[2] // pairs
    return prod(query[:-2]), query[-2], key[-2], query[-1] + value[-1]
