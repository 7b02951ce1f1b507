"""Ops of a workload from the nodes of a graph.

Rules, beyond those of `docs/reference/workloads.md`:
- Constants are weights of the op that reads them; single numbers are part of the instruction and hold nothing, but are
  parameters like others. Where several ops read one constant each holds it, and its parameters count at the first (as
  the zoo does for tied weights); so do the parameters of constants that are made of one.
- Ops are named after the node at their head.
- (x, y, z) are width, height and channels, without the batch. An image [batch, channels, …, height, width] is what
  convolutions and poolings read and write, and what element-wise nodes make of it. Everything else keeps the order of
  its axes: a sequence [batch, length, hidden] is (length, 1, hidden).

Fusion: element-wise nodes run in the op before them, as accelerators do it.

A node is the tail of an op where it has as many elements and nothing else reads what it reads of that op: bias,
activation, residual add and batch norm after a convolution or a product, chains of element-wise nodes, and small
diamonds of them (x * sigmoid(x), the tanh form of GELU). An op runs where its last node stands in the file, so that
everything its tail reads is there by then.

Deviations: accelerators limit the length of a tail by their instruction memories, which nobody publishes; here it is
`LONGEST` nodes, an *assumption*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, isclose, prod

from workloads.importers.fold import Folded, Part
from workloads.importers.ir import ModelGraph, Node, Shape
from workloads.importers.vocabulary import (
    ACTIVATIONS,
    CONVOLUTIONS,
    ELEMENTWISE,
    FUSABLE,
    GLOBAL_POOLS,
    HEADS,
    POOLS,
    QUANTISERS,
    SOFTMAXES,
    data_of,
)
from workloads.importers.work import (
    elements_read,
    gemm_of,
    is_bias,
    kind_of,
    times_read,
    vector_ops,
    window_of,
)
from workloads.text import visible
from workloads.workload import Edge, ElementBytes, Op, Shape3, Workload

_IMAGE_OPS = (
    CONVOLUTIONS
    | POOLS
    | GLOBAL_POOLS
    | {
        "Resize",
        "Upsample",
        "BatchNormalization",
        "InstanceNormalization",
        "GroupNormalization",
        "LRN",
        "DepthToSpace",
    }
)
_KEEPING = (
    frozenset(ELEMENTWISE)
    | frozenset(ACTIVATIONS)
    | frozenset(SOFTMAXES)
    | {"Concat", "Pad", "Identity", "Dropout"}
)


def images(graph: ModelGraph) -> frozenset[str]:
    """Names of the tensors that are images."""
    found: set[str] = set()
    for node in graph.nodes:
        if node.op in _IMAGE_OPS and node.input(0):
            found |= {node.inputs[0], *(name for name in node.outputs if name)}
        elif node.op in _KEEPING and found.intersection(node.inputs):
            rank = max(len(graph.tensors[name].shape or ()) for name in node.inputs if name in found)
            found |= {name for name in node.outputs if name and len(graph.tensors[name].shape or ()) == rank}
    return frozenset(found)


def batch_of(graph: ModelGraph) -> int:
    """The batch size: the first axis of the first input that has two."""
    shapes = (graph.tensors[name].shape or () for name in graph.inputs)
    return max(1, next((shape[0] for shape in shapes if len(shape) > 1), 1))


def xyz(shape: Shape, batch: int, is_image: bool) -> tuple[Shape3, int]:
    """(x, y, z) of one sample, and how many there are (1 where the first axis is not the batch)."""
    if is_image and len(shape) > 2:
        width = shape[-1]
        return (width, prod(shape[2:-1]), shape[1]), max(1, shape[0])
    has_batch = len(shape) > 1 and shape[0] == batch
    axes = shape[1:] if has_batch else shape
    samples = batch if has_batch else 1
    if len(axes) < 2:
        return (1, 1, axes[0] if axes else 1), samples
    if len(axes) == 2:
        return (axes[0], 1, axes[1]), samples
    return (prod(axes[:-2]), axes[-2], axes[-1]), samples


@dataclass(frozen=True)
class Lowered:
    """A workload (unchecked), and where it came from.

    Attributes:
        nodes: the file's nodes in each op, by its name.
        writer: the op that writes each tensor, by the tensor's name.
        copied_bytes: of weights that are held more than once.
    """

    workload: Workload
    nodes: Mapping[str, tuple[str, ...]]
    writer: Mapping[str, str]
    copied_bytes: int


def lower(folded: Folded, clusters: list[Cluster], name: str, source: str) -> Lowered:
    """One op a cluster, in the order given."""
    return _Lowering(folded).all(clusters, name, source)


class _Lowering:
    def __init__(self, folded: Folded) -> None:
        self.folded, self.tensors = folded, folded.graph.tensors
        self.batch, self.images = batch_of(folded.graph), images(folded.graph)
        self.results = {folded.part(name).base for name in folded.graph.outputs}
        self.writer: dict[str, str] = {}
        self.read = self.results | {
            folded.part(name).base for node in folded.graph.nodes for name in node.inputs if name
        }
        self.uncounted: dict[str, float] = {}
        self.unheld: dict[str, float] = {}
        held = {name for node in folded.graph.nodes for name in self._constants(node)}
        self.uses = Counter(source for name in held for source in self.tensors[name].sources or (name,))
        self.names: set[str] = set()
        self.copied = 0.0

    def all(self, clusters: list[Cluster], name: str, source: str) -> Lowered:
        ops, nodes = [], {}
        weight_widths: Counter[float] = Counter()
        activation_widths: Counter[float] = Counter()
        for cluster in clusters:
            op = self._op(cluster)
            ops.append(op)
            nodes[op.name] = tuple(node.name for node in cluster)
            for node in cluster:
                for read in self._constants(node):
                    tensor = self.tensors[read]
                    numbers = tensor.numbers or (tensor.kept if tensor.is_float else 0)
                    weight_widths[tensor.held_bytes / max(1, numbers)] += numbers
            for tensor in map(self.tensors.__getitem__, self._outputs(cluster)):
                activation_widths[tensor.element_bytes] += tensor.elements if tensor.is_float else 0
        widths = ElementBytes(_widest_used(weight_widths), _widest_used(activation_widths))
        return Lowered(Workload(name, tuple(ops), widths, source), nodes, self.writer, ceil(self.copied))

    def _op(self, cluster: Cluster) -> Op:
        head = cluster[0]
        name = self._unique(head.name)
        edges, external = self._reads(cluster)
        outputs = self._outputs(cluster)
        put = self.folded.placed.get(head.output(0))
        ofm, batch = self._xyz([put.put] if put is not None else cluster[-1].outputs)
        data = [read for read in self._data(head) if not self.folded.is_constant(read)]
        ifm, batch = self._xyz(data[:1]) if data and put is None else (ofm, batch)
        window = window_of(head, self.folded)
        op = Op(
            name=name,
            kind=kind_of(head, self.folded, self.images.__contains__),
            inputs=edges,
            ifm=ifm,
            ofm=ofm,
            output_bytes=ceil(sum(self.folded.written(o) * self.tensors[o].element_bytes for o in outputs)),
            external_bytes=external,
            gemm=gemm_of(head, self.folded.shape_of),
            vector_ops=sum(vector_ops(node, cluster, self.folded) for node in cluster),
            kernel=window.kernel,
            stride=window.stride,
            pad=window.pad,
            dilation=window.dilation,
            groups=window.groups,
            batch=batch,
            is_output=any(output in self.results for output in cluster[-1].outputs),
            joined=tuple(visible(node.name) for node in cluster[1:]),
        )
        self.writer |= {output: name for node in cluster for output in node.outputs if output}
        return self._with_weights(op, cluster)

    def _outputs(self, cluster: Cluster) -> list[str]:
        """What an op hands on. Values are left out where only their places are read."""
        outputs = [output for output in cluster[-1].outputs if output]
        return [output for output in outputs if output in self.read or len(outputs) == 1]

    def _xyz(self, names: tuple[str, ...] | list[str]) -> tuple[tuple[int, int, int], int]:
        read = next((name for name in names if name), "")
        return xyz(self.tensors[read].shape or () if read else (), self.batch, read in self.images)

    def _unique(self, name: str) -> str:
        base = "".join(c if c.isprintable() else "?" for c in name) or "op"
        found, number = base, 1
        while found in self.names:
            number += 1
            found = f"{base}_{number}"
        self.names.add(found)
        return found

    def _reads(self, cluster: Cluster) -> tuple[tuple[Edge, ...], int]:
        """What is read of earlier ops, and bytes from outside; a tensor that is read twice by an op counts once."""
        inside = {output for node in cluster for output in node.outputs}
        whole: dict[str, int] = {}
        for part in self._pieces(cluster):
            if part.base not in inside:
                limit = self.folded.written(part.base)
                whole[part.base] = min(limit, whole.get(part.base, 0) + part.elements)
        edges: dict[str, float] = {}
        external = 0.0
        for base, elements in whole.items():
            size = elements * self.tensors[base].element_bytes
            if base in self.writer:
                edges[self.writer[base]] = edges.get(self.writer[base], 0.0) + size
            else:
                external += size
        return tuple(Edge(source, ceil(size)) for source, size in edges.items()), ceil(external)

    def _pieces(self, cluster: Cluster) -> Iterator[Part]:
        """What is read, constants left out."""
        readers: dict[str, list[Node]] = {}
        for node in cluster:
            for read in dict.fromkeys(self._data(node)):
                readers.setdefault(read, []).append(node)
        for read, nodes in readers.items():
            if not self.folded.is_constant(read):
                found = [elements_read(node, read, self.folded) for node in nodes]
                counts = [count for count in found if count is not None]
                most = sum(counts) if len(counts) == len(found) else None
                yield from self._at_most(self.folded.pieces(read), most)
        placed = self.folded.placed.get(cluster[0].output(0))
        if (
            placed is not None and cluster[0].text("reduction", "none") != "none"
        ):  # a sum into rows reads them
            yield Part(self.folded.part(placed.into).base, placed.elements)

    def _at_most(self, pieces: Iterator[Part], elements: int | None) -> Iterator[Part]:
        """The first so many elements of what is read; None: all."""
        for piece in pieces:
            here = piece.elements if elements is None else min(piece.elements, elements)
            elements = None if elements is None else elements - here
            yield Part(piece.base, here)

    def _data(self, node: Node) -> list[str]:
        """What a node reads; what it only puts elements into is not read."""
        return data_of(node)[1:] if node.output(0) in self.folded.placed else data_of(node)

    def _constants(self, node: Node) -> list[str]:
        """Names of the constants that a node holds as weights."""
        return [read for read in self._fixed(node) if self.tensors[read].kept > 1]

    def _fixed(self, node: Node) -> list[str]:
        """Names of the constants among a node's data, single numbers too."""
        return [read for read in data_of(node) if self.folded.is_constant(read)]

    def _with_weights(self, op: Op, cluster: Cluster) -> Op:
        held, read_bytes, parameters, steps = 0.0, 0.0, 0, 1
        seen: set[str] = set()
        for node, name, reader_of, is_parameter in self._held(cluster):
            base = self.folded.part(name).base
            if base in seen:
                continue
            seen.add(base)
            tensor = self.tensors[name]
            size = tensor.held_bytes
            held += size
            times = times_read(node, reader_of, self.folded)
            read_bytes += size * times
            steps = max(steps, ceil(times))
            self.copied += self._copied(name)
            if is_parameter:
                parameters += self._parameters(name)
        parameters += sum(map(self._parameters, self._single_numbers(cluster)))
        step = read_bytes / steps
        step = held if isclose(step, held) else step  # but for rounding
        return replace(
            op,
            weight_bytes=ceil(held),
            weight_read_bytes=ceil(min(step, held)),
            parameters=parameters,
            steps=steps,
        )

    def _parameters(self, name: str) -> int:
        """Those of a constant that no earlier op had."""
        tensor = self.tensors[name]
        if not (tensor.is_float or tensor.numbers):
            return 0
        sources = tensor.sources or (name,)
        return int(self._taken(sources, tensor.parameters, self.uncounted, "parameters"))

    def _single_numbers(self, cluster: Cluster) -> list[str]:
        """The constants that are one number, such as the bias of a single channel, scales of quantisers left out."""
        found = [
            name
            for node in cluster
            for name in self._weights(node, cluster, self._fixed(node))
            if self.tensors[name].kept == 1 and (node.op not in QUANTISERS or name == node.inputs[0])
        ]
        return list(dict.fromkeys(found))

    def _copied(self, name: str) -> float:
        """Bytes of a constant that other ops hold already: the constant, parts of it, or what it is computed from. What
        takes more than that is another constant: a table of sines beside one of cosines, say."""
        size, sources = self.tensors[name].held_bytes, self.tensors[name].sources or (name,)
        if size > sum(self.tensors[source].held_bytes for source in sources):
            sources = (self.folded.part(name).base,)
        return size - self._taken(sources, size, self.unheld, "held_bytes")

    def _taken(self, sources: tuple[str, ...], most: float, left: dict[str, float], what: str) -> float:
        """How many of `most` parameters or bytes (`what`) count that are made of constants of the file, as far as these
        are `left`; first those of which the fewest other constants are made."""
        found = 0.0
        for source in sorted(sources, key=self.uses.__getitem__):
            here = left.setdefault(source, getattr(self.tensors[source], what))
            taken = min(here, most - found)
            left[source] -= taken
            found += taken
        return found

    def _held(self, cluster: Cluster) -> Iterator[tuple[Node, str, str, bool]]:
        """(node, constant, the input that it is held for, whether its numbers are parameters). Scales and zero points
        are held beside the numbers that they belong to, and are none."""
        for node in cluster:
            for name in self._weights(node, cluster, self._constants(node)):
                yield node, name, name, node.op not in QUANTISERS or name == node.inputs[0]
                beside = (each for each in self.tensors[name].beside if self.tensors[each].kept > 1)
                yield from ((node, each, name, False) for each in beside)

    def _weights(self, node: Node, cluster: Cluster, constants: list[str]) -> list[str]:
        """Those of a node's constants that it needs. A batch norm is a gain and a shift, or only a bias where it is
        folded into the convolution or product before it, or nothing where that has a bias already."""
        if node.op != "BatchNormalization":
            return constants
        if is_bias(node, cluster, self.folded):
            biased = len(data_of(cluster[0])) > 2 or cluster[1] is not node
            return [] if biased else constants[1:2]
        return constants[:2]


def _widest_used(widths: Counter[float]) -> float:
    """The width of most elements; 4 where there are none."""
    return widths.most_common(1)[0][0] if widths and max(widths.values()) > 0 else 4.0


LONGEST = 16
"""Nodes of an op, its head included."""

Cluster = tuple[Node, ...]
"""The nodes that run as one op, in the file's order; other ops read only the last one's outputs."""


def clusters(folded: Folded, fuse: bool) -> list[Cluster]:
    """The nodes of the graph as ops in an order in which they can run; every node alone where not `fuse`."""
    nodes = folded.graph.nodes
    if not fuse:
        return [(node,) for node in nodes]
    search = _Search(folded)
    found = [search.grow(i) for i in range(len(nodes)) if i not in search.taken]
    found.sort(key=lambda members: members[-1])
    return [tuple(nodes[i] for i in members) for members in found]


class _Search:
    """Grows ops from their heads, in the file's order."""

    def __init__(self, folded: Folded) -> None:
        self.folded, self.nodes = folded, folded.graph.nodes
        self.taken: set[int] = set()
        self.results = {folded.part(name).base for name in folded.graph.outputs}
        self.readers: dict[str, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for base in {folded.part(name).base for name in node.inputs if name}:
                self.readers.setdefault(base, []).append(i)

    def grow(self, head: int) -> list[int]:
        """Positions of the nodes that run with `head`, in order; they are taken then."""
        best = region = [head]
        if self._is_single(head) and self.nodes[head].op in HEADS:
            elements = self._elements(head)
            while len(region) < LONGEST:
                following = self._following(region, elements)
                if following is None:
                    break
                region = [*region, following]
                if len(self._open(region)) == 1:
                    best = region
        self.taken.update(best)
        return best

    def _open(self, region: list[int]) -> list[str]:
        """Outputs of the region that are read outside of it."""
        outputs = [self.nodes[i].outputs[0] for i in region]
        return [
            name
            for name in outputs
            if name in self.results or any(i not in region for i in self.readers.get(name, ()))
        ]

    def _following(self, region: list[int], elements: int) -> int | None:
        """The next node to take in; None where a tensor of the region is needed outside whatever follows."""
        readers = [
            i
            for name in self._open(region)
            for i in (self.readers.get(name, ())[: LONGEST + 1])
            if i not in region
        ]
        if any(name in self.results or len(self.readers[name]) > LONGEST for name in self._open(region)):
            return None
        inside = {self.nodes[i].outputs[0] for i in region}
        if not all(self._is_tail(i, inside, elements) for i in readers):
            return None
        return min(readers, default=None)

    def _is_tail(self, i: int, inside: set[str], elements: int) -> bool:
        node = self.nodes[i]
        if (
            i in self.taken
            or node.op not in FUSABLE
            or node.integer("training_mode", 0)  # the batch's statistics are there after the whole batch only
            or not self._is_single(i)
            or self._elements(i) != elements
        ):
            return False
        parts = [self.folded.part(name) for name in node.inputs if name]
        return all(part.elements == elements for part in parts if part.base in inside)

    def _is_single(self, i: int) -> bool:
        """Whether only the first output of a node is read."""
        first, *others = self.nodes[i].outputs
        return bool(first) and not any(name in self.results or name in self.readers for name in others)

    def _elements(self, i: int) -> int:
        return self.folded.graph.tensors[self.nodes[i].outputs[0]].elements
