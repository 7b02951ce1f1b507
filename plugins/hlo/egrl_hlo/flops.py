"""Floating-point operations of single instructions, by shape.

A multiply-accumulate is two operations, an element of an element-wise instruction one whatever it computes, and
moving, converting and selecting positions none. A sort compares n log2 n times (log2 rounded up), an FFT takes
5 n log2 n.

A computation followed in schedule order: which values its steps read and write, views looked through.

A value is an array in memory. Scalars and empty arrays are none: a chip keeps scalars beside its memories, and
thousands of four-byte buffers would be decisions without consequence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from egrl_hlo.parse import Computation, Node, array, dimension, numbers, operand
from egrl_hlo.scan import Array, Fault, Shape, leaves
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
        """Elements of the window."""
        return math.prod(axis[0] for axis in window_of(self.node, len(shape.dims)))


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


NONE = -1
"""The leaf of a shape that is no value."""


@dataclass(frozen=True)
class Price:
    """What an instruction costs. Leaves are numbered through the arrays of a shape.

    Attributes:
        flops: operations, those of the computations it calls included.
        reads: bytes by (operand, leaf of it).
        writes: bytes by leaf of the result.
        slow_bytes: traffic of what lies inside it.
        in_place: (operand, leaf of it, leaf of the result) that can share a place. `reads` and `writes` are then of
            what is updated only; where they do not share, the old value is copied.
        passes: by leaf of the result the (operand, leaf of it) that it is, unchanged.
    """

    flops: int
    reads: dict[tuple[int, int], int]
    writes: dict[int, int]
    slow_bytes: int = 0
    in_place: tuple[tuple[int, int, int], ...] = ()
    passes: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Step:
    """An instruction that does something, in values."""

    node: Node
    flops: int
    slow_bytes: int
    reads: dict[int, int]
    writes: dict[int, int]
    in_place: list[tuple[int, int]]


@dataclass
class Trace:
    """Values by number: name, size in bytes, and what they are. `last` is the last step that needs a value."""

    names: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    parameters: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Number of the parameter and leaf of it, by value."""
    constants: set[int] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    """A value, or NONE, for each leaf of the root."""
    last: dict[int, int] = field(default_factory=dict)

    def value(self, name: str, shape: Array) -> int:
        if not shape.dims or not shape.size_bytes:
            return NONE
        self.names.append(name)
        self.sizes.append(shape.size_bytes)
        return len(self.names) - 1

    def values(self, name: str, shape: Shape) -> list[int]:
        found = leaves(shape)
        single = isinstance(shape, Array)
        return [self.value(name if single else f"{name}#{i}", leaf) for i, leaf in enumerate(found)]


Pricer = Callable[[Node, Computation], Price]
Owned = Callable[[int, int], bool]


def trace(computation: Computation, price: Pricer, owned: Owned) -> Trace:
    """Follow a computation. `owned` says of (parameter, leaf) whether its memory may be written.

    Raises:
        Fault: shapes and operands contradict each other.
    """
    follower = _Follower(computation, price)
    for node in computation.nodes:
        follower.follow(node)
    found = follower.trace
    found.results = follower.at[computation.root.name]
    _settle(found, owned)
    return found


class _Follower:
    def __init__(self, computation: Computation, price: Pricer) -> None:
        self.computation = computation
        self.price = price
        self.trace = Trace()
        self.at: dict[str, list[int]] = {}
        """By name of a node: a value, or NONE, for each leaf of its shape; of a start the leaves of its end."""
        self.starts, self.ends = _asynchronous(computation)
        self.numbers = {node.name: i for i, node in enumerate(computation.parameters)}

    def follow(self, node: Node) -> None:
        if node.opcode in VIEWS:
            self.at[node.name] = self._view(node)
        elif node.name in self.starts and node.name not in self.ends:
            start = self.computation.by_name[self.starts[node.name]]
            self.at[node.name] = self.at[start.name]
            for value in (value for name in start.operands for value in self.at[name]):
                self._need(value, len(self.trace.steps) - 1)
        else:
            self._step(node)

    def _view(self, node: Node) -> list[int]:
        if node.opcode == "parameter":
            found = self.trace.values(node.name, node.shape)
            number = self.numbers[node.name]
            self.trace.parameters.update({v: (number, leaf) for leaf, v in enumerate(found) if v != NONE})
            return found
        if node.opcode == "constant":
            found = self.trace.values(node.name, node.shape)
            self.trace.constants.update(v for v in found if v != NONE)
            return found
        if node.opcode == "tuple":
            found = [value for name in node.operands for value in self.at[name]]
        elif node.opcode in ("after-all", "get-dimension-size"):
            found = [NONE] * len(leaves(node.shape))
        else:
            source = operand(node, [self.computation.by_name[name] for name in node.operands], 0)
            if source.name in self.starts and source.name in self.ends:
                raise Fault(
                    f"{node.name}: expected the result of {source.name} after its end, found it before"
                )
            found = (
                self._element(node, source) if node.opcode == "get-tuple-element" else self.at[source.name]
            )
        if len(found) != len(leaves(node.shape)):
            raise Fault(f"{node.name}: expected a shape like its operands', found one of other arrays")
        return found

    def _element(self, node: Node, source: Node) -> list[int]:
        index = (numbers(node, "index") or [-1])[0]
        if isinstance(source.shape, Array) or not 0 <= index < len(source.shape):
            raise Fault(f"{node.name}: expected an element of {source.name}, found index {index}")
        begin = sum(len(leaves(part)) for part in source.shape[:index])
        return self.at[source.name][begin : begin + len(leaves(source.shape[index]))]

    def _step(self, node: Node) -> None:
        node, trace = self._whole(node), self.trace
        price = self.price(node, self.computation)
        old = [self.at[name] for name in node.operands]
        new = trace.values(node.name, node.shape)
        for leaf, (position, source) in price.passes.items():
            new[leaf] = _leaf(node, old, position, source)
        reads: dict[int, int] = {}
        for (position, leaf), size in sorted(price.reads.items()):
            value = _leaf(node, old, position, leaf)
            reads[value] = reads.get(value, 0) + size
        reads.pop(NONE, None)
        writes = {new[leaf]: size for leaf, size in sorted(price.writes.items()) if leaf not in price.passes}
        writes.pop(NONE, None)
        pairs = [(_leaf(node, old, p, leaf), new[out]) for p, leaf, out in price.in_place]
        for value in reads:
            self._need(value, len(trace.steps))
        kept = [pair for pair in pairs if NONE not in pair]
        trace.steps.append(Step(node, price.flops, price.slow_bytes, reads, writes, kept))
        self.at[node.name] = new

    def _whole(self, node: Node) -> Node:
        """The instruction that a start and its end are together."""
        if node.name not in self.ends:
            return node
        opcode = node.opcode if node.opcode == "async-start" else node.opcode.removesuffix("-start")
        return replace(node, opcode=opcode, shape=self.ends[node.name].shape)

    def _need(self, value: int, at: int) -> None:
        if value != NONE:
            self.trace.last[value] = max(at, self.trace.last.get(value, 0))


def _leaf(node: Node, old: list[list[int]], position: int, leaf: int) -> int:
    if position >= len(old) or leaf >= len(old[position]):
        raise Fault(f"{node.name}: expected operands as those of the computation that it calls, found others")
    return old[position][leaf]


def _asynchronous(computation: Computation) -> tuple[dict[str, str], dict[str, Node]]:
    """The start of each node of an asynchronous chain, and the end of each start."""
    starts: dict[str, str] = {}
    ends: dict[str, Node] = {}
    for node in computation.nodes:
        if node.opcode.endswith("-start"):
            starts[node.name] = node.name
        elif node.opcode.endswith(("-update", "-done")) and node.operands and node.operands[0] in starts:
            starts[node.name] = starts[node.operands[0]]
            if node.opcode.endswith("-done"):
                ends[starts[node.name]] = node
    for start in set(starts.values()) - set(ends):
        raise Fault(f"{start}: expected an instruction that ends what it starts, found none")
    return starts, ends


def _settle(found: Trace, owned: Owned) -> None:
    """Decide which updates happen in place: where nothing needs the old value any more and its memory may be
    written. Where not, the old value is copied: all of it is read, and all of the new one written."""
    results = set(found.results)
    for at, step in enumerate(found.steps):
        kept: list[tuple[int, int]] = []
        for old, new in step.in_place:
            free = found.last.get(old, at) <= at and old not in results and old not in found.constants
            parameter = found.parameters.get(old)
            if parameter is not None:
                free = free and owned(*parameter)
            once = all(old != other and new != twin for other, twin in kept)
            if free and once and found.sizes[old] == found.sizes[new]:
                kept.append((old, new))
            else:
                step.reads[old] = max(found.sizes[old], step.reads.get(old, 0))
                step.writes[new] = max(found.sizes[new], step.writes.get(new, 0))
        step.in_place = kept
