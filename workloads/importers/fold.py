"""Folding: what moves no bytes in an inference is no op, but belongs to those that read it.

- Views (reshapes, broadcasts, transpositions of axes of size 1, casts to the same width) are their input in another
  shape. So are numbers that are scaled back (DequantizeLinear): who reads them reads the quantised ones. Only a result
  of the model is written as floats.
- Slices, splits and picks at fixed places are parts of their input: who reads them reads only the part.
- What is computed from constants alone is a constant: it is computed once, before the first inference. Rows looked up
  in a table at fixed places are not folded: the table is the parameter. Nor are products of matrices: a model that
  has them runs them.
- Nodes whose outputs nobody reads are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from workloads.importers.ir import Body, ModelGraph, Node, Shape, Tensor, all_nodes
from workloads.importers.vocabulary import (
    CASTS,
    CONVOLUTIONS,
    PARTS,
    PRODUCTS,
    QUANTISERS,
    RECURRENT,
    VIEWS,
    data_of,
)

_BROADCASTS = frozenset({"Expand", "Tile", "ConstantOfShape", "GatherElements"})

_REWRITTEN = VIEWS | CASTS | {"Transpose"}
"""What makes of a constant the same one, written otherwise."""


@dataclass(frozen=True)
class Part:
    """Reading a tensor means reading `elements` elements of `base`, that a node, the host or the file gives."""

    base: str
    elements: int


@dataclass(frozen=True)
class Folded:
    """What is left to be computed, and what each name of the file means in it."""

    graph: ModelGraph
    parts: Mapping[str, Part]

    def part(self, name: str) -> Part:
        """What reading the tensor called `name` means."""
        found = self.parts.get(name)
        return found if found is not None else Part(name, self.graph.tensors[name].elements)

    def is_constant(self, name: str) -> bool:
        """Whether the tensor is the same in every inference."""
        return self.graph.tensors[name].constant

    def shape_of(self, name: str) -> Shape:
        """The shape of a tensor."""
        return self.graph.tensors[name].shape or ()


def with_shapes(graph: ModelGraph) -> ModelGraph:
    """The graph with a shape for every tensor: where it is unknown, that of the largest input of its node that is no
    weight; a scalar where no input has one."""
    tensors = dict(graph.tensors)
    for node in all_nodes(graph.nodes):
        missing = [name for name in node.outputs if name and tensors[name].shape is None]
        if missing:
            given = [tensors[name] for name in data_of(node)]
            shapes: list[Shape] = [
                t.shape
                for t in given
                if t.shape is not None and (not t.constant or all(each.constant for each in given))
            ]
            largest = max(shapes, key=prod, default=())
            tensors |= {name: replace(tensors[name], shape=largest) for name in missing}
    unknown = {name: replace(each, shape=()) for name, each in tensors.items() if each.shape is None}
    return replace(graph, tensors=tensors | unknown)


def fold(graph: ModelGraph) -> Folded:
    """The graph without its views, parts, constant nodes and dead ends. Expects a shape for every tensor."""
    fold = _Fold(dict(graph.tensors), frozenset(graph.outputs))
    folded = Folded(replace(graph, nodes=tuple(fold.kept(graph.nodes)), tensors=fold.tensors), fold.parts)
    return replace(folded, graph=replace(folded.graph, nodes=_alive(folded.graph, fold.parts)))


class _Fold:
    """Nodes in, those that are left out; what the tensors and names of the others mean is kept here."""

    def __init__(self, tensors: dict[str, Tensor], results: frozenset[str]) -> None:
        self.tensors, self.results = tensors, results
        self.parts: dict[str, Part] = {}

    def kept(self, nodes: Iterable[Node]) -> list[Node]:
        """The nodes that compute or move something in an inference."""
        return [left for node in nodes if (left := self._left(node)) is not None]

    def _left(self, node: Node) -> Node | None:
        tensors, outputs = self.tensors, [name for name in node.outputs if name]
        if node.body is not None:
            return self._loop(node, node.body)
        if all(tensors[name].constant for name in outputs):
            return None
        if _is_computed_once(node, tensors):
            tensors |= {name: _compute(node, tensors[name], tensors) for name in outputs}
            if node.op in _REWRITTEN and node.input(0):
                base = self._part(node.inputs[0]).base
                self.parts |= {name: Part(base, tensors[name].elements) for name in outputs}
            return None
        written_back = node.op == "DequantizeLinear" and not self.results.isdisjoint(outputs)
        if written_back or not _is_view(node, tensors) or tensors[node.inputs[0]].constant:
            return node
        read = self._part(node.inputs[0])
        self.parts |= {name: Part(read.base, min(read.elements, tensors[name].elements)) for name in outputs}
        return None

    def _part(self, name: str) -> Part:
        return self.parts.get(name, Part(name, self.tensors[name].elements))

    def _loop(self, node: Node, body: Body) -> Node:
        """The loop, reading what its nodes read from outside and its results are."""
        nodes = self.kept(body.nodes)
        inside = {*body.inputs, *(name for each in nodes for name in each.outputs)}
        read = [*(name for each in nodes for name in data_of(each)), *body.outputs]
        outside = [name for name in read if self._part(name).base not in inside]
        inputs = dict.fromkeys((*node.inputs, *outside))
        return replace(node, inputs=tuple(inputs), body=replace(body, nodes=tuple(nodes)))


def _is_computed_once(node: Node, tensors: Mapping[str, Tensor]) -> bool:
    given = [tensors[name] for name in node.inputs if name]
    if not all(tensor.constant for tensor in given) or node.op.startswith("Random"):
        return False
    if node.op in CONVOLUTIONS | PRODUCTS | set(RECURRENT):
        return node.op == "MatMul" and any(len(tensor.shape or ()) < 2 for tensor in given[:2])
    if not given:
        return node.op in ("Constant", "ConstantOfShape")
    is_table = node.op == "Gather" and given[0].is_float and len(given[0].shape or ()) > 1
    return not is_table and node.op not in ("If", "Loop", "Scan", "Multinomial", "Bernoulli")


def _compute(node: Node, output: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
    """The constant that a node makes of constants."""
    first = tensors[node.inputs[0]] if node.inputs and node.inputs[0] else None
    if first is None:
        filled = node.op == "ConstantOfShape"
        return replace(
            output,
            constant=True,
            stored=1 if filled else None,
            learned=0 if filled else output.learned,
        )
    stored, width = None, output.element_bytes
    if node.op in _BROADCASTS:
        stored = 1 if node.op == "ConstantOfShape" else first.kept
    elif node.op in _REWRITTEN:
        stored = first.kept
    if node.op in CASTS:
        width = min(width, first.element_bytes)
    scales = tuple(name for name in node.inputs[1:] if name) if node.op in QUANTISERS else ()
    beside = tuple(dict.fromkeys((*first.beside, *scales))) if node.op in _REWRITTEN else ()
    read = [name for name in (node.inputs[:1] if node.op in QUANTISERS else node.inputs) if name]
    sources = {
        source: tensors[source].parameters for name in read for source in tensors[name].sources or [name]
    }
    learned = min(sum(sources.values()), sum(tensors[name].parameters for name in read))
    return replace(
        output,
        constant=True,
        stored=stored,
        element_bytes=width,
        beside=beside,
        learned=learned,
        sources=tuple(source for source, parameters in sources.items() if parameters),
    )


def _is_view(node: Node, tensors: Mapping[str, Tensor]) -> bool:
    if not node.input(0):
        return False
    if node.op in VIEWS or node.op in PARTS or node.op == "DequantizeLinear":
        return True
    source = tensors[node.inputs[0]]
    output = tensors[next(name for name in node.outputs if name)]
    if node.op == "Cast":
        return (source.element_bytes, source.is_float) == (output.element_bytes, output.is_float)
    if node.op == "Transpose":
        shape, order = (
            source.shape or (),
            node.integers("perm") or tuple(reversed(range(len(source.shape or ())))),
        )
        moved = [axis for axis in order if axis < len(shape) and shape[axis] != 1]
        return moved == sorted(moved)
    if node.op == "Gather":
        is_part = tensors[node.inputs[1]].constant and output.elements <= source.elements
        return is_part and not source.constant and not node.integer("in_bags", 0)
    return node.op == "Concat" and len(node.inputs) == 1


def _alive(graph: ModelGraph, parts: Mapping[str, Part]) -> tuple[Node, ...]:
    """The nodes that an output of the graph depends on; all of them where the graph names no output."""
    if not graph.outputs:
        return graph.nodes

    def bases(names: Iterable[str]) -> set[str]:
        return {parts[name].base if name in parts else name for name in names if name}

    wanted = bases(graph.outputs)
    alive: list[Node] = []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            alive.append(node)
            wanted |= bases(node.inputs)
    return tuple(reversed(alive))
