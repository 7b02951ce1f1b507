"""The graph between a model's file and a workload: what every front end fills and every pass reads.

Op types are those of ONNX, whichever file the graph came from: PyTorch's ops are translated to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """What a node reads or writes.

    Attributes:
        shape: elements along each axis; None where it depends on data or is not known.
        element_bytes: bytes an element in the file (0.5 for int4).
        is_float: whether it holds numbers to compute with (floats and quantised ones), not ids, masks or shapes.
        constant: it is the same in every inference (an initializer, a parameter, or computed from those).
        value: what it holds where that is known and small (arithmetic on shapes); None elsewhere.
        learned: of a constant, how many of its elements count as parameters: none of a table that the model was built
            with, and of what is made of parameters no more than these have; None for all.
        stored: elements that have to be kept of a constant where they are fewer than the shape says (a broadcast).
        numbers: of a constant whose elements hold several numbers each, how many it holds; 0 where it is one each.
        beside: names of the constants without which it says nothing: scales and zero points of quantised numbers.
        sources: of a constant that is computed, names of the file's constants that it is made of.
    """

    shape: Shape | None
    element_bytes: float = 4.0
    is_float: bool = True
    constant: bool = False
    value: NDArray[Any] | None = field(default=None, compare=False)
    stored: int | None = None
    numbers: int = 0
    learned: int | None = None
    beside: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def elements(self) -> int:
        """Elements; 0 where the shape is unknown."""
        return 0 if self.shape is None else prod(self.shape)

    @property
    def kept(self) -> int:
        """Elements of a constant that have to be kept."""
        return self.elements if self.stored is None else min(self.stored, self.elements)

    @property
    def held_bytes(self) -> float:
        """Bytes that a constant takes."""
        return self.kept * self.element_bytes

    @property
    def parameters(self) -> int:
        """Parameters among the numbers in it."""
        numbers = self.numbers or self.kept
        return numbers if self.learned is None else min(self.learned, numbers)


@dataclass(frozen=True)
class Node:
    """One op of the file.

    Attributes:
        name: as in the file, or that of its first output; not necessarily unique.
        op: type of op in ONNX's words; in other domains than ONNX's own with the domain before it.
        inputs: names of tensors; "" where an optional one is left out.
        outputs: names of tensors; "" where one is not wanted.
        attributes: integers, floats, texts and lists of them.
        body: what a loop runs in each trip; `inputs` then has what that reads from outside, too.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    body: Body | None = None

    def input(self, position: int) -> str:
        """The name of an input; "" where there is none."""
        return self.inputs[position] if position < len(self.inputs) else ""

    def output(self, position: int) -> str:
        """The name of an output; "" where there is none."""
        return self.outputs[position] if position < len(self.outputs) else ""

    def integer(self, name: str, default: int) -> int:
        """An attribute that is an integer; `default` where it is missing or something else."""
        value = self.attributes.get(name, default)
        return int(value) if isinstance(value, int | np.integer) else default

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of integers; empty where it is missing or something else."""
        value = self.attributes.get(name, ())
        if not isinstance(value, list | tuple) or not all(isinstance(v, int | np.integer) for v in value):
            return ()
        return tuple(int(v) for v in value)

    def text(self, name: str, default: str = "") -> str:
        """An attribute that is a text; `default` where it is missing or something else."""
        value = self.attributes.get(name, default)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return value if isinstance(value, str) else default


@dataclass(frozen=True)
class Body:
    """The nodes of a loop, whose tensors are in the table of the whole model.

    Attributes:
        inputs: names of what is another tensor in each trip: a count, what the trip before handed on, a slice.
        outputs: names of what they hand on.
        trips: how often they run in an inference; None where that is not known.
        needed: names of what the next trip needs, whoever reads the results; None for all outputs, which then need not
            be those of the node one by one.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    trips: int | None
    needed: tuple[str, ...] | None = None

    @property
    def times(self) -> int:
        """The trips that are counted: one where they are not known."""
        return 1 if self.trips is None else self.trips


def all_nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes, each before those of its body."""
    for node in nodes:
        yield node
        if node.body is not None:
            yield from all_nodes(node.body.nodes)


@dataclass(frozen=True)
class ModelGraph:
    """A model: nodes in an order in which they can run, every tensor by name, inputs and outputs of the whole.

    Attributes:
        remarks: what was taken for granted, a line each.
        states: inputs whose memory may be written: what they hold afterwards is handed out.
        called: tensors by other names that the file has for them.
        unread: constants of the file that nothing needs, and what the file calls them.
    """

    name: str
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)
    states: frozenset[str] = frozenset()
    unread: Mapping[str, str] = field(default_factory=dict)

    def unknown(self) -> tuple[str, ...]:
        """Names of the tensors whose shape is unknown, in the order of the nodes that write them."""
        written = (name for node in all_nodes(self.nodes) for name in node.outputs if name)
        return tuple(name for name in written if self.tensors[name].shape is None)
