"""A neural network as the list of its ops in execution order.

One `Op` owns two tensors that a chip must place: its *weight* (parameters, kept from one inference to the
next) and its *activation* (its output, alive from the op itself to its last consumer).

Rule for several outputs: an op's outputs are placed together as one activation whose bytes are their sum;
each edge states the bytes its consumer reads, so that reading one of the outputs costs only that one.

Sizes are bytes at the workload's own element widths (`ElementBytes`); a chip that computes in other widths
rescales them. Weight bytes *held* (what capacity pays) and *read* in one inference (what bandwidth pays) are
kept apart: an embedding holds its table and reads the rows it gathers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

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
        weight_read_bytes: bytes of parameters read an inference.
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


@dataclass(frozen=True)
class ElementBytes:
    """Bytes an element in which the sizes of a workload are stated (int8: 1.0)."""

    weight: float = 1.0
    activation: float = 1.0


@dataclass(frozen=True)
class Workload:
    """A network: its ops in execution order (every edge points to an earlier op).

    `remarks` says what of it was guessed or not counted, a line each, where it was imported.

    Construction does not check anything; `workloads.validate.check(workload)` does, and every loader calls it.
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
