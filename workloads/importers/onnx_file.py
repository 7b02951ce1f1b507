"""ONNX files. Only shapes are read: weights may lie in files that are not there.

Format: onnx.proto and Operators.md of https://github.com/onnx/onnx. Functions of the model are written out where they
are called. Bodies of loops and branches are not looked into: what they read from outside belongs to the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.errors import InputError
from workloads.importers import arithmetic
from workloads.importers.dimensions import Dimensions
from workloads.importers.ir import ModelGraph, Node, Shape, Tensor
from workloads.importers.vocabulary import SAME_AS

MAX_NODES = 1_000_000
MAX_WRITTEN_BYTES = 1 << 28
"""Bytes that the functions of a model may take where they are called."""
MAX_CALLS = 100
"""Functions that may call each other in a row: writing them out takes a stack."""
BODIES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Ops with graphs inside."""


def read(data: bytes, file: str, dimensions: Dimensions) -> ModelGraph:
    """The model in a file's bytes, with the shape of every tensor as far as it can be known.

    Raises:
        InputError: not an ONNX model, or dimensions are open that `dimensions` does not give.
    """
    onnx = _onnx()
    model = _parse(onnx, data, file)
    if len(model.graph.node) > MAX_NODES:
        raise InputError(f"{file}: expected at most {MAX_NODES} nodes, found {len(model.graph.node)}")
    return _Reader(onnx, model, file, dimensions).graph()


def parse(data: bytes, file: str) -> Any:
    """The onnx.ModelProto in `data`, functions written out; weights stay where they are. InputError as `read`."""
    return _parse(_onnx(), data, file)


def name_of(proto: Any) -> str:
    """What a node is called in an imported workload: its name, or its first output where it has none."""
    return str(proto.name or next((o for o in proto.output if o), proto.op_type))


def _onnx() -> Any:
    try:
        import onnx
        import onnx.inliner
        import onnx.shape_inference
    except ImportError as error:
        raise InputError(
            f'reading ONNX needs the package onnx: pip install "egrl[onnx]" (found: {error})'
        ) from error
    return onnx


def _parse(onnx: Any, data: bytes, file: str) -> Any:
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:
        raise InputError(f"{file}: expected an ONNX model, found other bytes ({error})") from None
    if not all(isinstance(name, str) for name in names_of(model.graph)):
        raise InputError(f"{file}: expected names in UTF-8, found other bytes")
    if not model.graph.node:
        raise InputError(f"{file}: expected an ONNX model with nodes, found none")
    if not model.functions:
        return model
    _check_calls(model, file)
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:
        raise InputError(f"{file}: expected functions that can be written out, found: {error}") from None


def _check_calls(model: Any, file: str) -> None:
    """InputError if the functions of a model call themselves, or are too much once they are written out."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    # nodes and bytes of a function, with what it calls
    written: dict[tuple[str, str, str], tuple[int, int]] = {}
    caller: list[tuple[str, str, str]] = []

    def size(nodes: Iterable[Any]) -> tuple[int, int]:
        count = total = 0
        for node in _all_nodes(nodes):
            called = (node.domain, node.op_type, node.overload)
            more = function_size(called) if called in functions else (1, node.ByteSize() if caller else 0)
            count, total = count + more[0], total + more[1]
        return count, total

    def function_size(name: tuple[str, str, str]) -> tuple[int, int]:
        if name in caller or len(caller) == MAX_CALLS:
            raise InputError(
                f"{file}: function {name[1]!r}: expected calls at most {MAX_CALLS} deep and none of itself, found more"
            )
        if name not in written:
            caller.append(name)
            written[name] = size(functions[name].node)
            caller.pop()
        return written[name]

    count, total = size(model.graph.node)
    if count > MAX_NODES or total > MAX_WRITTEN_BYTES:
        raise InputError(
            f"{file}: expected at most {MAX_NODES} nodes and {MAX_WRITTEN_BYTES} bytes of functions once these are"
            f" written out, found {count} and {total}"
        )


def _all_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes (NodeProto), each followed by those of the graphs inside it."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _all_nodes(graph.node)


class _Reader:
    """Walks the nodes once, following shapes and small values."""

    def __init__(self, onnx: Any, model: Any, file: str, dimensions: Dimensions) -> None:
        self.onnx, self.model, self.file, self.dimensions = onnx, model, file, dimensions
        self.opsets = {opset.domain: opset.version for opset in model.opset_import}
        self.tensors: dict[str, Tensor] = {}
        self.types: dict[str, Any] = {}
        self.stated: dict[str, Any] = {}

    def graph(self) -> ModelGraph:
        graph = self.model.graph
        self._initializers()
        inputs = []
        for info in graph.input:
            if info.name and info.name not in self.tensors:
                inputs.append(info.name)
                self._input(info)
        self.dimensions.check(self.file)
        self.stated = {info.name: info.type for info in (*graph.value_info, *graph.output)}
        nodes = tuple(self._node(proto, i) for i, proto in enumerate(graph.node))
        outputs = tuple(info.name for info in graph.output)
        for name in outputs:
            if name not in self.tensors:
                raise InputError(f"{self.file}: expected output {name!r} to be written by a node, found none")
        return ModelGraph(graph.name, nodes, self.tensors, tuple(inputs), outputs)

    def _initializers(self) -> None:
        for tensor in self.model.graph.initializer:
            shape = tuple(int(d) for d in tensor.dims)
            if any(d < 0 for d in shape):
                raise InputError(
                    f"{self.file}: initializer {tensor.name!r}: expected sizes >= 0, found {shape}"
                )
            value = None
            if np.prod(shape, dtype=float) <= arithmetic.MAX_ELEMENTS:
                value = self._array(tensor)
            self._put(tensor.name, shape, tensor.data_type, constant=True, value=value)
        for sparse in self.model.graph.sparse_initializer:
            shape = tuple(int(d) for d in sparse.dims)
            stored = prod(max(0, d) for d in sparse.values.dims)
            self._put(sparse.values.name, shape, sparse.values.data_type, constant=True, stored=stored)

    def _input(self, info: Any) -> None:
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type":
            raise InputError(
                f"{self.file}: input {info.name!r}: expected a tensor, found {kind or 'no type'}"
            )
        tensor = info.type.tensor_type
        if not tensor.HasField("shape"):
            raise InputError(f"{self.file}: input {info.name!r}: expected a shape, found none")
        sizes: list[int] = []
        for axis, dim in enumerate(tensor.shape.dim):
            known = dim.HasField("dim_value") and dim.dim_value >= 0
            name = dim.dim_param or f"{info.name}[{axis}]"
            sizes.append(dim.dim_value if known else self.dimensions.size(name, f"input {info.name!r}") or 0)
        self._put(info.name, tuple(sizes), tensor.elem_type)

    def _node(self, proto: Any, position: int) -> Node:
        node = self._translate(proto)
        for name in (*node.inputs, *captured_names(proto)):
            if name and name not in self.tensors:
                raise InputError(
                    f"{self.file}: node {node.name!r} ({node.op}): expected inputs that are written before, found"
                    f" {name!r} (loop or missing tensor)"
                )
        outputs = [name for name in proto.output if name]
        again = next((name for name in outputs if name in self.tensors), None)
        if again is not None or len(set(outputs)) < len(outputs):
            raise InputError(
                f"{self.file}: node {node.name!r}: expected new names of outputs, found {again or outputs!r} again"
            )
        try:
            values = self._values(node, proto)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{self.file}: node {node.name!r} ({node.op}): expected attributes of their types, found: {error}"
            ) from None
        types = self._infer_shapes(proto)
        for i, name in enumerate(proto.output):
            if name:
                self._output(name, types.get(name), values[i] if values and i < len(values) else None)
        return replace(node, inputs=(*node.inputs, *self._read_inside(node, proto, position)))

    def _read_inside(self, node: Node, proto: Any, position: int) -> list[str]:
        """What the graphs inside a node read and hold, as inputs of the node."""
        found = [name for name in captured_names(proto) if name not in node.inputs]
        for tensor in held_inside(proto):
            name = f"{position}:{tensor.name}"
            if name not in self.tensors:
                self._put(name, tuple(max(0, d) for d in tensor.dims), tensor.data_type, constant=True)
                found.append(name)
        return found

    def _translate(self, proto: Any) -> Node:
        op = proto.op_type if proto.domain in ("", "ai.onnx") else f"{proto.domain}.{proto.op_type}"
        inputs = tuple(proto.input)
        if op in SAME_AS:
            op, positions = SAME_AS[op]
            inputs = tuple(inputs[i] for i in positions if i < len(inputs))
        return Node(
            name_of(proto) or op, op or "unnamed", inputs, tuple(proto.output), self._attributes(proto)
        )

    def _attributes(self, proto: Any) -> dict[str, Any]:
        kinds = self.onnx.AttributeProto
        found: dict[str, Any] = {}
        for attribute in proto.attribute:
            if attribute.type == kinds.TENSOR:
                value = self._array(attribute.t)
                if value is not None:
                    found[attribute.name] = value
            elif attribute.type in (
                kinds.INT,
                kinds.FLOAT,
                kinds.STRING,
                kinds.INTS,
                kinds.FLOATS,
                kinds.STRINGS,
            ):
                found[attribute.name] = self.onnx.helper.get_attribute_value(attribute)
        return found

    def _values(self, node: Node, proto: Any) -> list[NDArray[Any]] | None:
        if node.op == "Constant":
            value = constant_value(node)
            return None if value is None else [value]
        known = [self.tensors[name] if name else None for name in node.inputs]
        if node.op in ("Shape", "Size") and known and known[0] is not None and known[0].shape is not None:
            shape = known[0].shape
            part = slice(node.integer("start", 0), node.attributes.get("end"))
            return [np.array(shape[part] if node.op == "Shape" else np.prod(shape, dtype=np.int64), np.int64)]
        if any(tensor is not None and tensor.value is None for tensor in known) or not known:
            return None
        return arithmetic.evaluate(node, [t.value if t is not None else None for t in known], numpy_types())

    def _infer_shapes(self, proto: Any) -> dict[str, Any]:
        """What ONNX says about a node's outputs; empty where it cannot say."""
        if proto.op_type in BODIES:
            return {}
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        try:
            schema = self.onnx.defs.get_schema(proto.op_type, self.opsets.get(domain, 1), domain)
            types = {name: self.types[name] for name in proto.input if name}
            data = {}
            for name in types:
                value = self.tensors[name].value
                if value is not None and value.dtype != object:
                    data[name] = self.onnx.numpy_helper.from_array(np.asarray(value), name)
            opsets = [self.onnx.helper.make_opsetid(d, v) for d, v in self.opsets.items()]
            found: dict[str, Any] = self.onnx.shape_inference.infer_node_outputs(
                schema, proto, types, data, opset_imports=opsets, ir_version=self.model.ir_version
            )
        except Exception:  # a node that ONNX refuses is priced by what the file states
            return {}
        return found

    def _output(self, name: str, found: Any, value: NDArray[Any] | None) -> None:
        stated = self.stated.get(name)
        shape = value.shape if value is not None else self._shape(found)
        shape = shape if shape is not None else self._shape(stated)
        kind = next(
            (t.tensor_type.elem_type for t in (found, stated) if t is not None and t.tensor_type.elem_type),
            None,
        )
        if kind is None:
            kind = self.onnx.TensorProto.INT64 if value is not None and value.dtype == np.int64 else 1
        small = value is not None and value.size <= arithmetic.MAX_ELEMENTS
        self._put(name, shape, kind, constant=value is not None, value=value if small else None)

    def _shape(self, type_: Any) -> Shape | None:
        if type_ is None or not type_.tensor_type.HasField("shape"):
            return None
        sizes: list[int] = []
        for dim in type_.tensor_type.shape.dim:
            size = dim.dim_value if dim.HasField("dim_value") else self.dimensions.given.get(dim.dim_param)
            if size is None or size < 0:
                return None
            sizes.append(size)
        return tuple(sizes)

    def _put(
        self,
        name: str,
        shape: Shape | None,
        kind: int,
        *,
        constant: bool = False,
        value: NDArray[Any] | None = None,
        stored: int | None = None,
    ) -> None:
        width, is_float = width_of(kind)
        self.tensors[name] = Tensor(shape, width, is_float, constant, value, stored)
        type_ = self.onnx.TypeProto()
        type_.tensor_type.elem_type = kind
        if shape is not None:
            type_.tensor_type.shape.SetInParent()
            for size in shape:
                type_.tensor_type.shape.dim.add().dim_value = min(size, 2**62)
        self.types[name] = type_

    def _array(self, tensor: Any) -> NDArray[Any] | None:
        if tensor.data_location == self.onnx.TensorProto.EXTERNAL:
            return None
        try:
            return self.onnx.numpy_helper.to_array(tensor)
        except Exception:  # damaged or missing values: only the shape is needed
            return None


def names_of(graph: Any) -> Iterator[Any]:
    """All names in a GraphProto, its nodes' bodies aside; bytes instead of a text where one is not UTF-8."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
    for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield info.name


def captured_names(proto: Any) -> list[str]:
    """Names that the graphs inside a node (a NodeProto) read from outside."""
    found: dict[str, None] = {}
    for attribute in proto.attribute:
        for graph in (attribute.g, *attribute.graphs):
            inside = {info.name for info in graph.input} | {t.name for t in graph.initializer}
            for node in graph.node:
                found |= dict.fromkeys(
                    n for n in (*node.input, *captured_names(node)) if n and n not in inside
                )
                inside |= set(node.output)
            found |= dict.fromkeys(info.name for info in graph.output if info.name not in inside)
    return list(found)


def held_inside(proto: Any) -> list[Any]:
    """The initializers (TensorProto) of the graphs inside a node (a NodeProto)."""
    return [
        tensor
        for attribute in proto.attribute
        for graph in (attribute.g, *attribute.graphs)
        for tensor in (*graph.initializer, *(t for node in graph.node for t in held_inside(node)))
    ]


def constant_value(node: Node) -> NDArray[Any] | None:
    """What a Constant holds; None where it is no plain tensor."""
    for name, dtype in (("value_int", np.int64), ("value_ints", np.int64), ("value_float", np.float32)):
        if name in node.attributes:
            return np.asarray(node.attributes[name], dtype)
    if "value_floats" in node.attributes:
        return np.asarray(node.attributes["value_floats"], np.float32)
    value = node.attributes.get("value")
    return value if isinstance(value, np.ndarray) and value.dtype != object else None


@lru_cache(maxsize=1)
def numpy_types() -> dict[int, Any]:
    """NumPy's type for the number of each type in the file."""
    import onnx

    numbers = onnx.helper.get_all_tensor_dtypes()
    return {number: onnx.helper.tensor_dtype_to_np_dtype(number) for number in numbers}


@lru_cache(maxsize=64)
def width_of(kind: int) -> tuple[float, bool]:
    """Bytes an element of a type in the file, and whether it holds numbers to compute with."""
    import onnx

    try:
        name = onnx.TensorProto.DataType.Name(kind)
    except ValueError:
        return 4.0, True
    bits = {"FLOAT": 32, "DOUBLE": 64, "BOOL": 8, "STRING": 64, "COMPLEX64": 64, "COMPLEX128": 128}.get(name)
    if bits is None:
        digits = "".join(c for c in name.split("E")[0] if c.isdigit())
        bits = int(digits) if digits else 32
    return bits / 8, name not in ("BOOL", "STRING", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64")
