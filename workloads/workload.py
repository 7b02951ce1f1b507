"""A neural network as the list of its ops in execution order.

One `Op` owns two tensors that a chip must place: its *weight* (parameters, kept from one inference to the
next) and its *activation* (its output, alive from the op itself to its last consumer).

Rule for several outputs: an op's outputs are placed together as one activation whose bytes are their sum;
each edge states the bytes its consumer reads, so that reading one of the outputs costs only that one.

Sizes are bytes at the workload's own element widths (`ElementBytes`); a chip that computes in other widths
rescales them. Weight bytes *held* (what capacity pays) and *read* in one inference (what bandwidth pays) are
kept apart: an embedding holds its table and reads the rows it gathers.

What every workload must satisfy, and what follows: when each activation is read for the last time.

Refused in one line: unknown or repeated fields, wrong types (`"5"` or `5.0` for an integer), NaN, Infinity, edges that
do not point to an earlier op, an edge or a name given twice, more bytes read than produced or held, sizes outside
0 .. 2^50 - 1, more than 100,000 ops or 1,000,000 edges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from workloads.errors import Fault, InputError, short, wrong
from workloads.text import FILE_NAME, encodes, is_file_name, is_name

Shape3 = tuple[int, int, int]
"""(x, y, z) of a feature map: width, height, channels. A sequence is (length, 1, hidden)."""

KINDS: tuple[str, ...] = (
    "conv",
    "depthwise_conv",
    "matmul",
    "attention_matmul",
    "embedding",
    "norm",
    "softmax",
    "activation",
    "elementwise",
    "pool",
    "concat",
    "split",
    "transpose",
    "reshape",
    "upsample",
    "reduce",
    "recurrent",
    "other",
)
"""Kinds of op, a closed list in fixed order (feature `op_id` is a position in it; new kinds go to the end)."""


@dataclass(frozen=True)
class Gemm:
    """The multiply-accumulate work of an op: `groups` products [rows, reduction] x [reduction, cols].

    A convolution has rows = output pixels x batch, cols = output channels a group, reduction = input channels
    a group x kernel area.
    """

    groups: int
    rows: int
    cols: int
    reduction: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the op."""
        return self.groups * self.rows * self.cols * self.reduction


@dataclass(frozen=True)
class Edge:
    """An op reads `read_bytes` of the activation of the op called `source`."""

    source: str
    read_bytes: int


@dataclass(frozen=True)
class Op:
    """One node. All sizes in bytes at the workload's element widths, all dimensions in elements.

    Attributes:
        name: unique in the workload, not empty, printable.
        kind: one of `workloads.workload.KINDS` (`other` where none fits).
        inputs: edges from earlier ops; empty for an op that reads only from outside.
        ifm, ofm: (x, y, z) of the main input and output feature map, of one sample.
        output_bytes: bytes of all outputs together, the whole batch: the size of the activation.
        external_bytes: bytes read from outside the network (host memory) an inference.
        weight_bytes: bytes of parameters held; 0 means that the weight decision is dead.
        weight_read_bytes: bytes of parameters read in a step.
        steps: how often an inference reads them, one after another: recurrent ops and loops work in steps, each of
            which reads the weight from where it lies. All other fields are of all steps together.
        parameters: number of parameters (counts, not bytes).
        gemm: multiply-accumulate work, or None.
        vector_ops: element operations for the vector unit (fused tails included).
        kernel, stride, pad, dilation, groups: window of a convolution or pooling, 0 where they have no meaning.
        batch: input batch size.
        is_output: the activation is a result of the network (handed to the host).
        latency_s: compute time measured on the target, in seconds, which replaces the computed one; None where unknown.
        joined: names of further nodes of the model's file that run in this op.
    """

    name: str
    kind: str
    inputs: tuple[Edge, ...]
    ifm: Shape3
    ofm: Shape3
    output_bytes: int
    external_bytes: int = 0
    weight_bytes: int = 0
    weight_read_bytes: int = 0
    parameters: int = 0
    gemm: Gemm | None = None
    vector_ops: int = 0
    kernel: tuple[int, int] = (0, 0)
    stride: int = 0
    pad: int = 0
    dilation: int = 0
    groups: int = 0
    batch: int = 1
    is_output: bool = False
    latency_s: float | None = None
    joined: tuple[str, ...] = ()
    steps: int = 1

    @property
    def weight_moved_bytes(self) -> int:
        """Bytes of parameters read an inference."""
        return self.steps * self.weight_read_bytes


@dataclass(frozen=True)
class ElementBytes:
    """Bytes an element in which the sizes of a workload are stated (int8: 1.0)."""

    weight: float = 1.0
    activation: float = 1.0


@dataclass(frozen=True)
class Workload:
    """A network: its ops in execution order (every edge points to an earlier op).

    `remarks` says what of it was guessed or not counted, a line each, where it was imported.

    Construction does not check anything; `workloads.workload.check(workload)` does, and every loader calls it.
    """

    name: str
    ops: tuple[Op, ...]
    element_bytes: ElementBytes = field(default_factory=ElementBytes)
    source: str = ""
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ops)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    @property
    def parameters(self) -> int:
        """Number of parameters of the whole network."""
        return sum(op.parameters for op in self.ops)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one inference."""
        return sum(op.gemm.macs for op in self.ops if op.gemm is not None)

    def index(self) -> dict[str, int]:
        """Position of each op by name."""
        return {op.name: i for i, op in enumerate(self.ops)}

    def edges(self) -> list[tuple[int, int, int]]:
        """(producer, consumer, bytes read), in execution order of the consumer."""
        at = self.index()
        return [(at[e.source], i, e.read_bytes) for i, op in enumerate(self.ops) for e in op.inputs]


MAX_OPS = 100_000
"""Ops in a workload."""
MAX_EDGES = 1_000_000
"""Edges in a workload."""
MAX_COUNT = 2**50
"""Exclusive bound of a number of bytes, parameters or operations of one op (a pebibyte)."""
MAX_DIMENSION = 2**31
"""Exclusive bound of one axis of a feature map and of a convolution attribute."""
MAX_TOTAL = 2**60
"""Exclusive bound of sums over the ops, so that int64 arithmetic never overflows."""

_KINDS = frozenset(KINDS)
_COUNTS = ("output_bytes", "external_bytes", "weight_bytes", "weight_read_bytes", "parameters", "vector_ops")
_ATTRIBUTES = ("stride", "pad", "dilation", "groups", "batch", "steps")
_VECTORS = (("ifm", 3), ("ofm", 3), ("kernel", 2))
_GEMM = ("groups", "rows", "cols", "reduction")


def check(workload: Workload) -> Workload:
    """Return the workload if it is sound.

    Raises:
        InputError: naming the workload, the field and the op, what was expected and what was found.
    """
    where = f"workload {workload.name!r}"
    try:
        _check_header(workload)
        positions = _positions(workload)
        for i, op in enumerate(workload.ops):
            _check_op(op, f"ops[{i}]")
        _check_edges(workload, positions)
        _check_totals(workload)
    except Fault as fault:
        raise InputError(f"{where}: {fault}") from None
    return workload


def last_consumer(workload: Workload) -> NDArray[np.int64]:
    """int64 [N]: position of the last op that reads op i (closed: i's activation is alive while it runs).

    Where nobody reads op i it is i itself. Expects a checked workload.
    """
    last = np.arange(len(workload), dtype=np.int64)
    for producer, consumer, _ in workload.edges():
        last[producer] = max(last[producer], consumer)
    return last


def _integer(value: object, field: str, low: int, high: int) -> None:
    """Half-open: low <= value < high."""
    if type(value) is not int or not low <= value < high:
        raise wrong(field, f"an integer from {low} to {high - 1}", value)


def _text(value: object, field: str) -> None:
    if not is_name(value):
        raise wrong(field, "a non-empty printable name", value)


def _check_header(workload: Workload) -> None:
    if not is_file_name(workload.name):
        raise wrong("name", FILE_NAME, workload.name)
    if not encodes(workload.source):
        raise wrong("source", "text", workload.source)
    for i, remark in enumerate(workload.remarks):
        _text(remark, f"remarks[{i}]")
    for kind in ("weight", "activation"):
        width = getattr(workload.element_bytes, kind)
        if not _is_positive(width) or not 1 / 64 <= width <= 64:
            raise wrong(f"element_bytes.{kind}", "a number of bytes from 1/64 to 64", width)
    if not workload.ops:
        raise wrong("ops", "at least one op", "none")
    if len(workload.ops) > MAX_OPS:
        raise wrong("ops", f"at most {MAX_OPS} ops", len(workload.ops))


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and value > 0 and math.isfinite(value)


def _positions(workload: Workload) -> dict[str, int]:
    at: dict[str, int] = {}
    for i, op in enumerate(workload.ops):
        _text(op.name, f"ops[{i}].name")
        if op.name in at:
            raise Fault(f"ops[{i}].name: expected a new name, found {op.name!r} of ops[{at[op.name]}]")
        at[op.name] = i
    return at


def _check_op(op: Op, field: str) -> None:
    field = f"{field} ({short(op.name)})"
    if op.kind not in _KINDS:
        raise wrong(f"{field}.kind", f"one of {', '.join(KINDS)}", op.kind)
    for attribute in _COUNTS:
        _integer(getattr(op, attribute), f"{field}.{attribute}", 0, MAX_COUNT)
    if op.weight_read_bytes > op.weight_bytes:
        expected = f"at most weight_bytes = {op.weight_bytes}"
        raise wrong(f"{field}.weight_read_bytes", expected, op.weight_read_bytes)
    for attribute, length in _VECTORS:
        value = getattr(op, attribute)
        if type(value) is not tuple or len(value) != length:
            raise wrong(f"{field}.{attribute}", f"{length} integers", value)
        for axis, size in enumerate(value):
            _integer(size, f"{field}.{attribute}[{axis}]", 0, MAX_DIMENSION)
    for attribute in _ATTRIBUTES:
        least = 1 if attribute in ("batch", "steps") else 0
        _integer(getattr(op, attribute), f"{field}.{attribute}", least, MAX_DIMENSION)
    if op.gemm is not None:
        for attribute in _GEMM:
            _integer(getattr(op.gemm, attribute), f"{field}.gemm.{attribute}", 1, MAX_COUNT)
        _integer(op.gemm.macs, f"{field}.gemm (multiply-accumulates)", 1, MAX_TOTAL)
    if op.latency_s is not None and not (_is_positive(op.latency_s) and op.latency_s <= 1000):
        raise wrong(f"{field}.latency_s", "a number of seconds > 0, at most 1000", op.latency_s)
    if type(op.is_output) is not bool:
        raise wrong(f"{field}.is_output", "true or false", op.is_output)


def _check_edges(workload: Workload, positions: dict[str, int]) -> None:
    if sum(len(op.inputs) for op in workload.ops) > MAX_EDGES:
        raise wrong("ops", f"at most {MAX_EDGES} edges", sum(len(op.inputs) for op in workload.ops))
    for i, op in enumerate(workload.ops):
        seen: set[str] = set()
        for j, edge in enumerate(op.inputs):
            field = f"ops[{i}] ({short(op.name)}).inputs[{j}]"
            producer = positions.get(edge.source)
            if producer is None:
                raise wrong(f"{field}.source", "the name of an earlier op", edge.source)
            if producer >= i:
                raise Fault(
                    f"{field}.source: cycle or wrong order: expected an earlier op, found {edge.source!r} at "
                    f"ops[{producer}], read by {op.name!r} at ops[{i}]"
                )
            if edge.source in seen:
                raise wrong(f"{field}.source", "one edge from each op", f"{edge.source} twice")
            seen.add(edge.source)
            held = workload.ops[producer].output_bytes
            if type(edge.read_bytes) is not int or not 0 <= edge.read_bytes <= held:
                expected = f"0 to {held} (output_bytes of {edge.source!r})"
                raise wrong(f"{field}.read_bytes", expected, edge.read_bytes)


def _check_totals(workload: Workload) -> None:
    for name, total in _totals(workload):
        if total >= MAX_TOTAL:
            raise wrong("ops", f"{name} below {MAX_TOTAL} in total", total)


def _totals(workload: Workload) -> Iterator[tuple[str, int]]:
    for attribute in (*_COUNTS, "weight_moved_bytes"):
        yield attribute, sum(getattr(op, attribute) for op in workload.ops)
    yield "inputs.read_bytes", sum(edge.read_bytes for op in workload.ops for edge in op.inputs)
    yield "multiply-accumulates", workload.macs
