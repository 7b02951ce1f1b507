"""Fusion: element-wise nodes run in the op before them, as accelerators do it.

A node is the tail of an op where it has as many elements and nothing else reads what it reads of that op: bias,
activation, residual add and batch norm after a convolution or a product, chains of element-wise nodes, and small
diamonds of them (x * sigmoid(x), the tanh form of GELU). An op runs where its last node stands in the file, so that
everything its tail reads is there by then.

Deviations: accelerators limit the length of a tail by their instruction memories, which nobody publishes; here it is
`LONGEST` nodes, an *assumption*.
"""

from __future__ import annotations

from workloads.importers.fold import Folded
from workloads.importers.ir import Node
from workloads.importers.vocabulary import FUSABLE, HEADS

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
