"""A computation followed in schedule order: which values its steps read and write, views looked through.

A value is an array in memory. Scalars and empty arrays are none: a chip keeps scalars beside its memories, and
thousands of four-byte buffers would be decisions without consequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from workloads.importers.hlo.attributes import numbers, operand
from workloads.importers.hlo.flops import VIEWS
from workloads.importers.hlo.parse import Computation, Node
from workloads.importers.hlo.scan import Fault
from workloads.importers.hlo.shapes import Array, Shape, leaves

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
