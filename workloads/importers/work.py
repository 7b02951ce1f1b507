"""What kind of op a node is, its matrix products as one batch, and its work for the vector unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from workloads.importers.fold import Folded
from workloads.importers.ir import Node, Shape
from workloads.importers.vocabulary import (
    ACTIVATIONS,
    CONVOLUTIONS,
    ELEMENTWISE,
    GLOBAL_POOLS,
    MOVERS,
    NORMS,
    POOLS,
    PRODUCTS,
    RECURRENT,
    REDUCTIONS,
    SOFTMAXES,
)
from workloads.workload import Gemm
from workloads.zoo.vector_ops import VECTOR_OPS

GATE_OPS = 6
"""Vector operations per gate and element of a recurrent cell: a sigmoid or tanh, a product and a sum (*assumption*)."""


@dataclass(frozen=True)
class Window:
    """Kernel (x, y), and the largest stride, padding and dilation of any axis; 0 where there is no window."""

    kernel: tuple[int, int] = (0, 0)
    stride: int = 0
    pad: int = 0
    dilation: int = 0
    groups: int = 0


def kind_of(node: Node, folded: Folded, is_image: Callable[[str], bool]) -> str:
    """The kind of op, of `workloads.workload.KINDS`."""
    op, tensors = node.op, folded.graph.tensors
    if op in CONVOLUTIONS:
        groups, channels = node.integer("group", 1), (tensors[node.inputs[0]].shape or (0, 0))[1:2]
        outputs = (tensors[node.outputs[0]].shape or (0, 0))[1:2]
        return "depthwise_conv" if groups > 1 and (groups,) == channels == outputs else "conv"
    if op in PRODUCTS:
        constant = any(folded.is_constant(name) for name in node.inputs[:2] if name)
        return "matmul" if constant and op != "Attention" else "attention_matmul"
    if op == "Gather" and folded.is_constant(node.inputs[0]):
        return "embedding"
    if op in REDUCTIONS or op in GLOBAL_POOLS:
        spatial = is_image(node.inputs[0]) and len(tensors[node.outputs[0]].shape or ()) in (2, 4)
        return "pool" if spatial or op in GLOBAL_POOLS else "reduce"
    for members, kind in (
        (RECURRENT, "recurrent"),
        (NORMS, "norm"),
        (SOFTMAXES, "softmax"),
        (ACTIVATIONS, "activation"),
        (ELEMENTWISE, "elementwise"),
        (POOLS, "pool"),
    ):
        if op in members:
            return kind
    return MOVERS.get(op, "other")


def vector_ops(node: Node, head: Node, folded: Folded) -> int:
    """Element operations of one node that runs as, or in the tail of, `head`."""
    tensors, op = folded.graph.tensors, node.op
    outputs = sum(tensors[name].elements for name in node.outputs if name)
    inputs = max((tensors[name].elements for name in node.inputs if name), default=0)
    if op in CONVOLUTIONS or op in ("MatMul", "Gemm", "Einsum"):
        return 0
    if node is not head and head.op in CONVOLUTIONS | PRODUCTS and is_bias(node, head, folded):
        return 0
    for table in (ELEMENTWISE, ACTIVATIONS, NORMS):
        if op in table:
            return table[op] * outputs
    if op in SOFTMAXES:
        return VECTOR_OPS["softmax"] * outputs
    if op == "Attention":
        query, key = ((1, 1, *(tensors[name].shape or ())) for name in node.inputs[:2])
        scores = prod(query[:-1]) * key[-2] * (node.integer("q_num_heads", 1) if len(query) == 5 else 1)
        return (VECTOR_OPS["scale"] + VECTOR_OPS["softmax"]) * scores
    if op in POOLS:
        return tensors[node.outputs[0]].elements * prod(node.integers("kernel_shape"))
    if op in REDUCTIONS or op in GLOBAL_POOLS:
        return inputs
    if op in RECURRENT:
        return GATE_OPS * RECURRENT[op] * tensors[node.outputs[0] or node.inputs[0]].elements
    if op == "Gather":
        return VECTOR_OPS["copy"] * outputs
    return VECTOR_OPS["copy"] * (outputs if op in MOVERS else max(inputs, outputs))


def is_bias(node: Node, head: Node, folded: Folded) -> bool:
    """Whether a node in the tail of a convolution or product is a batch norm, or adds a constant of at most a number a
    feature. A larger constant (a table of positions, say) is one that the accumulators cannot hold."""
    if node.op == "BatchNormalization":
        return True
    if node.op != "Add":
        return False
    tensors, most = folded.graph.tensors, _features(head, folded)
    return any(tensors[name].constant and tensors[name].kept <= most for name in node.inputs if name)


def _features(head: Node, folded: Folded) -> int:
    """Channels of a convolution; of a product, places along the axes that its result has of its weight, or along the
    last axis where it has none."""
    shape = folded.graph.tensors[head.outputs[0]].shape or ()
    if head.op in CONVOLUTIONS:
        return prod(shape[1:2])
    gemm = gemm_of(head, lambda name: folded.graph.tensors[name].shape or ())
    constant = [folded.is_constant(name) for name in head.inputs[:2] if name]
    if gemm is None or True not in constant:
        return prod(shape[-1:])
    return gemm.groups * (gemm.cols if constant[-1] else gemm.rows)


def window_of(node: Node, folded: Folded) -> Window:
    """The window of a convolution or a pooling."""
    if node.op not in CONVOLUTIONS and node.op not in POOLS:
        return Window()
    kernel = node.integers("kernel_shape")
    if not kernel and node.op in CONVOLUTIONS:
        kernel = (folded.graph.tensors[node.inputs[1]].shape or ())[2:]
    width, height = (kernel[-1] if kernel else 1), prod(kernel[:-1])
    return Window(
        (max(0, width), max(0, height)),
        max((1, *node.integers("strides"))),
        max((0, *node.integers("pads"))),
        max((1, *node.integers("dilations"))),
        max(1, node.integer("group", 1)) if node.op in CONVOLUTIONS else 0,
    )


ShapeOf = Callable[[str], Shape]


def gemm_of(node: Node, shape: ShapeOf) -> Gemm | None:
    """The products of a node, `shape` giving a tensor's shape by name; None where it has none or they are empty."""
    try:
        found = _sizes(node, shape)
    except (IndexError, KeyError, ValueError, ZeroDivisionError):
        return None
    return Gemm(*found) if found is not None and min(found) > 0 else None


def _sizes(node: Node, shape: ShapeOf) -> tuple[int, int, int, int] | None:
    """(groups, rows, cols, reduction); a front end may have found them as a node's `products`."""
    if len(known := node.integers("products")) == 4:
        return known[0], known[1], known[2], known[3]
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
