"""A program of a workload: its ops as instructions, forward, or forward and backward.

A forward instruction reads the activations of its edges, its weight and what comes from outside, and writes its
activation; it costs two operations per multiply-accumulate and one a vector operation. Sizes are the workload's own.
An op that only holds a weight is no instruction: what nothing reads stays where the program has it from.

Backward, from the last op to the first:

- a loss for each result gives its gradient;
- the contributions of several readers to an activation's gradient are added up;
- OP.grad_input gives the gradient of each activation that an op reads. It reads the gradient of the op's own, its
  weight, and what the derivative depends on: the other factor of a product of activations, the inputs of an op that
  is no product, the op's own activation where a tail is fused into it. Ops that only move data read none of these;
- OP.grad_weight gives the gradient of a weight from inputs and gradient: as many bytes as the op reads of the weight,
  so that an embedding's has the rows that were gathered;
- OP.update replaces the weight (gradient descent: two operations a parameter), in place.

A name of these that an op of the workload has already gets a number behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workloads.programs.program import Program, ProgramBuilder
from workloads.workload import Op, Workload

_MOVES = frozenset(("concat", "split", "transpose", "reshape", "upsample", "embedding"))
"""Kinds of op whose derivative depends on no activation."""


def program_of(workload: Workload, backward: bool = False, in_place: bool = True) -> Program:
    """The program of a checked workload. `in_place` lets an updated weight share its place with the old one (an alias
    group an update); otherwise it is a tensor of its own.

    Raises:
        InputError: sums out of range.
    """
    step = _Step(workload)
    for i, op in enumerate(workload.ops):
        step.forward(i, op)
    if backward:
        step.losses()
        for i in reversed(range(len(workload))):
            step.backward(i, workload.ops[i], in_place)
    else:
        for i in step.results():
            step.builder.result(step.activations[i])
    name = f"{workload.name}_backward" if backward else workload.name
    return step.builder.build(name, workload.source, workload.remarks)


@dataclass
class _Step:
    """One step of inference or training as it is put together."""

    workload: Workload
    builder: ProgramBuilder = field(default_factory=ProgramBuilder)
    activations: list[int] = field(default_factory=list)
    """A tensor an op."""
    weights: dict[int, int] = field(default_factory=dict)
    contributions: dict[int, list[int]] = field(default_factory=dict)
    """By op: tensors whose sum is the gradient of its activation."""
    learns: list[bool] = field(default_factory=list)
    """By op: whether a weight lies before its activation, so that its gradient is wanted."""

    def __post_init__(self) -> None:
        self.at = self.workload.index()
        self.tensor_names = {op.name for op in self.workload.ops}
        self.instruction_names = set(self.tensor_names)

    def tensor(self, name: str, size_bytes: int) -> int:
        """A new tensor beside the ops' own activations."""
        return self.builder.tensor(_unique(name, self.tensor_names), size_bytes)

    def named(self, name: str) -> str:
        """The name of a new instruction beside the ops' own."""
        return _unique(name, self.instruction_names)

    def results(self) -> list[int]:
        """Positions of the ops whose activations are results: those marked, or the last one where none is."""
        found = [i for i, op in enumerate(self.workload.ops) if op.is_output]
        return found or [i for i, op in enumerate(self.workload.ops) if not _only_holds(op)][-1:]

    def forward(self, i: int, op: Op) -> None:
        if _only_holds(op):
            self.activations.append(-1)
            self.learns.append(False)
            return
        reads = {self.activations[self.at[e.source]]: e.read_bytes for e in op.inputs}
        if op.weight_bytes:
            self.weights[i] = self.tensor(f"{op.name}.weight", op.weight_bytes)
            reads[self.weights[i]] = op.weight_moved_bytes
        if op.external_bytes:
            reads[self.tensor(f"{op.name}.outside", op.external_bytes)] = op.external_bytes
        self.activations.append(self.builder.tensor(op.name, op.output_bytes))
        self.learns.append(bool(op.weight_bytes) or any(self.learns[self.at[e.source]] for e in op.inputs))
        flops = 2 * _macs(op) + op.vector_ops
        self.builder.instruction(op.name, op.kind, flops, reads, {self.activations[i]: op.output_bytes})

    def losses(self) -> None:
        for i in self.results():
            op = self.workload.ops[i]
            size = op.output_bytes
            gradient = self.tensor(f"{op.name}.loss.gradient", size)
            self.builder.instruction(
                self.named(f"{op.name}.loss"),
                "loss",
                int(size / self.workload.element_bytes.activation),
                {self.activations[i]: size},
                {gradient: size},
            )
            self.contributions[i] = [gradient]

    def backward(self, i: int, op: Op, in_place: bool) -> None:
        if i not in self.contributions or not self.learns[i]:
            return
        gradient = self._sum(i, op)
        wanted = [e for e in op.inputs if self.learns[self.at[e.source]]]
        if wanted:
            self._grad_input(i, op, gradient)
        if i in self.weights:
            self._grad_weight(i, op, gradient, in_place)

    def _sum(self, i: int, op: Op) -> int:
        parts = self.contributions[i]
        if len(parts) == 1:
            return parts[0]
        total = self.tensor(f"{op.name}.gradient", op.output_bytes)
        elements = int(op.output_bytes / self.workload.element_bytes.activation)
        reads = dict.fromkeys(parts, op.output_bytes)
        writes = {total: op.output_bytes}
        self.builder.instruction(
            self.named(f"{op.name}.sum"), "add", elements * (len(parts) - 1), reads, writes
        )
        return total

    def _grad_input(self, i: int, op: Op, gradient: int) -> None:
        reads = {gradient: op.output_bytes}
        if i in self.weights:
            reads[self.weights[i]] = op.weight_moved_bytes
        product = op.gemm is not None
        if op.kind not in _MOVES and not (product and i in self.weights):
            reads.update({self.activations[self.at[e.source]]: e.read_bytes for e in op.inputs})
        if product and op.vector_ops:
            reads[self.activations[i]] = op.output_bytes
        writes = {}
        for edge in op.inputs:
            source = self.at[edge.source]
            if self.learns[source]:
                size = self.workload.ops[source].output_bytes
                part = self.tensor(f"{op.name}.gradient_of.{edge.source}", size)
                self.contributions.setdefault(source, []).append(part)
                writes[part] = edge.read_bytes
        factors = len(op.inputs) if product and i not in self.weights else 1
        flops = 2 * _macs(op) * factors + op.vector_ops
        self.builder.instruction(self.named(f"{op.name}.grad_input"), op.kind, flops, reads, writes)

    def _grad_weight(self, i: int, op: Op, gradient: int, in_place: bool) -> None:
        build, size = self.builder, op.weight_read_bytes
        reads = {self.activations[self.at[e.source]]: e.read_bytes for e in op.inputs}
        found = self.tensor(f"{op.name}.weight.gradient", size)
        reads[gradient] = op.output_bytes
        build.instruction(self.named(f"{op.name}.grad_weight"), op.kind, 2 * _macs(op), reads, {found: size})
        new = self.tensor(f"{op.name}.weight.new", op.weight_bytes)
        written = size if in_place else op.weight_bytes
        build.instruction(
            self.named(f"{op.name}.update"),
            "update",
            2 * op.parameters,
            {found: size, self.weights[i]: written},
            {new: written},
            in_place=[(self.weights[i], new)] if in_place else (),
        )
        build.result(new)


def _only_holds(op: Op) -> bool:
    """Whether an op reads nothing and makes nothing: nobody reads the weight that it has."""
    moved = op.output_bytes + op.external_bytes + op.weight_read_bytes
    return not (moved or op.inputs or op.gemm or op.vector_ops or op.is_output)


def _unique(name: str, taken: set[str]) -> str:
    """The name, with a number behind it where another has it already; it is taken then."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def _macs(op: Op) -> int:
    return op.gemm.macs if op.gemm is not None else 0
