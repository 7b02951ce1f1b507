"""A node of an ONNX file that is written out as others: what it reads, and the nodes that stand for it so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from workloads.errors import InputError
from workloads.importers.ir import Node, Shape, Tensor
from workloads.importers.onnx_reader import Reader, Writer, name_of, op_of

FLOAT, INT64 = 1, 7
"""ONNX's numbers of types."""
Known = TypeVar("Known")


class Unknown(ValueError):
    """What a node is in others depends on data, or on what the file does not say."""


def known(found: Known | None) -> Known:
    """What was found. Unknown where that is None."""
    if found is None:
        raise Unknown("expected what the file or constants say, found nothing")
    return found


class Call:
    """A node that is written out: its inputs, its attributes (`given`), and the nodes that stand for it so far."""

    def __init__(self, reader: Reader, proto: Any) -> None:
        self.reader, self.proto = reader, proto
        self.given = Node(name_of(proto), op_of(proto), (), (), reader.attributes(proto))
        self.nodes: list[Node] = []
        self.made = 0

    def input(self, position: int) -> str:
        """The name of an input; "" where there is none."""
        return str(self.proto.input[position]) if position < len(self.proto.input) else ""

    def inputs(self, *positions: int) -> list[str]:
        """The names of several inputs."""
        return [self.input(position) for position in positions]

    def value(self, position: int) -> NDArray[Any] | None:
        """What an input holds; None where that is not known."""
        return self.reader.value(self.input(position))

    def members(self, position: int = 0) -> list[str]:
        """The tensors in an input that is a sequence. Unknown where it is none."""
        return list(known(self.reader.sequences.get(self.reader.scope.get(self.input(position), ""))))

    def shape(self, name: str) -> Shape:
        """The shape of a tensor. Unknown where nothing says it."""
        return known(self.reader.shape(name))

    def kind(self, name: str) -> int:
        """ONNX's number of a tensor's type."""
        return self.reader.kind(self.reader.scope[name])

    def name(self) -> str:
        """A new name."""
        self.made += 1
        return f"{next(filter(None, self.proto.output), self.proto.name)}~{self.made}"

    def add(self, op: str, *inputs: str, like: str = "", **attributes: Any) -> str:
        """The output of one more node; of the shape of `like` where ONNX does not say one."""
        (output,) = self.split(op, 1, *inputs, **attributes)
        if like and self.reader.shape(output) is None:
            self.reader.put(self.reader.scope[output], self.reader.shape(like), self.kind(like))
        return output

    def split(self, op: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """All outputs of one more node."""
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        names = [self.name() for _ in range(outputs)]
        node = self.reader.onnx.helper.make_node(op, given, names, name=name_of(self.proto), **attributes)
        self.nodes += self.reader.node(node, newest=True)
        return names

    def constant(self, value: Any) -> str:
        """A constant that the op itself has."""
        array, name = np.asarray(value), self.name()
        kind = self.reader.onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        self.reader.put(self.reader.define(name), array.shape, kind, constant=True, value=array)
        return name

    def put(self, shape: Shape | None, kind: int) -> str:
        """A tensor of a shape and of the type with ONNX's number `kind`."""
        name = self.name()
        self.reader.put(self.reader.define(name), shape, kind)
        return name

    def like(self, other: str) -> str:
        """A tensor that is as another one."""
        return self.put(self.reader.shape(other), self.kind(other))

    def view(self, name: str, shape: Shape) -> str:
        """A tensor in another shape: it stays where it lies."""
        made = self.put(shape, self.kind(name))
        self.node("Identity", [name], [made])
        return made

    def parts(self, name: str, shape: Shape, count: int) -> list[str]:
        """As many parts of a tensor that holds several packed together."""
        names = [self.put(shape, self.kind(name)) for _ in range(count)]
        self.node("Select", [name], names)
        return names

    def node(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        """One more node, whose outputs there are."""
        scope = self.reader.scope
        read, written = (tuple(scope[each] if each else "" for each in names) for names in (inputs, outputs))
        self.nodes.append(Node(name_of(self.proto), op, read, written, attributes))

    def unpacked(self, name: str, shape: Shape, *beside: str) -> str:
        """A constant of a shape whose numbers are packed into those of another one, and what is stored beside it."""
        scope, tensors = self.reader.scope, self.reader.tensors
        packed = tensors[scope[name]]
        if not packed.constant or not prod(shape):
            raise Unknown(f"{name}: expected a constant weight of {shape}, found another tensor")
        made = f"{scope[name]}~{shape}"
        self.reader.put(made, shape, FLOAT, constant=True)
        width = packed.kept * packed.element_bytes / prod(shape)
        held = tuple(scope[each] for each in beside if each and tensors[scope[each]].constant)
        tensors[made] = Tensor(shape, width, constant=True, beside=held)
        scope[made] = made
        return made

    def scaled(self, value: int, scale: int, zero: int) -> str:
        """A quantised input, by the positions of it, its scale and its zero point."""
        return self.add(
            "DequantizeLinear", self.input(value), self.input(scale), self.input(zero), like=self.input(value)
        )

    def added(self, x: str, *others: str) -> str:
        """x and the others that there are, summed."""
        for each in others:
            x = self.add("Add", x, each, like=x) if each else x
        return x

    def activated(self, x: str) -> str:
        """x after the activation that an attribute names."""
        op = self.given.text("activation")
        return self.add(op, x, like=x) if op else x

    def kept(self, *names: str) -> dict[str, Any]:
        """The attributes of these names that there are."""
        return {name: self.given.attributes[name] for name in names if name in self.given.attributes}


def writer(write: Callable[[Call], Sequence[str]]) -> Writer:
    """The writer of an op. `write` says which tensor each output is, by its name in the whole model, "" for one that
    is not written; a ValueError before there is a node: that cannot be said."""

    def written(reader: Reader, proto: Any) -> list[Node] | None:
        call = Call(reader, proto)
        try:
            found = write(call)
        except ValueError as error:
            if call.nodes or isinstance(error, InputError):
                raise
            return None
        for name, made in zip(proto.output, found, strict=False):
            if name and made:
                reader.alias(name, made)
            elif name:
                reader.put(reader.define(name), (), FLOAT, constant=True)
        return call.nodes

    return written
