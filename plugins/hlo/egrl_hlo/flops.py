"""Floating-point operations of single instructions, by shape.

A multiply-accumulate is two operations, an element of an element-wise instruction one whatever it computes, and
moving, converting and selecting positions none. A sort compares n log2 n times (log2 rounded up), an FFT takes
5 n log2 n.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from egrl_hlo.parse import Node, array, dimension, numbers, operand
from egrl_hlo.scan import Array, Fault
from workloads.importers.vocabulary import words

VIEWS = words(
    "tuple get-tuple-element bitcast optimization-barrier opt-barrier add-dependency domain get-dimension-size "
    "set-dimension-size after-all parameter constant"
)
"""They define no value of their own in memory (parameters and constants: no instruction)."""
MOVES = VIEWS | words(
    "copy convert broadcast transpose reshape dynamic-reshape slice dynamic-slice dynamic-update-slice concatenate pad "
    "gather iota reverse bitcast-convert copy-start copy-done send send-done recv recv-done infeed outfeed all-gather "
    "all-to-all collective-permute collective-broadcast ragged-all-to-all partition-id replica-id "
    "rng-get-and-update-state"
)
"""They compute nothing."""
ELEMENTWISE = words(
    "abs add and atan2 cbrt ceil clamp clz compare complex cosine cosh acos acosh asin asinh atanh count-leading-zeros "
    "divide erf exponential exponential-minus-one floor imag is-finite log log-plus-one logistic maximum minimum "
    "multiply negate not or popcnt power real reduce-precision remainder rng rng-bit-generator "
    "round-nearest-afz round-nearest-even rsqrt select shift-left shift-right-arithmetic shift-right-logical sign sine "
    "sinh sqrt stochastic-convert subtract tan tanh xor all-reduce reduce-scatter"
)
_WINDOW = re.compile(r"\b(size|stride|pad|lhs_dilate|rhs_dilate)=([\dx_\-]+)")
_MOST_POSITIONS = 1_000_000
"""Positions of a window that are looked at one by one to leave out padding and holes."""


@dataclass(frozen=True)
class Work:
    """A node with what it reads; `applied` says the operations of the computation that it applies to each element."""

    node: Node
    operands: list[Node]
    applied: Callable[[Node], int]

    @property
    def out(self) -> Array:
        """The result; of several the largest."""
        return array(self.node)

    def read(self, position: int) -> Array:
        """An operand. Fault where there is none."""
        return array(operand(self.node, self.operands, position))

    @property
    def each(self) -> int:
        """Operations that are applied to an element."""
        return self.applied(self.node)

    def window(self, shape: Array) -> int:
        """Elements of the window that are looked at anew from each position: one along an axis where every window
        covers all of the operand, a reduction whose result is given to all positions."""
        source = self.read(0).dims
        axes = window_of(self.node, len(shape.dims))
        if len(source) != len(axes):
            return math.prod(axis[0] for axis in axes)
        return math.prod(
            1 if length > 1 and _covers(axis, length, out) else axis[0]
            for axis, length, out in zip(axes, source, shape.dims, strict=True)
        )


def flops(node: Node, operands: list[Node], applied: Callable[[Node], int]) -> int | None:
    """The node's operations; None where the opcode is not known.

    Raises:
        Fault: attributes and shapes contradict each other.
    """
    if node.opcode in MOVES:
        return 0
    if node.opcode in ELEMENTWISE:
        return array(node).elements
    count = _OTHERS.get(node.opcode)
    return None if count is None else count(Work(node, operands, applied))


def _dot(work: Work) -> int:
    key = "lhs_contracting_dims"
    depths = (dimension(work.node, work.read(0), axis, key) for axis in numbers(work.node, key))
    return 2 * work.out.elements * math.prod(depths)


def _convolution(work: Work) -> int:
    node, out, source, kernel = work.node, work.out, work.read(0), work.read(1)
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


def _covers(axis: Axis, length: int, out: int) -> bool:
    """Whether a window has all of so many elements at each of its positions."""
    size, stride, pad, holes, spread = axis
    return stride == holes == spread == 1 and out - 1 <= pad and size >= pad + length


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


def _sort(work: Work) -> int:
    axis = (numbers(work.node, "dimensions") or [0])[0]
    length = dimension(work.node, work.out, axis, "dimensions")
    return work.out.elements * max(1, (length - 1).bit_length()) * work.each


def _fft(work: Work) -> int:
    length = math.prod(numbers(work.node, "fft_length")) or 1
    return 5 * max(work.out.elements, work.read(0).elements) * max(1, length.bit_length() - 1)


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


_OTHERS: dict[str, Callable[[Work], int]] = {
    **dict.fromkeys(("dot", "ragged-dot"), _dot),
    "convolution": _convolution,
    "reduce": lambda work: work.read(0).elements * work.each,
    "reduce-window": lambda work: work.out.elements * work.window(work.out) * work.each,
    "select-and-scatter": lambda work: work.read(1).elements * (work.window(work.read(1)) + 1),
    "scatter": lambda work: work.read(len(work.operands) - 1).elements * work.each,
    **dict.fromkeys(("sort", "topk"), _sort),
    "fft": _fft,
    "cholesky": lambda work: work.out.elements * (1, *work.out.dims)[-1] // 3,
    "triangular-solve": lambda work: work.out.elements * (1, *work.read(0).dims)[-1],
    "map": lambda work: work.out.elements * work.each,
    **dict.fromkeys(
        ("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), lambda work: 8 * work.out.elements
    ),
}
