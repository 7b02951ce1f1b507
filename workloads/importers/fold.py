"""Folding: what moves no bytes in an inference is no op, but belongs to those that read it.

- Views (reshapes, broadcasts, transpositions of axes of size 1, casts to the same width) are their input in another
  shape. So are numbers that are scaled back (DequantizeLinear): who reads them reads the quantised ones. Only a result
  of the model is written as floats.
- Slices, splits and picks at fixed places are parts of their input: who reads them reads only the part.
- What is computed from constants alone is a constant: it is computed once, before the first inference. Rows looked up
  in a table at fixed places are not folded: the table is the parameter. Nor are products of matrices: a model that
  has them runs them.
- Of a tensor that nobody needs as it was, and that is a state or made by an op, only what is put into it (a row of a
  cache) moves: who reads the result reads the rest where it was. Else all of it is copied.
- Nodes whose outputs nobody reads are left out, in loops, too; so is all of a loop that never runs.

Constants that nodes make of constants: what has to be held of them, and which parameters they are.

- What only moves numbers keeps their width, and what repeats them is held as small as they are.
- Numbers of few bits that are packed into integers, or scaled by hand (shifts, masks, casts, differences, products),
  are held as the file has them: an engine reads the integers and unpacks them on the way. That is so wherever the
  integers and what stands beside them take fewer bytes than the result.
- Everything else is held as it is computed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from workloads.importers.ir import Body, ModelGraph, Node, Shape, Tensor, all_nodes
from workloads.importers.vocabulary import (
    CASTS,
    CONVOLUTIONS,
    ELEMENTWISE,
    PARTS,
    PLACED,
    PRODUCTS,
    QUANTISERS,
    RECURRENT,
    VIEWS,
    data_of,
)


@dataclass(frozen=True)
class Part:
    """Reading a tensor means reading `elements` elements of `base`, that a node, the host or the file gives."""

    base: str
    elements: int


@dataclass(frozen=True)
class Placed:
    """`elements` elements, of the tensor called `put`, take a place in the tensor called `into`, where that lies."""

    into: str
    put: str
    elements: int


@dataclass(frozen=True)
class Folded:
    """What is left to be computed, and what each name of the file means in it.

    Attributes:
        placed: outputs that are written into a tensor that is there.
        copied: outputs that are a copy of a tensor into which a few elements are put.
        settled: nodes that read constants alone, so that they run once, before the first inference.
    """

    graph: ModelGraph
    parts: Mapping[str, Part]
    placed: Mapping[str, Placed] = field(default_factory=dict)
    copied: frozenset[str] = frozenset()
    settled: tuple[Node, ...] = ()

    def part(self, name: str) -> Part:
        """What reading the tensor called `name` means."""
        found = self.parts.get(name)
        return found if found is not None else Part(name, self.graph.tensors[name].elements)

    def pieces(self, name: str) -> Iterator[Part]:
        """What reading the tensor called `name` means where parts of it were put into another one."""
        part = self.part(name)
        while (placed := self.placed.get(part.base)) is not None:
            here = min(part.elements, placed.elements)
            yield Part(part.base, here)
            if here == part.elements:
                return
            part = Part(self.part(placed.into).base, part.elements - here)
        yield part

    def written(self, name: str) -> int:
        """Elements that are written of an output."""
        return self.placed[name].elements if name in self.placed else self.graph.tensors[name].elements

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


def fold(graph: ModelGraph, one_width: bool = False) -> Folded:
    """The graph without its views, parts, constant nodes and dead ends. Expects a shape for every tensor. `one_width`:
    all numbers to compute with will have the same width, so that casts between them are views."""
    fold = _Fold(graph, one_width)
    left = replace(graph, nodes=tuple(fold.kept(graph.nodes)), tensors=fold.tensors)
    alive = replace(left, nodes=_alive(left, fold.parts))
    settled = _alive_among(fold.settled, alive, fold.parts)
    return Folded(alive, fold.parts, *_placements(Folded(alive, fold.parts)), settled)


def _placements(folded: Folded) -> tuple[dict[str, Placed], frozenset[str]]:
    """What takes a place where it lies, by output, and the outputs that are copies into which at most half is put."""
    graph, placed, copied = folded.graph, dict[str, Placed](), set[str]()
    last = {folded.part(name).base: at for at, node in enumerate(graph.nodes) for name in node.inputs if name}
    results = {folded.part(name).base for name in graph.outputs}
    handed = set(results)  # with what was put into it on the way
    for node in reversed(graph.nodes):
        handed |= {folded.part(each.into).base for made, each in _put(node, folded) if made in handed}
    needed = results | set(graph.inputs) - (graph.states & handed)
    for at, node in enumerate(graph.nodes):
        for made, each in _put(node, folded):
            old, new = folded.part(each.into), graph.tensors[made].elements
            is_whole = old.elements == new == graph.tensors[old.base].elements
            is_free = last[old.base] == at and old.base not in needed and not folded.is_constant(each.into)
            if is_whole and is_free and folded.part(each.put).base != old.base:
                placed[made] = each
            elif 2 * each.elements <= new:
                copied.add(made)
    return placed, frozenset(copied)


def _put(node: Node, folded: Folded) -> Iterator[tuple[str, Placed]]:
    """The outputs of a node that are one of its inputs, but for what is put into it."""
    for output, old, new in PLACED.get(node.op, ()) if len(node.inputs) > 1 else ():
        made, into, put = node.output(output), node.input(old), node.input(new)
        if made and into and put:
            tensors = folded.graph.tensors
            count = node.integer("put", tensors[put].elements)
            yield made, Placed(into, put, min(count, tensors[made].elements))


class _Fold:
    """Nodes in, those that are left out; what the tensors and names of the others mean is kept here."""

    def __init__(self, graph: ModelGraph, one_width: bool) -> None:
        self.one_width = one_width
        self.tensors, self.results = {**graph.tensors, **_unlearned(graph)}, frozenset(graph.outputs)
        self.parts: dict[str, Part] = {}
        self.settled: list[Node] = []
        self.scales = _scales(graph)

    def kept(self, nodes: Iterable[Node]) -> list[Node]:
        """The nodes that compute or move something in an inference."""
        return [left for node in nodes if (left := self._left(node)) is not None]

    def _left(self, node: Node) -> Node | None:
        tensors, outputs = self.tensors, [name for name in node.outputs if name]
        if node.body is not None:
            return replace(node, body=replace(node.body, nodes=tuple(self.kept(node.body.nodes))))
        hold_packed(node, tensors)
        if _is_computed_once(node, tensors, self.scales):
            self.settled.append(node)
            tensors |= {name: computed(node, name, tensors) for name in outputs}
            if node.op in REWRITING and node.input(0):
                base = self._part(node.inputs[0]).base
                self.parts |= {name: Part(base, tensors[name].elements) for name in outputs}
            return None
        if all(tensors[name].constant for name in outputs):  # sizes, which nobody learned
            tensors |= {name: replace(tensors[name], learned=0) for name in outputs}
            return None
        written_back = node.op == "DequantizeLinear" and not self.results.isdisjoint(outputs)
        if written_back or not self._is_view(node) or tensors[node.inputs[0]].constant:
            return node
        read = self._part(node.inputs[0])
        self.parts |= {name: Part(read.base, min(read.elements, tensors[name].elements)) for name in outputs}
        return None

    def _is_view(self, node: Node) -> bool:
        if not node.input(0):
            return False
        if node.op in VIEWS or node.op in PARTS or node.op == "DequantizeLinear":
            return True
        tensors = self.tensors
        source = tensors[node.inputs[0]]
        output = tensors[next(name for name in node.outputs if name)]
        if node.op == "Cast":
            same = (self.one_width and source.is_float) or source.element_bytes == output.element_bytes
            return same and source.is_float == output.is_float
        if node.op == "Transpose":
            shape = source.shape or ()
            order = node.integers("perm") or range(len(shape))[::-1]
            moved = [axis for axis in order if axis < len(shape) and shape[axis] != 1]
            return moved == sorted(moved)
        if node.op == "Gather":
            is_part = tensors[node.inputs[1]].constant and output.elements <= source.elements
            return is_part and not source.constant and not node.integer("in_bags", 0)
        return node.op == "Concat" and len(node.inputs) == 1

    def _part(self, name: str) -> Part:
        return self.parts.get(name, Part(name, self.tensors[name].elements))


def _unlearned(graph: ModelGraph) -> dict[str, Tensor]:
    """Constants that are multiplied with the scale of numbers that are quantised as they come: scales, too."""
    nodes = tuple(all_nodes(graph.nodes))
    scales = {node.output(1) for node in nodes if node.op == "DynamicQuantizeLinear"} - {""}
    found = (
        name
        for node in nodes
        if node.op == "Mul" and scales.intersection(node.inputs)
        for name in node.inputs
    )
    return {name: replace(graph.tensors[name], learned=0) for name in found if graph.tensors[name].constant}


def _is_computed_once(node: Node, tensors: Mapping[str, Tensor], scales: Container[str]) -> bool:
    given = [tensors[name] for name in node.inputs if name]
    if not all(tensor.constant for tensor in given) or node.op.startswith("Random"):
        return False
    if node.op in CONVOLUTIONS | PRODUCTS | set(RECURRENT):
        return node.op == "MatMul" and any(len(tensor.shape or ()) < 2 for tensor in given[:2])
    if not given:
        return node.op in ("Constant", "ConstantOfShape")
    is_table = _is_table(node, tensors) and node.outputs[0] not in scales
    return not is_table and node.op not in ("If", "Loop", "Scan", "Multinomial", "Bernoulli")


def _is_table(node: Node, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a node looks rows up in a table of numbers."""
    table = tensors[node.inputs[0]] if node.op == "Gather" and node.input(0) else Tensor(None, is_float=False)
    return table.is_float and len(table.shape or ()) > 1


def _scales(graph: ModelGraph) -> frozenset[str]:
    """Rows looked up at fixed places that only scale or shift as many numbers of few bits: scales of their groups."""
    fixed = {name for name, tensor in graph.tensors.items() if tensor.constant}
    packed = {name for name in fixed if is_quantised(graph.tensors[name])}
    tables: set[str] = set()
    for node in graph.nodes:
        if any(node.inputs) and fixed.issuperset(name for name in node.inputs if name):
            fixed.update(node.outputs)
            tables.update(node.outputs if _is_table(node, graph.tensors) else ())
            packed.update(() if packed.isdisjoint(node.inputs) else node.outputs)
    others: set[str] = set()
    for node in graph.nodes if tables else ():
        sizes = [
            graph.tensors[name].elements for name in node.inputs if name in packed and name not in tables
        ]
        scaling = node.op in ELEMENTWISE and fixed.issuperset(node.inputs)
        if not scaling or graph.tensors[node.outputs[0]].elements not in sizes:
            others |= tables.intersection(node.inputs)
    return frozenset(tables - others - set(graph.outputs))


def _alive(graph: ModelGraph, parts: Mapping[str, Part]) -> tuple[Node, ...]:
    """The nodes that an output of the graph depends on; all of them where the graph names no output."""
    written = (name for node in graph.nodes for name in node.outputs)
    return _Living(parts).among(graph.nodes, graph.outputs or written)


def _alive_among(settled: Iterable[Node], graph: ModelGraph, parts: Mapping[str, Part]) -> tuple[Node, ...]:
    """Those of the nodes that make what the graph reads."""
    read = (name for node in all_nodes(graph.nodes) for name in node.inputs if name)
    return _Living(parts).among(settled, (*read, *graph.outputs))


def _wanted(node: Node, wanted: Container[str]) -> Node:
    """The node without those of its further outputs (indices, say) that nobody reads."""
    first, *others = node.outputs
    return replace(node, outputs=(first, *(name if name in wanted else "" for name in others)))


class _Living:
    """Leaves out nodes whose outputs nobody reads, in the bodies of loops, too."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self.parts = parts

    def among(self, nodes: Iterable[Node], results: Iterable[str]) -> tuple[Node, ...]:
        """Those of the nodes that the results depend on."""
        wanted = self._bases(results)
        alive: list[Node] = []
        for node in reversed(tuple(nodes)):
            if wanted.intersection(node.outputs):
                alive.append(
                    _wanted(node, wanted) if node.body is None else self._loop(node, node.body, wanted)
                )
                wanted |= self._bases(alive[-1].inputs)
        return tuple(reversed(alive))

    def _bases(self, names: Iterable[str]) -> set[str]:
        return {self._base(name) for name in names if name}

    def _base(self, name: str) -> str:
        return self.parts[name].base if name in self.parts else name

    def _loop(self, node: Node, body: Body, wanted: Container[str]) -> Node:
        """The loop with what its wanted results and its trips need, reading what that reads from outside."""
        if body.trips == 0:
            return replace(node, body=replace(body, nodes=(), outputs=()))
        kept = body.outputs if body.needed is None else body.needed
        pairs = tuple(zip(node.outputs, body.outputs, strict=False))
        results = dict.fromkeys((*kept, *(inner for outer, inner in pairs if outer in wanted)))
        nodes = self.among(body.nodes, results)
        inside = {*body.inputs, *(name for each in nodes for name in each.outputs)}
        read = [*(name for each in nodes for name in data_of(each)), *results]
        outside = [name for name in read if self._base(name) not in inside]
        outputs = node.outputs
        if body.needed is not None:
            outputs = tuple(outer if inner in results else "" for outer, inner in pairs)
        inputs = tuple(dict.fromkeys((*node.inputs, *outside)))
        return replace(node, inputs=inputs, outputs=outputs, body=replace(body, nodes=nodes))


REPEATING = frozenset({"Expand", "Tile", "Gather", "GatherElements", "GatherND"})
"""What gives elements of its first input several times, or not at all."""

REWRITING = (VIEWS - {"BitCast"}) | CASTS | {"Transpose"}
"""What makes of a constant the same one, written otherwise."""

MOVING = REWRITING | PARTS | REPEATING | {"Concat", "DepthToSpace", "SpaceToDepth"}
"""What makes of constants one whose numbers are theirs: it is stored as they are."""

UNPACKING = frozenset({"BitShift", "BitwiseAnd", "And", "Div", "Mod"})
"""What takes several numbers out of each element, if its result is larger."""

BITS = 32
"""Bits of the widest integer that numbers are packed into."""


def computed(node: Node, name: str, tensors: dict[str, Tensor]) -> Tensor:
    """The constant that a node makes of constants in its output `name`. Of a constant of the file that turns out to
    hold several numbers in each element, `tensors` has their number from then on."""
    output = replace(tensors[name], constant=True)
    given = [tensors[read] for read in node.inputs if read]
    if not given or not node.input(0) or node.op == "ConstantOfShape":
        if node.op == "ConstantOfShape":
            return replace(output, stored=1, learned=0)
        return replace(output, learned=0) if output.elements == 1 else output  # a number of a formula
    moved = _moved(node, output, given, tensors)
    return moved if node.op in PARTS | REPEATING else _unpacked(node, moved, tensors)


def _moved(node: Node, output: Tensor, given: list[Tensor], tensors: dict[str, Tensor]) -> Tensor:
    """The constant as its inputs are held."""
    first, width = given[0], output.element_bytes
    is_moved = node.op in MOVING and (node.op not in VIEWS - REPEATING or first.elements == output.elements)
    beside: tuple[str, ...] = ()
    if is_moved:
        moved = given if node.op == "Concat" else given[:1]
        width = min(width, max(each.element_bytes for each in moved))
        scales = [name for name in node.inputs[1:] if name] if node.op in QUANTISERS else []
        beside = tuple(dict.fromkeys((*(name for each in moved for name in each.beside), *scales)))
    read = node.inputs[:1] if node.op in QUANTISERS else data_of(node)
    sources = tuple(_origins(read, tensors))
    learned = sum(tensors[name].parameters for name in sources if _may_be_learned(tensors[name]))
    return replace(
        output,
        stored=first.kept if is_moved and node.op in REPEATING | REWRITING else None,
        element_bytes=width,
        beside=beside,
        learned=min(learned, sum(tensors[name].parameters for name in read)),
        sources=sources,
    )


def _may_be_learned(tensor: Tensor) -> bool:
    """Whether a constant could hold parameters: numbers to compute with, or integers of the width of quantised biases
    and packed weights; no truth values, and no integers of 64 bits."""
    return tensor.is_float or tensor.numbers > 0 or 2 <= tensor.element_bytes <= 4


def _origins(names: Iterable[str], tensors: dict[str, Tensor]) -> dict[str, None]:
    """The constants of the file that the named ones are made of."""
    return dict.fromkeys(origin for name in names for origin in tensors[name].sources or (name,))


def _unpacked(node: Node, made: Tensor, tensors: dict[str, Tensor]) -> Tensor:
    """A constant as the integers in the file that it is made of, where these take fewer bytes."""
    beside = (each for name in data_of(node) for each in tensors[name].beside)
    held = dict.fromkeys((*made.sources, *made.beside, *beside))
    origins = [name for name in held if not is_in_instruction(tensors[name])]
    packed = max(origins, key=lambda name: tensors[name].held_bytes, default="")
    total = sum(tensors[name].held_bytes for name in origins)
    as_made = made.held_bytes + sum(tensors[name].held_bytes for name in made.beside)
    numbers = _numbers(node, made, tensors)
    if not packed or not is_quantised(tensors[packed]) or total >= as_made or numbers < 2:
        return made
    if numbers > tensors[packed].kept:
        tensors[packed] = hold(tensors[packed], numbers)
    return replace(
        made,
        stored=numbers,
        element_bytes=tensors[packed].held_bytes / numbers,
        beside=tuple(name for name in origins if name != packed),
        learned=min(numbers, tensors[packed].parameters),
        sources=(packed,),
    )


def _numbers(node: Node, made: Tensor, tensors: dict[str, Tensor]) -> int:
    """Different numbers in the result of a node; what was compared has none."""
    given = [tensors[name] for name in node.inputs if name]
    kept = [each.kept for each in given if not _is_compared(each, tensors)]
    if node.op in UNPACKING:
        return made.elements
    return min(made.elements, sum(kept) if node.op == "Concat" else max(kept, default=0))


def _is_compared(tensor: Tensor, tensors: dict[str, Tensor]) -> bool:
    """Whether a constant holds truth values, which are not numbers that were packed into a byte each."""
    unpacked = any(tensors[name].numbers for name in tensor.sources)
    return not tensor.is_float and tensor.element_bytes == 1 and not unpacked


def is_in_instruction(tensor: Tensor) -> bool:
    """Whether a constant is a number, or a list of places of bits in an integer."""
    places = not tensor.is_float and tensor.kept <= BITS and sum(size > 1 for size in tensor.shape or ()) < 2
    return tensor.kept <= 1 or places


def is_quantised(tensor: Tensor) -> bool:
    """Whether a matrix of the file has the type of numbers of few bits, or of integers that could hold several."""
    narrow = tensor.element_bytes <= 1 if tensor.is_float else 2 <= tensor.element_bytes <= 4
    return narrow and sum(size > 1 for size in tensor.shape or ()) > 1


def hold(tensor: Tensor, numbers: int) -> Tensor:
    """A constant whose elements hold so many numbers, or more if that was known; all of them are parameters."""
    return replace(tensor, numbers=max(numbers, tensor.numbers), learned=None)


def hold_packed(node: Node, tensors: dict[str, Tensor]) -> None:
    """Note how many numbers the packed weight of a product holds, where a front end says so (`packed`)."""
    numbers, weight = node.integer("packed", 0), node.input(1)
    if numbers and weight and tensors[weight].constant:
        for name in (weight, *tensors[weight].sources):
            if name == weight or is_quantised(tensors[name]):
                tensors[name] = hold(tensors[name], numbers)
