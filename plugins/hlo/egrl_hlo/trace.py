"""A computation followed in schedule order: which values its steps read and write, views looked through.

A value is an array in memory. Scalars and empty arrays are none: a chip keeps scalars beside its memories, and
thousands of four-byte buffers would be decisions without consequence. It may lie in several *places*: where it was
written, and where a move of the compiler took it (`egrl_hlo/moves.py`), which is no step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from egrl_hlo.flops import VIEWS
from egrl_hlo.layout import VMEM
from egrl_hlo.moves import ALLOCATES, PASSES, Moves, target
from egrl_hlo.parse import Computation, Node, cycles_of, numbers, operand, scratch_of
from egrl_hlo.scan import Array, Fault, Shape, leaves

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
        cycles, scratch_bytes: what the compiler estimates of what lies inside it, and takes of fast memory for it.
    """

    flops: int
    reads: dict[tuple[int, int], int]
    writes: dict[int, int]
    slow_bytes: int = 0
    in_place: tuple[tuple[int, int, int], ...] = ()
    passes: dict[int, tuple[int, int]] = field(default_factory=dict)
    cycles: int = 0
    scratch_bytes: int = 0


@dataclass
class Step:
    """An instruction that does something, in values; `at` says in which place it finds or leaves each of them."""

    node: Node
    flops: int
    slow_bytes: int
    reads: dict[int, int]
    writes: dict[int, int]
    in_place: list[tuple[int, int]]
    at: dict[int, int] = field(default_factory=dict)
    cycles: int = 0
    scratch_bytes: int = 0


@dataclass
class Place:
    """Where a value lies for a while.

    Attributes:
        value, space: the value and the number of the memory.
        source: the place that it was copied from; NONE: the value was written there.
        begin, ready: steps before its copy begins, and before it is waited for.
    """

    value: int
    space: int
    source: int = NONE
    begin: int = 0
    ready: int = 0


@dataclass
class Trace:
    """Values by number: name, size in bytes, and what they are. `last` is the last step that needs a value."""

    names: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    parameters: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Number of the parameter and leaf of it, by value."""
    constants: set[int] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    """A value, or NONE, for each leaf of the root."""
    last: dict[int, int] = field(default_factory=dict)

    def place(self, name: str, shape: Array) -> int:
        """The place of a new value; NONE for a scalar."""
        if not shape.dims or not shape.size_bytes:
            return NONE
        self.names.append(name)
        self.sizes.append(shape.size_bytes)
        self.places.append(Place(len(self.names) - 1, shape.layout.space))
        return len(self.places) - 1

    def new(self, name: str, shape: Shape) -> list[int]:
        """The places of new values, one for each leaf of a shape."""
        found = leaves(shape)
        single = isinstance(shape, Array)
        return [self.place(name if single else f"{name}#{i}", leaf) for i, leaf in enumerate(found)]

    def value(self, place: int) -> int:
        """What lies in a place; NONE in none."""
        return NONE if place == NONE else self.places[place].value


Pricer = Callable[[Node, Computation], Price]
Owned = Callable[[int, int], bool]


def trace(computation: Computation, price: Pricer, owned: Owned, moves: Moves) -> Trace:
    """Follow a computation. `owned` says of (parameter, leaf) whether its memory may be written.

    Raises:
        Fault: shapes and operands contradict each other.
    """
    follower = _Follower(computation, price, moves)
    for node in computation.nodes:
        follower.follow(node)
    found = follower.trace
    found.results = [found.value(place) for place in follower.at[computation.root.name]]
    _settle(found, owned)
    return found


class _Follower:
    def __init__(self, computation: Computation, price: Pricer, moves: Moves) -> None:
        self.computation = computation
        self.price = price
        self.moves = moves
        self.trace = Trace()
        self.at: dict[str, list[int]] = {}
        """By name of a node: a place, or NONE, for each leaf of its shape; of a start the leaves of its end."""
        self.starts, self.ends = _asynchronous(computation)
        self.numbers = {node.name: i for i, node in enumerate(computation.parameters)}

    def follow(self, node: Node) -> None:
        if self._follow_move(node):
            return
        if node.opcode in VIEWS or target(node) in PASSES:
            self.at[node.name] = self._view(node)
        elif target(node) in ALLOCATES:
            self.at[node.name] = [NONE] * len(leaves(node.shape))
        elif node.name in self.starts and node.name not in self.ends:
            start = self.computation.by_name[self.starts[node.name]]
            self.at[node.name] = self.at[start.name]
            for place in (place for name in start.operands for place in self.at[name]):
                self._need(self.trace.value(place), len(self.trace.steps) - 1)
        else:
            self._step(node)

    def _follow_move(self, node: Node) -> bool:
        """Whether a node is a move of the compiler, which has been followed then."""
        moves, now = self.moves, len(self.trace.steps)
        if node.name in moves.begun:
            self.at[node.name] = self._moved(moves.begun[node.name], self.ends[node.name], now)
        elif node.name in moves.at_once:
            self.at[node.name] = self._moved(moves.at_once[node.name], node, now)
        elif node.name in moves.ended:
            self.at[node.name] = self.at[moves.ended[node.name]]
            self._arrive(self.at[node.name], now)
        elif node.name in moves.joined:
            # One copy, from where its first slice begins to where the last one is waited for.
            parts = [self.at[start][0] for start in moves.joined[node.name]]
            self.at[node.name] = [parts[0]]
            if parts[0] != NONE:
                self.trace.places[parts[0]].begin = min(self.trace.places[part].begin for part in parts)
            self._arrive(parts[:1], now)
        else:
            return False
        return True

    def _moved(self, source: str, to: Node, now: int) -> list[int]:
        (place,) = self.at[source]
        if place == NONE:
            return [NONE]
        (shape,) = leaves(to.shape)
        self.trace.places.append(Place(self.trace.places[place].value, shape.layout.space, place, now, now))
        return [len(self.trace.places) - 1]

    def _arrive(self, places: list[int], now: int) -> None:
        for place in places:
            if place != NONE:
                self.trace.places[place].ready = now

    def _view(self, node: Node) -> list[int]:
        if node.opcode == "parameter":
            found = self.trace.new(node.name, node.shape)
            number = self.numbers[node.name]
            self.trace.parameters.update(
                {self.trace.value(p): (number, leaf) for leaf, p in enumerate(found) if p != NONE}
            )
            return found
        if node.opcode == "constant":
            found = self.trace.new(node.name, node.shape)
            self.trace.constants.update(self.trace.value(p) for p in found if p != NONE)
            return found
        if node.opcode == "tuple":
            found = [place for name in node.operands for place in self.at[name]]
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
        new = trace.new(node.name, node.shape)
        for leaf, (position, source) in price.passes.items():
            new[leaf] = _leaf(node, old, position, source)
        found: dict[int, int] = {}
        reads: dict[int, int] = {}
        for (position, leaf), size in sorted(price.reads.items()):
            place = _leaf(node, old, position, leaf)
            value = trace.value(place)
            reads[value] = reads.get(value, 0) + size
            # One that is read from two places counts as read from the slower one.
            if place != NONE and (value not in found or trace.places[place].space != VMEM):
                found[value] = place
        reads.pop(NONE, None)
        writes = {
            trace.value(new[leaf]): size
            for leaf, size in sorted(price.writes.items())
            if leaf not in price.passes
        }
        writes.pop(NONE, None)
        found |= {trace.value(place): place for leaf, place in enumerate(new) if leaf not in price.passes}
        pairs = [
            (trace.value(_leaf(node, old, p, leaf)), trace.value(new[out])) for p, leaf, out in price.in_place
        ]
        for value in reads:
            self._need(value, len(trace.steps))
        kept = [pair for pair in pairs if NONE not in pair]
        cycles, scratch = price.cycles or cycles_of(node), max(price.scratch_bytes, scratch_of(node))
        trace.steps.append(
            Step(node, price.flops, price.slow_bytes, reads, writes, kept, found, cycles, scratch)
        )
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
