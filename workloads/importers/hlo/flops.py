"""Floating-point operations of single instructions, by shape.

A multiply-accumulate is two operations, an element of an element-wise instruction one whatever it computes, and
moving, converting and selecting positions none. A sort compares n log2 n times (log2 rounded up), an FFT takes
5 n log2 n.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from workloads.importers.hlo.attributes import array, dimension, numbers, operand
from workloads.importers.hlo.parse import Node
from workloads.importers.hlo.scan import Fault
from workloads.importers.hlo.shapes import Array


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VIEWS = _words(
    "tuple get-tuple-element bitcast optimization-barrier opt-barrier add-dependency domain get-dimension-size "
    "set-dimension-size after-all parameter constant"
)
"""They define no value of their own in memory (parameters and constants: no instruction)."""
MOVES = VIEWS | _words(
    "copy convert broadcast transpose reshape dynamic-reshape slice dynamic-slice dynamic-update-slice concatenate pad "
    "gather iota reverse bitcast-convert copy-start copy-done send send-done recv recv-done infeed outfeed all-gather "
    "all-to-all collective-permute collective-broadcast ragged-all-to-all partition-id replica-id "
    "rng-get-and-update-state"
)
"""They compute nothing."""
ELEMENTWISE = _words(
    "abs add and atan2 cbrt ceil clamp clz compare complex cosine cosh acos acosh asin asinh atanh count-leading-zeros "
    "divide erf exponential exponential-minus-one floor imag is-finite log log-plus-one logistic maximum minimum "
    "multiply negate not or popcnt power real reduce-precision remainder rng rng-bit-generator "
    "round-nearest-afz round-nearest-even rsqrt select shift-left shift-right-arithmetic shift-right-logical sign sine "
    "sinh sqrt stochastic-convert subtract tan tanh xor all-reduce reduce-scatter"
)
_WINDOW = re.compile(r"\b(size|stride|pad|lhs_dilate|rhs_dilate)=([\dx_\-]+)")
_MOST_POSITIONS = 1_000_000
"""Positions of a window that are looked at one by one to leave out padding and holes."""

Applied = Callable[[Node], int]
"""Operations of the computation that a node applies to each element."""


def flops(node: Node, operands: list[Node], applied: Applied) -> int | None:
    """The node's operations; None where the opcode is not known.

    Raises:
        Fault: attributes and shapes contradict each other.
    """
    out = array(node).elements
    if node.opcode in MOVES:
        return 0
    if node.opcode in ELEMENTWISE:
        return out
    found = _OTHERS.get(node.opcode)
    return None if found is None else found(node, operands, applied)


def _dot(node: Node, operands: list[Node], applied: Applied) -> int:
    lhs = array(operand(node, operands, 0))
    key = "lhs_contracting_dims"
    depth = math.prod(dimension(node, lhs, axis, key) for axis in numbers(node, key))
    return 2 * array(node).elements * depth


def _convolution(node: Node, operands: list[Node], applied: Applied) -> int:
    out, source, kernel = array(node), array(operand(node, operands, 0)), array(operand(node, operands, 1))
    labels = re.fullmatch(r"(\w+)_(\w+)->(\w+)", node.attributes.get("dim_labels", ""))
    if labels is None or any(
        len(text) != len(shape.dims)
        for text, shape in zip(labels.groups(), (source, kernel, out), strict=True)
    ):
        raise Fault(
            f"{node.name}: expected dim_labels of its shapes, found {node.attributes.get('dim_labels')!r}"
        )
    ins, weights, outs = labels.groups()
    if "i" not in weights or "b" not in outs or "f" not in outs:
        raise Fault(f"{node.name}: expected dim_labels with b, f, i and o, found {labels[0]!r}")
    spatial = [mark for mark in outs if mark.isdigit()]
    if any(mark not in ins or mark not in weights for mark in spatial):
        raise Fault(f"{node.name}: expected dim_labels with the same spatial axes, found {labels[0]!r}")
    window = window_of(node, len(spatial))
    macs = out.dims[outs.index("b")] * out.dims[outs.index("f")] * kernel.dims[weights.index("i")]
    for axis, mark in enumerate(spatial):
        length = source.dims[ins.index(mark)]
        macs *= _positions(length, kernel.dims[weights.index(mark)], out.dims[outs.index(mark)], window[axis])
    return 2 * macs


Axis = tuple[int, int, int, int, int]
"""Window along an axis: size, stride, padding before, dilation of the input, dilation of the kernel."""


def window_of(node: Node, axes: int) -> list[Axis]:
    """The window of a convolution or pooling, an entry an axis."""
    given = {key: value.split("x") for key, value in _WINDOW.findall(node.attributes.get("window", ""))}
    columns = []
    for key, default in (("size", 1), ("stride", 1), ("pad", 0), ("lhs_dilate", 1), ("rhs_dilate", 1)):
        values = given.get(key, [str(default)] * axes)
        if len(values) != axes:
            raise Fault(f"{node.name}: window: expected {axes} numbers of {key}, found {len(values)}")
        try:
            found = [int(value.split("_")[0]) for value in values]
        except ValueError:
            raise Fault(
                f"{node.name}: window: expected numbers of {key}, found {'x'.join(values)!r}"
            ) from None
        if key != "pad" and min(found, default=1) < 1:
            raise Fault(f"{node.name}: window: expected {key} of at least 1, found {'x'.join(values)!r}")
        columns.append(found)
    return list(zip(*columns, strict=True))


def _positions(length: int, kernel: int, out: int, axis: Axis) -> int:
    """Pairs of an output's and the kernel's position along an axis that meet an element of the input: neither padding
    nor a hole of a dilated one."""
    _, stride, pad, holes, spread = axis
    if stride == 1 and holes == 1 and pad == 0 and out + (kernel - 1) * spread <= length:
        return kernel * out
    if kernel * out > _MOST_POSITIONS:
        return -(-kernel * out // holes)
    last = (length - 1) * holes
    return sum(
        0 <= (at := o * stride - pad + k * spread) <= last and at % holes == 0
        for k in range(kernel)
        for o in range(out)
    )


def _window_size(node: Node) -> int:
    return math.prod(axis[0] for axis in window_of(node, len(array(node).dims)))


def _reduce(node: Node, operands: list[Node], applied: Applied) -> int:
    return array(operand(node, operands, 0)).elements * applied(node)


def _reduce_window(node: Node, operands: list[Node], applied: Applied) -> int:
    return array(node).elements * _window_size(node) * applied(node)


def _select_and_scatter(node: Node, operands: list[Node], applied: Applied) -> int:
    source = array(operand(node, operands, 1))
    return source.elements * (math.prod(axis[0] for axis in window_of(node, len(source.dims))) + 1)


def _scatter(node: Node, operands: list[Node], applied: Applied) -> int:
    return array(operand(node, operands, len(operands) - 1)).elements * applied(node)


def _sort(node: Node, operands: list[Node], applied: Applied) -> int:
    shape = array(node)
    length = dimension(node, shape, (numbers(node, "dimensions") or [0])[0], "dimensions")
    return shape.elements * max(1, (length - 1).bit_length()) * applied(node)


def _fft(node: Node, operands: list[Node], applied: Applied) -> int:
    length = math.prod(numbers(node, "fft_length")) or 1
    elements = max(array(node).elements, array(operand(node, operands, 0)).elements)
    return 5 * elements * max(1, length.bit_length() - 1)


def _cholesky(node: Node, operands: list[Node], applied: Applied) -> int:
    shape = array(node)
    return shape.elements * (shape.dims[-1] if shape.dims else 1) // 3


def _triangular_solve(node: Node, operands: list[Node], applied: Applied) -> int:
    shape = array(operand(node, operands, 0))
    return array(node).elements * (shape.dims[-1] if shape.dims else 1)


def _map(node: Node, operands: list[Node], applied: Applied) -> int:
    return array(node).elements * applied(node)


def _batch_norm(node: Node, operands: list[Node], applied: Applied) -> int:
    return 8 * array(node).elements


def like_product(node: Node, operands: list[Node]) -> int:
    """Operations of a library's matrix product or convolution, by shapes alone: two a multiply-accumulate."""
    out, lhs, rhs = array(node), array(operand(node, operands, 0)), array(operand(node, operands, 1))
    if "conv" in node.attributes.get("custom_call_target", "").lower():
        return 2 * out.elements * (rhs.elements // max(_features(out, rhs), 1))
    batch = math.prod(
        a
        for a, b in zip(lhs.dims[:-2], rhs.dims[:-2], strict=False)
        if a == b and len(lhs.dims) == len(rhs.dims)
    )
    depth = math.isqrt(lhs.elements * rhs.elements // max(out.elements * batch, 1))
    return 2 * out.elements * depth


def _features(out: Array, kernel: Array) -> int:
    """The axis of output features: the largest that result and kernel have in common."""
    return max((size for size in out.dims if size in kernel.dims), default=1)


_OTHERS: dict[str, Callable[[Node, list[Node], Applied], int]] = {
    "dot": _dot,
    "ragged-dot": _dot,
    "convolution": _convolution,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "scatter": _scatter,
    "sort": _sort,
    "topk": _sort,
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "map": _map,
    "batch-norm-training": _batch_norm,
    "batch-norm-inference": _batch_norm,
    "batch-norm-grad": _batch_norm,
}
