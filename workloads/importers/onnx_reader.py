"""The nodes of an ONNX graph with the shape of every tensor, as far as ONNX infers it or the file states it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.errors import InputError
from workloads.importers.contraction import einsum_shape
from workloads.importers.dimensions import Dimensions
from workloads.importers.ir import Body, ModelGraph, Node, Shape, Tensor
from workloads.importers.uncounted import names as name_list
from workloads.importers.vocabulary import COMPUTED, SAME_AS

MAX_NODES = 1_000_000
MAX_ELEMENTS = 4096
"""Elements of a tensor whose value is followed."""
INT64 = 7
"""ONNX's number of the type."""

Writer = Callable[["Reader", Any], list[Node] | None]
"""What a node (NodeProto) is in others, its outputs in scope then; None where that cannot be said."""


class Reader:
    """Walks the nodes once, following shapes and small values.

    Every graph of the model, those inside nodes too, has its own names: `scope` says which tensor a name means there.

    Attributes:
        tensors: by name; that of a graph inside a node begins with the node's name.
        sequences: names of the tensors in each sequence that is known.
        remarks: what was taken for granted, a line with {names}, and the names of the nodes that it is about.
    """

    def __init__(
        self, onnx: Any, model: Any, file: str, dimensions: Dimensions, writers: Mapping[str, Writer]
    ) -> None:
        self.onnx, self.model, self.file, self.dimensions = onnx, model, file, dimensions
        self.opsets = {opset.domain: opset.version for opset in model.opset_import}
        self.newest = {"": onnx.defs.onnx_opset_version()}
        self.writers = writers
        self.tensors: dict[str, Tensor] = {}
        self.types: dict[str, Any] = {}
        self.stated: dict[str, Any] = {}
        self.sequences: dict[str, tuple[str, ...]] = {}
        self.has_formulas = model.producer_name != "pytorch" or all(
            node.op_type != "Constant" for node in model.graph.node
        )
        """Whether initializers without axes are numbers of formulas, and no parameters: PyTorch's older exporter has
        nodes for them."""
        self.scope: ChainMap[str, str] = ChainMap()
        self.prefix, self.count = "", 0
        self.held: dict[str, str] = {}
        self.remarks: dict[str, list[str]] = {}

    def graph(self) -> ModelGraph:
        """The whole model. Raises InputError, as everything here does, where it contradicts itself."""
        graph = self.model.graph
        self._initializers(graph)
        inputs = [info for info in graph.input if info.name and info.name not in self.scope]
        for info in inputs:
            self._input(info)
        self.dimensions.check(self.file)
        nodes = tuple(self._nodes(graph))
        written = (name for name in self._members(self._outputs(graph)) if name in self.tensors)
        outputs, names = tuple(written), tuple(info.name for info in inputs)
        called = {name: at for name, at in self.scope.items() if name != at}
        remarks = tuple(
            says.format(names=name_list(list(dict.fromkeys(who)))) for says, who in self.remarks.items()
        )
        # A cache is handed in and out: a runtime gives both the same memory.
        shapes = {self.tensors[name].shape for name in outputs}
        states = frozenset(name for name in names if self.tensors[name].shape in shapes)
        unread = {self.scope[name]: name for name in unread_of(graph)}
        return ModelGraph(graph.name, nodes, self.tensors, names, outputs, remarks, called, states, unread)

    def body(
        self, graph: Any, name: str, given: Sequence[str], held: dict[str, str] | None = None
    ) -> tuple[list[Node], tuple[str, ...]]:
        """The nodes of a graph (GraphProto) inside the node called `name`, and its outputs. `given` are its inputs.

        `held` has the constants of a graph that is read several times: those in it are not made again.
        """
        outer = self.scope, self.prefix, self.held
        held = {} if held is None else held
        self.scope, self.prefix, self.held = self.scope.new_child(), f"{self.prefix}{name}/", held
        try:
            self.scope.update((info.name, at) for info, at in zip(graph.input, given, strict=False))
            self._initializers(graph)
            nodes, outputs = self._nodes(graph), self._outputs(graph)
            constants = [t.name for t in graph.initializer]
            constants += [name for node in graph.node if node.op_type == "Constant" for name in node.output]
            held.update((name, self.scope[name]) for name in constants)
        finally:
            self.scope, self.prefix, self.held = outer
        return nodes, outputs

    def _nodes(self, graph: Any) -> list[Node]:
        for info in (*graph.value_info, *graph.output):
            self.stated[self.prefix + info.name] = info.type
        return [node for proto in graph.node for node in self.node(proto)]

    def _outputs(self, graph: Any) -> tuple[str, ...]:
        missing = next((info.name for info in graph.output if info.name not in self.scope), None)
        if missing is not None:
            raise InputError(f"{self.file}: expected output {missing!r} to be written by a node, found none")
        return tuple(self.scope[info.name] for info in graph.output)

    def elements(self, names: Iterable[str]) -> tuple[str, ...]:
        """The tensors that names mean; those in a sequence instead of it. "" stays."""
        return self._members(self.scope[name] if name else "" for name in names)

    def _members(self, tensors: Iterable[str]) -> tuple[str, ...]:
        return tuple(each for name in tensors for each in self.sequences.get(name, (name,)))

    def _initializers(self, graph: Any) -> None:
        for tensor in graph.initializer:
            if tensor.name in self.held:
                self.scope[tensor.name] = self.held[tensor.name]
                continue
            shape = tuple(int(d) for d in tensor.dims)
            if any(d < 0 for d in shape):
                raise InputError(
                    f"{self.file}: initializer {tensor.name!r}: expected sizes >= 0, found {shape}"
                )
            array = self.array(tensor) if np.prod(shape, dtype=float) <= MAX_ELEMENTS else None
            self._check_place(tensor)
            name = self.define(tensor.name)
            self.put(name, shape, tensor.data_type, constant=True, value=array)
            if not shape and self.has_formulas:
                self.tensors[name] = replace(self.tensors[name], learned=0)
        for sparse in graph.sparse_initializer:
            shape = tuple(int(d) for d in sparse.dims)
            stored = prod(max(0, d) for d in sparse.values.dims)
            name = self.define(sparse.values.name)
            self.put(name, shape, sparse.values.data_type, constant=True, stored=stored)

    def _check_place(self, tensor: Any) -> None:
        """InputError where the values of a tensor lie outside the model's folder."""
        for entry in tensor.external_data:
            place = str(entry.value)  # bytes where it is not UTF-8
            paths = PurePosixPath(place), PureWindowsPath(place)
            outside = any(path.is_absolute() or path.drive or ".." in path.parts for path in paths)
            if entry.key == "location" and outside:
                raise InputError(
                    f"{self.file}: tensor {tensor.name!r}: expected its values in a file below the model's folder,"
                    f" found {entry.value!r}"
                )

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
            place, where = f"{info.name}[{axis}]", f"input {info.name!r}"
            size = dim.dim_value if known else self.dimensions.size(dim.dim_param, where, place)
            sizes.append(size or 0)
        self.put(self.define(info.name), tuple(sizes), tensor.elem_type)

    def remark(self, line: str, node: Any) -> None:
        """Note that a line with {names} is about a node, too."""
        self.remarks.setdefault(line, []).append(name_of(node))

    def define(self, name: str) -> str:
        """A new tensor, called `name` in the graph that is being read."""
        self.scope[name] = self.prefix + name
        return self.prefix + name

    def alias(self, name: str, tensor: str) -> None:
        """Let `name` mean a tensor that there is; what the file states of it counts where its shape is not known."""
        stated = self.stated_shape(name)
        if tensor in self.tensors and self.tensors[tensor].shape is None and stated is not None:
            self.put(tensor, stated, self.kind(tensor))
        self.scope[name] = tensor

    def node(self, proto: Any, newest: bool = False) -> list[Node]:
        """The nodes that a node of the graph is; `newest`: it is one of the newest version of ONNX's ops."""
        self.count += 1
        if self.count > MAX_NODES:
            raise InputError(
                f"{self.file}: expected at most {MAX_NODES} nodes with those of loops, found more"
            )
        if proto.output and all(name in self.held for name in proto.output):
            self.scope.update((name, self.held[name]) for name in proto.output)
            return []
        self._check(proto)
        outer, self.opsets = self.opsets, {**self.opsets, **self.newest} if newest else self.opsets
        try:
            writer = self.writers.get(op_of(proto))
            written = writer(self, proto) if writer is not None else None
            return [self._leaf(proto)] if written is None else written
        except (ValueError, TypeError, IndexError, KeyError, OverflowError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{self.file}: node {name_of(proto)!r} ({op_of(proto)}): expected inputs and attributes as its op has"
                f" them, found others ({error})"
            ) from None
        finally:
            self.opsets = outer

    def _check(self, proto: Any) -> None:
        where = f"{self.file}: node {name_of(proto)!r}"
        late = next((name for name in proto.input if name and name not in self.scope), None)
        if late is not None:
            raise InputError(
                f"{where} ({op_of(proto)}): expected inputs that are written before, found {late!r} (loop or"
                " missing tensor)"
            )
        outputs = [name for name in proto.output if name]
        again = next((name for name in outputs if name in self.scope.maps[0]), None)
        if again is not None or len(set(outputs)) < len(outputs):
            raise InputError(f"{where}: expected new names of outputs, found {again or outputs!r} again")

    def _leaf(self, proto: Any) -> Node:
        node, graphs = self.translate(proto), graphs_of(proto)
        self._check_attributes(proto, node.name)
        types = {} if graphs or node.op == "Einsum" else self._infer_shapes(proto)
        body = self._unknown_body(node, graphs) if graphs else None
        values = self._values(node, proto, types)
        for i, name in enumerate(proto.output):
            if name:
                value = values[i] if i < len(values) else None
                self._output(self.define(name), types.get(name), value, node.op == "Constant")
        if node.op == "Einsum":
            self._einsum(node)
        return replace(node, body=body)

    def _check_attributes(self, proto: Any, name: str) -> None:
        schema = self._schema(proto)
        known = schema.attributes if schema is not None else {}
        wrong = (
            a.name for a in proto.attribute if a.name in known and a.type not in (0, known[a.name].type.value)
        )
        found = next(wrong, None)
        if found is not None:
            raise InputError(
                f"{self.file}: node {name!r} ({op_of(proto)}): expected attributes of their types, found another of"
                f" {found}"
            )

    def _schema(self, proto: Any) -> Any:
        """What ONNX says of an op; None where it does not know it."""
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        try:
            return self.onnx.defs.get_schema(proto.op_type, self.opsets.get(domain, 1), domain)
        except self.onnx.defs.SchemaError:
            return None

    def _einsum(self, node: Node) -> None:
        """Give the result of an Einsum its type and shape. ONNX says other shapes of axes of size 1, none of fewer axes
        under an ellipsis, and never ends with some equations that are none."""
        shapes = [self.tensors[name].shape for name in node.inputs]
        given = [shape for shape in shapes if shape is not None]
        shape = einsum_shape(node.text("equation"), given) if len(given) == len(shapes) else None
        self.put(node.outputs[0], shape, self.kind(node.inputs[0]))

    def _unknown_body(self, node: Node, graphs: list[Any]) -> Body:
        """The graphs inside a node of which nobody knows how often they run."""
        nodes: list[Node] = []
        inputs: list[str] = []
        outputs: list[str] = []
        for k, graph in enumerate(graphs):
            given = [f"{self.prefix}{node.name}/{k}/{info.name}" for info in graph.input]
            for info, name in zip(graph.input, given, strict=True):
                self.put(name, self._shape(info.type), info.type.tensor_type.elem_type or 1)
            read, written = self.body(graph, f"{node.name}/{k}", given)
            nodes, inputs, outputs = [*nodes, *read], [*inputs, *given], [*outputs, *written]
        return Body(tuple(nodes), tuple(inputs), tuple(outputs), None)

    def translate(self, proto: Any) -> Node:
        """The node in the words of the graph: its inputs and outputs are tensors."""
        op, inputs = op_of(proto), list(proto.input)
        if op in SAME_AS:
            op, positions = SAME_AS[op]
            inputs = [inputs[i] for i in positions if i < len(inputs)]
        outputs = tuple(self.prefix + name if name else "" for name in proto.output)
        name = name_of(proto) or op or "unnamed"
        return Node(name, op or "unnamed", self.elements(inputs), outputs, self.attributes(proto))

    def attributes(self, proto: Any) -> dict[str, Any]:
        """Attributes that are numbers, texts or lists of them."""
        kinds = self.onnx.AttributeProto
        plain = (kinds.INT, kinds.FLOAT, kinds.STRING, kinds.INTS, kinds.FLOATS, kinds.STRINGS)
        found: dict[str, Any] = {}
        for attribute in proto.attribute:
            if attribute.type == kinds.TENSOR:
                self._check_place(attribute.t)
            elif attribute.type in plain:
                found[attribute.name] = self.onnx.helper.get_attribute_value(attribute)
        return found

    def value(self, name: str) -> NDArray[Any] | None:
        """What the tensor called `name` holds, where that is known and small."""
        tensor = self.tensors.get(self.scope.get(name, ""))
        return None if tensor is None else tensor.value

    def shape(self, name: str) -> Shape | None:
        """The shape of the tensor called `name`; None where it is not known or there is no such tensor."""
        tensor = self.tensors.get(self.scope.get(name, ""))
        return None if tensor is None else tensor.shape

    def kind(self, tensor: str) -> int:
        """ONNX's number of the type of a tensor of the whole model."""
        return int(self.types[tensor].tensor_type.elem_type)

    def stated_shape(self, name: str) -> Shape | None:
        """What the file states of the shape of an output that is still to be written."""
        return self._shape(self.stated.get(self.prefix + name))

    def _values(self, node: Node, proto: Any, types: Mapping[str, Any]) -> list[NDArray[Any]]:
        """What a node's outputs hold; none where that is not known, or not to be had cheaply."""
        known = [self.tensors[name] if name else None for name in node.inputs]
        if node.op in ("Shape", "Size") and known and known[0] is not None and known[0].shape is not None:
            shape = known[0].shape
            part = slice(node.integer("start", 0), node.attributes.get("end"))
            return [np.array(shape[part] if node.op == "Shape" else np.prod(shape, dtype=np.int64), np.int64)]
        shapes = [self._shape(types.get(name)) for name in proto.output if name]
        if op_of(proto) not in COMPUTED or any(s is None or prod(s) > MAX_ELEMENTS for s in shapes):
            return []
        given = self._given(proto)
        if any(value is None for value in given.values()) or any(map(self._is_beside, proto.attribute)):
            return []
        try:
            found = self.evaluator([proto], list(given), list(proto.output))(given)
        except Exception:  # arithmetic that ONNX refuses is not followed
            return []
        arrays = [np.asarray(value) for value in found]
        return arrays if all(a.dtype != object and a.size <= MAX_ELEMENTS for a in arrays) else []

    def evaluator(
        self, protos: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str]
    ) -> Callable[[Mapping[str, Any]], list[Any]]:
        """What runs some nodes: values by name in, those of `outputs` out. It raises whatever ONNX does."""
        function = self.onnx.helper.make_function("", "f", inputs, outputs, protos, self._imports())
        evaluator = self.onnx.reference.ReferenceEvaluator(function)

        def run(given: Mapping[str, Any]) -> list[Any]:
            with np.errstate(all="ignore"):
                return list(evaluator.run(None, dict(given), {}))

        return run

    def _given(self, proto: Any) -> dict[str, NDArray[Any] | None]:
        """What a node's inputs hold, by name; None where that is not known."""
        given = {name: self.value(name) for name in proto.input if name}
        if proto.op_type == "Range":  # ONNX's own definition of AffineGrid gives it lists of one number
            given = {k: v.reshape(()) if v is not None and v.size == 1 else v for k, v in given.items()}
        return given

    def _imports(self) -> list[Any]:
        return [self.onnx.helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]

    def _infer_shapes(self, proto: Any) -> dict[str, Any]:
        """What ONNX says about a node's outputs; empty where it cannot say."""
        try:
            types = {name: self.types[self.scope[name]] for name in proto.input if name}
            known = {name: value for name, value in self._given(proto).items() if value is not None}
            data = {name: self.onnx.numpy_helper.from_array(value, name) for name, value in known.items()}
            types |= {
                name: self.onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
                for name, tensor in data.items()
            }
            found: dict[str, Any] = self.onnx.shape_inference.infer_node_outputs(
                self._schema(proto),
                proto,
                types,
                data,
                opset_imports=self._imports(),
                ir_version=self.model.ir_version,
            )
        except Exception:  # a node that ONNX refuses is priced by what the file states
            return {}
        return found

    def _output(self, name: str, found: Any, value: NDArray[Any] | None, constant: bool) -> None:
        types = [type_ for type_ in (found, self.stated.get(name)) if type_ is not None]
        shapes = (value.shape if value is not None else None, *map(self._shape, types))
        shape = next((each for each in shapes if each is not None), None)
        kinds = (type_.tensor_type.elem_type for type_ in types)
        kind = next(filter(None, kinds), INT64 if value is not None and value.dtype == np.int64 else 1)
        self.put(name, shape, kind, constant=constant or value is not None, value=value)

    def _shape(self, type_: Any) -> Shape | None:
        if type_ is None or not type_.tensor_type.HasField("shape"):
            return None
        sizes: list[int] = []
        for dim in type_.tensor_type.shape.dim:
            size = dim.dim_value if dim.HasField("dim_value") else self.dimensions.known(dim.dim_param)
            if size is None or size < 0:
                return None
            sizes.append(size)
        return tuple(sizes)

    def put(
        self,
        name: str,
        shape: Shape | None,
        kind: int,
        *,
        constant: bool = False,
        value: NDArray[Any] | None = None,
        stored: int | None = None,
    ) -> None:
        """A tensor of ONNX's type number `kind`, as `Tensor` has its other fields."""
        width, is_float = width_of(kind)
        self.tensors[name] = Tensor(shape, width, is_float, constant, value, stored)
        type_ = self.onnx.TypeProto()
        type_.tensor_type.elem_type = kind
        if shape is not None:
            type_.tensor_type.shape.SetInParent()
            for size in shape:
                type_.tensor_type.shape.dim.add().dim_value = min(size, 2**62)
        self.types[name] = type_

    def _is_beside(self, attribute: Any) -> bool:
        """Whether the values of an attribute lie in another file."""
        tensors = attribute.t, attribute.sparse_tensor.values, attribute.sparse_tensor.indices
        return any(tensor.data_location == self.onnx.TensorProto.EXTERNAL for tensor in tensors)

    def array(self, tensor: Any) -> NDArray[Any] | None:
        """The values of a TensorProto; None where they are not in the file."""
        if tensor.data_location == self.onnx.TensorProto.EXTERNAL:
            return None
        try:
            found: NDArray[Any] = self.onnx.numpy_helper.to_array(tensor)
        except Exception:  # damaged or missing values: only the shape is needed
            return None
        return None if found.dtype == object else found


def op_of(proto: Any) -> str:
    """The type of a node's op; in other domains than ONNX's own with the domain before it."""
    return str(proto.op_type if proto.domain in ("", "ai.onnx") else f"{proto.domain}.{proto.op_type}")


def name_of(proto: Any) -> str:
    """What a node is called in an imported workload: its name, or its first output where it has none."""
    return str(proto.name or next((o for o in proto.output if o), proto.op_type))


def graphs_of(proto: Any) -> list[Any]:
    """The graphs inside a node (NodeProto)."""
    return [
        graph
        for attribute in proto.attribute
        for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs)
    ]


def unread_of(graph: Any) -> list[str]:
    """Names of the initializers of a model's graph (GraphProto) that no node needs on which an output depends."""
    wanted = {info.name for info in graph.output}
    for proto in reversed(graph.node):
        if wanted.intersection(filter(None, proto.output)):
            wanted.update(_reads(proto))
    held = [tensor.name for tensor in graph.initializer]
    held += [sparse.values.name for sparse in graph.sparse_initializer]
    return [name for name in held if name not in wanted]


def _reads(proto: Any) -> Iterator[str]:
    """The names that a node (NodeProto) and the graphs inside it read."""
    yield from proto.input
    for graph in graphs_of(proto):
        yield from (info.name for info in graph.output)
        for node in graph.node:
            yield from _reads(node)


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
