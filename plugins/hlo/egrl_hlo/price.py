"""What one instruction of HLO costs: operations and bytes of each operand and result.

Traffic of an operand is what the result needs of it. Within a fusion needs are followed from the result backwards
through every instruction, so that an operand which is only sliced or gathered from is read in the slices' bytes (at
most once in full), wherever in the fusion that happens.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from egrl_hlo import moves
from egrl_hlo.bodies import copied, repeated, total, trips_of
from egrl_hlo.flops import ELEMENTWISE, flops, like_product
from egrl_hlo.parse import Computation, Module, Node, array, names, one_name, operand, path_of
from egrl_hlo.scan import Array, Fault, leaves
from egrl_hlo.trace import Price, Trace, trace
from workloads.importers.uncounted import Uncounted

_PRODUCT = re.compile(r"matmul|gemm|conv|dot", re.IGNORECASE)
MAX_DEPTH = 60
"""Computations that call each other, at most."""


class Pricer:
    """Prices the instructions of a module. `unknown` has the instructions whose opcodes are not known, `guessed` names
    the loops whose number of trips is not stated."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.unknown: list[Uncounted] = []
        self.guessed: list[str] = []
        self._fusions: dict[str, Price] = {}
        self._traces: dict[str, Trace] = {}
        self._applied: dict[str, int] = {}
        self._calling: list[str] = []

    def price(self, node: Node, computation: Computation) -> Price:
        """The price of a node of a computation. Raises Fault where the module contradicts itself."""
        operands = computation.operands(node)
        if node.opcode == "fusion":
            return self._fusion(node, operands)
        if node.opcode == "while":
            return self._while(node, computation)
        if node.opcode in ("call", "async-start"):
            return total(self._body(_called(node), operands))
        if node.opcode == "conditional":
            return self._conditional(node, operands)
        return self._single(node, operands)

    def _computation(self, name: str) -> Computation:
        found = self.module.computations.get(name)
        if found is None:
            raise Fault(f"expected a computation called {name!r}, found none")
        if name in self._calling or len(self._calling) > MAX_DEPTH:
            raise Fault(
                f"expected computations that call others, found {name!r} calling itself, or too many levels"
            )
        return found

    @contextmanager
    def _inside(self, name: str) -> Iterator[Computation]:
        """A called computation, while it is looked at."""
        found = self._computation(name)
        self._calling.append(name)
        yield found
        self._calling.pop()

    def _count(self, name: str) -> int:
        """Operations of a called computation."""
        with self._inside(name) as computation:
            return sum(self._flops(node, computation.operands(node)) for node in computation.nodes)

    def _body(self, name: str, operands: list[Node]) -> Trace:
        """The trace of a called computation, whose parameters are to be of the operands' shapes."""
        _match(self._computation(name), operands)
        if name not in self._traces:
            with self._inside(name) as computation:
                found = moves.find(computation, self.module)
                self._traces[name] = trace(computation, self.price, lambda number, leaf: True, found)
        return self._traces[name]

    def applied(self, node: Node) -> int:
        """Operations that the computation a node applies takes for an element; at least one."""
        found = names(node, "to_apply")
        if len(found) != 1:
            return 1
        if found[0] not in self._applied:
            self._applied[found[0]] = max(self._count(found[0]), 1)
        return self._applied[found[0]]

    def _flops(self, node: Node, operands: list[Node]) -> int:
        if node.opcode in ("fusion", "call"):
            return self._count(_called(node))
        if node.opcode == "custom-call":
            target = moves.target(node)
            if target in (*moves.MOVING, *moves.ALLOCATES, *moves.PASSES):
                return 0
            if target in moves.SELECTING:
                return array(operand(node, operands, 0)).elements
            if _PRODUCT.search(target) and len(operands) >= 2:
                return like_product(node, operands)
            self.unknown.append(_stranger(node, operands, f"custom-call {target}".strip()))
            return array(node).elements
        known = flops(node, operands, self.applied)
        if known is None:
            self.unknown.append(_stranger(node, operands, node.opcode))
            return array(node).elements
        return known

    def _single(self, node: Node, operands: list[Node]) -> Price:
        out = array(node).elements
        in_place: list[tuple[int, int, int]] = []
        reads: dict[tuple[int, int], int] = {}
        for k, each in enumerate(operands):
            for leaf, shape in enumerate(leaves(each.shape)):
                reads[k, leaf] = size_of(shape, needed(node, out, out, k, shape, operands))
        writes = {leaf: shape.size_bytes for leaf, shape in enumerate(leaves(node.shape))}
        for leaf, (old, size) in enumerate(updates(node, operands)):
            in_place.append((old, 0, leaf))
            reads[old, 0] = size if node.opcode == "scatter" else 0
            writes[leaf] = size
        in_place += stated_aliases(node, operands)
        return Price(self._flops(node, operands), reads, writes, 0, tuple(dict.fromkeys(in_place)))

    def _fusion(self, node: Node, operands: list[Node]) -> Price:
        name = one_name(node, "calls")
        _match(self._computation(name), operands)
        if name not in self._fusions:
            with self._inside(name) as computation:
                self._fusions[name] = self._price_fusion(computation)
        found = self._fusions[name]
        return replace(found, in_place=tuple(stated_aliases(node, operands)) or found.in_place)

    def _price_fusion(self, computation: Computation) -> Price:
        by_name, root = computation.by_name, computation.root
        ends = computation.operands(root) if root.opcode == "tuple" else [root]
        needs = {end.name: array(end).elements for end in ends}
        writes = {leaf: shape.size_bytes for leaf, shape in enumerate(leaves(root.shape))}
        parameters = {node.name: i for i, node in enumerate(computation.parameters)}
        in_place: list[tuple[int, int, int]] = []
        updated: dict[str, int] = {}
        for leaf, end in enumerate(ends):
            update = through_bitcasts(end, by_name)
            sources = computation.operands(update)
            for old, size in updates(update, sources)[:1]:
                target = through_bitcasts(sources[old], by_name)
                if target.name in parameters and len(ends) == len(writes):
                    in_place.append((parameters[target.name], 0, leaf))
                    updated[update.name] = size if update.opcode == "scatter" else 0
                    writes[leaf] = size
        count = slow = 0
        more: Counter[tuple[int, int]] = Counter()
        for node in reversed(computation.nodes):
            need = needs.get(node.name, 0)
            if not need or node.opcode in ("parameter", "constant"):
                continue
            sources = computation.operands(node)
            out, inner = array(node).elements, None
            if node.opcode in ("fusion", "call", "while", "conditional", "async-start"):
                inner = self.price(node, computation)
                count, slow = count + inner.flops, slow + inner.slow_bytes
            else:
                count += -(-self._flops(node, sources) * need // max(out, 1))
            for k, source in enumerate(sources):
                shape = array(source)
                wanted = needed(node, need, out, k, shape, sources)
                if inner is not None and shape.size_bytes:
                    # A fusion within this one reads no more than it does alone.
                    read = inner.reads.get((k, 0), 0)
                    wanted = min(wanted, -(-shape.elements * read // shape.size_bytes))
                if k == 0 and node.name in updated:
                    at = parameters[through_bitcasts(source, by_name).name]
                    more[at, 0] += updated[node.name]
                    continue
                needs[source.name] = min(shape.elements, needs.get(source.name, 0) + wanted)
        reads = {}
        for name, number in parameters.items():
            for leaf, shape in enumerate(leaves(by_name[name].shape)):
                size = size_of(shape, min(shape.elements, needs.get(name, 0))) + more[number, leaf]
                reads[number, leaf] = min(size, shape.size_bytes)
        return Price(count, reads, writes, slow, tuple(in_place))

    def _while(self, node: Node, computation: Computation) -> Price:
        operands = computation.operands(node)
        state = leaves(node.shape)
        body = self._body(one_name(node, "body"), operands)
        condition = self._body(one_name(node, "condition"), operands)
        if len(body.results) != len(state):
            raise Fault(f"{node.name}: expected a body that returns the loop's state, found other arrays")
        trips = trips_of(node, computation, self.module)
        if trips is None:
            self.guessed.append(node.name)
            trips = 1

        return repeated(total(body), total(condition), trips, len(state))

    def _conditional(self, node: Node, operands: list[Node]) -> Price:
        branches = names(node, "branch_computations")
        if not branches:
            branches = [one_name(node, "true_computation"), one_name(node, "false_computation")]
        if len(operands) != len(branches) + 1:
            raise Fault(
                f"{node.name}: expected an operand a branch and one that chooses, found {len(operands)}"
            )
        sizes = [shape.size_bytes for shape in leaves(node.shape)]
        prices = []
        for k, name in enumerate(branches):
            body = self._body(name, [operands[k + 1]])
            if len(body.results) != len(sizes):
                raise Fault(
                    f"{node.name}: expected branches that return its shape, found {name!r} with another"
                )
            prices.append(copied(total(body, k + 1), sizes))
        dearest = max(
            prices, key=lambda p: (sum(p.reads.values()) + sum(p.writes.values()) + p.slow_bytes, p.flops)
        )
        reads = {(k, leaf): 0 for k, each in enumerate(operands) for leaf in range(len(leaves(each.shape)))}
        return replace(dearest, reads={**reads, **dearest.reads})


def _called(node: Node) -> str:
    """The name of the computation that a fusion or a call runs."""
    return one_name(node, "to_apply" if "to_apply" in node.attributes else "calls")


def _stranger(node: Node, operands: list[Node], kind: str) -> Uncounted:
    """An instruction of unknown work, with what it reads and writes."""
    read = [shape for each in operands for shape in leaves(each.shape)]
    size = sum(shape.size_bytes for shape in (*read, *leaves(node.shape)))
    return Uncounted(kind, size, sum(sum(d > 1 for d in shape.dims) > 1 for shape in read) > 1)


def _match(computation: Computation, operands: list[Node]) -> None:
    """Refuse operands that differ from the parameters in number or in the number of their arrays."""
    wanted = [len(leaves(node.shape)) for node in computation.parameters]
    found = [len(leaves(node.shape)) for node in operands]
    if wanted != found:
        raise Fault(
            f"expected {len(wanted)} operands of {sum(wanted)} arrays for computation {computation.name!r}, found "
            f"{len(found)} of {sum(found)}"
        )


_FROM_FIRST = frozenset(("slice", "dynamic-slice", "pad", "broadcast", "gather"))
"""Their first operand is read as far as there are elements to fill from it."""
_SHARED = re.compile(r'\{"indices":\[([\d",\s]*)\]\}')
_ALIASING = re.compile(r"\{\s*([\d,\s]*)\}:\s*\(\s*(\d{1,6})\s*,\s*\{\s*([\d,\s]*)\}")


def size_of(shape: Array, elements: int) -> int:
    """Bytes of some of an array's elements, with their share of the holes."""
    return -(-elements * shape.size_bytes // shape.elements) if shape.elements else 0


def needed(node: Node, need: int, out: int, position: int, shape: Array, operands: list[Node]) -> int:
    """Elements of an operand that so many of the node's `out` elements need."""
    elements, opcode = shape.elements, node.opcode
    if position == 0 and opcode in _FROM_FIRST:
        return min(need, elements)
    if opcode in ELEMENTWISE or opcode in ("copy", "convert", "transpose", "reverse", "reshape"):
        return min(need, elements)
    if opcode in ("dot", "convolution"):
        return elements
    return min(elements, -(-elements * need // max(out, 1)))


def updates(node: Node, operands: list[Node]) -> list[tuple[int, int]]:
    """(operand that is updated, bytes of the update) for each result of an instruction that updates in place."""
    if node.opcode == "dynamic-update-slice":
        return [(0, array(operand(node, operands, 1)).size_bytes)]
    if node.opcode == "scatter" and len(operands) >= 3:
        count = len(operands) // 2
        return [(k, array(operands[count + 1 + k]).size_bytes) for k in range(count)]
    return []


def stated_aliases(node: Node, operands: list[Node]) -> list[tuple[int, int, int]]:
    """What `output_to_operand_aliasing` says, for results and operands of at most one level of tuples, and what the TPU
    compiler says in its `backend_config`: numbers of operands, and behind them of results, that share memory."""
    found = []
    for text in _SHARED.findall(node.attributes.get("backend_config", "")):
        shared = [int(number) for number in re.findall(r"\d{1,6}", text)]
        for old, new in itertools.product(shared, shared):
            leaf = new - len(operands)
            if (
                old < len(operands)
                and 0 <= leaf < len(leaves(node.shape))
                and len(leaves(operands[old].shape)) == 1
            ):
                found.append((old, 0, leaf))
    key = "output_to_operand_aliasing"
    for out, number, path in _ALIASING.findall(node.attributes.get(key, "")):
        leaf, source = ((*path_of(text, f"{node.name}: {key}"), 0)[0] for text in (out, path))
        position = int(number)
        if (
            position < len(operands)
            and leaf < len(leaves(node.shape))
            and source < len(leaves(operands[position].shape))
        ):
            found.append((position, source, leaf))
    return found


def through_bitcasts(node: Node, by_name: dict[str, Node]) -> Node:
    """The node that a chain of bitcasts begins with."""
    while node.opcode == "bitcast" and node.operands:
        node = by_name[node.operands[0]]
    return node
