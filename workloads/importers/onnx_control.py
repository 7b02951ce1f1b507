"""Branches, loops and sequences of ONNX as nodes that compute.

- **If**: the branch that a constant condition takes, else the one with more multiply-accumulates (then the one that
  reads more), with a remark. Its nodes stand in place of it.
- **Loop, Scan**: one node with a body that runs as often as constants and shapes say. A loop that could end sooner runs
  to its limit, with a remark. Where what it hands on grows or is a sequence, its trips are written out one by one.
- **Sequences and optionals**: which tensors are in them is followed; nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workloads.importers.ir import Body, Node, Shape
from workloads.importers.onnx_reader import INT64, Reader, Writer, graphs_of, name_of
from workloads.importers.work import products_of

MAX_TRIPS = 1_000_000
"""A larger limit of a loop says only that it has none."""
MAX_WRITTEN = 100_000
"""Nodes that a loop whose trips differ may become."""
BOOL = 9
"""ONNX's number of the type."""


def _if(reader: Reader, proto: Any) -> list[Node] | None:
    graphs = {attribute.name: attribute.g for attribute in proto.attribute}
    if set(graphs) != {"then_branch", "else_branch"}:
        return None
    condition = reader.value(proto.input[0]) if proto.input else None
    taken = list(graphs)
    if condition is not None and condition.size == 1:
        taken = ["then_branch" if condition.item() else "else_branch"]
    read = [reader.body(graphs[name], f"{name_of(proto)}/{name}", ()) for name in taken]
    nodes, outputs = max(read, key=lambda each: _work(reader, each[0]))
    if len(read) > 1:
        reader.remark(
            "If whose condition depends on data ({names}): counted as the larger branch, nothing of the other",
            proto,
        )
    for local, tensor in zip(proto.output, outputs, strict=False):
        if local:
            reader.alias(local, tensor)
    return nodes


def _work(reader: Reader, nodes: Sequence[Node]) -> tuple[int, int]:
    """(multiply-accumulates, elements of what is read) of the nodes of a branch."""
    tensors = reader.tensors
    macs = [
        gemm.macs
        for node in nodes
        for gemm in products_of(node, lambda name: tensors[name].shape or ()) or ()
    ]
    return sum(macs), sum(tensors[name].elements for node in nodes for name in node.inputs if name)


def _loop(reader: Reader, proto: Any) -> list[Node] | None:
    (graph,) = graphs_of(proto) or (None,)
    if graph is None or len(proto.input) < 2 or len(graph.input) < len(proto.input):
        return None
    limit, go = (reader.value(name) for name in proto.input[:2])
    most = MAX_TRIPS if limit is None else int(limit.item())
    if go is not None and not go.item():
        most = 0
    start = reader.elements(proto.input[2:])
    if any(name in reader.sequences for name in (reader.scope.get(each, "") for each in proto.input[2:])):
        return _written_out(reader, proto, graph, most)
    fresh = [
        _fresh(reader, proto, graph.input[0].name, (), INT64),
        _constant(reader, proto, graph.input[1].name, np.array(True)),
        *(_like(reader, proto, info.name, at) for info, at in zip(graph.input[2:], start, strict=False)),
    ]
    nodes, outputs = reader.body(graph, name_of(proto), fresh)
    shapes = [reader.tensors[name].shape for name in outputs]
    if any(reader.tensors[a].shape != b for a, b in zip(fresh[2:], shapes[1:], strict=False)):
        return _written_out(reader, proto, graph, most)
    trips = _trips(reader, proto, outputs[0], most)
    finals = len(start)
    scans = [None if trips is None or shape is None else (trips, *shape) for shape in shapes[1 + finals :]]
    body = Body(tuple(nodes), tuple(fresh), outputs[1:], trips, outputs[: 1 + finals])
    return [_node(reader, proto, body, [*shapes[1 : 1 + finals], *scans])]


def _trips(reader: Reader, proto: Any, condition: str, most: int) -> int | None:
    """How often a loop runs at most; None where nothing says it."""
    again = reader.tensors[condition].value
    if again is not None and not again.item():
        return min(1, most)
    if most >= MAX_TRIPS:
        return None
    if again is None and most > 1:
        reader.remark("Loop that may end sooner ({names}): counted with all its trips", proto)
    return max(0, most)


def _written_out(reader: Reader, proto: Any, graph: Any, most: int) -> list[Node] | None:
    """The nodes of every trip of a loop, one after another."""
    if most * max(1, len(graph.node)) > MAX_WRITTEN:
        return None
    carried = [reader.scope.get(name, "") for name in proto.input[2:]]
    kept: list[tuple[str, ...]] = []
    nodes: list[Node] = []
    held: dict[str, str] = {}
    for trip in range(most):
        count = _constant(reader, proto, f"{trip}/count", np.array(trip))
        go = _constant(reader, proto, f"{trip}/go", np.array(True))
        read, written = reader.body(graph, f"{name_of(proto)}/{trip}", [count, go, *carried], held)
        nodes += read
        carried, left = list(written[1 : 1 + len(carried)]), written[1 + len(carried) :]
        kept.append(left)
        again = reader.tensors[written[0]].value
        if again is not None and not again.item():
            break
    for local, tensor in zip(proto.output, carried, strict=False):
        if local:
            reader.alias(local, tensor)
    for local, parts in zip(proto.output[len(carried) :], zip(*kept, strict=True), strict=False):
        if local:
            shape, kind = reader.tensors[parts[0]].shape, reader.types[parts[0]].tensor_type.elem_type
            reader.put(reader.define(local), None if shape is None else (len(parts), *shape), kind)
            nodes.append(Node(name_of(proto), "Concat", parts, (reader.scope[local],), {"axis": 0}))
    return nodes


def _scan(reader: Reader, proto: Any) -> list[Node] | None:
    attributes = reader.attributes(proto)
    (graph,) = graphs_of(proto) or (None,)
    count = int(attributes.get("num_scan_inputs", 0))
    if graph is None or not 0 < count <= len(proto.input) or reader.opsets.get("", 1) < 9:
        return None
    given = reader.elements(proto.input)
    states = len(given) - count
    axes = list(attributes.get("scan_input_axes", [0] * count))
    shapes = [reader.tensors[name].shape for name in given[states:]]
    if len(graph.input) != len(given) or not all(shapes):
        return None
    trips = (shapes[0] or ())[axes[0]]
    fresh = [_like(reader, proto, info.name, at) for info, at in zip(graph.input, given, strict=True)]
    for name, axis, shape in zip(fresh[states:], axes, shapes, strict=True):
        left = list(shape or ())
        del left[axis]
        reader.put(name, tuple(left), reader.types[name].tensor_type.elem_type)
    nodes, outputs = reader.body(graph, name_of(proto), fresh)
    found = [reader.tensors[name].shape for name in outputs]
    along = list(attributes.get("scan_output_axes", [0] * (len(outputs) - states)))
    scans = [_with_axis(shape, axis, trips) for shape, axis in zip(found[states:], along, strict=True)]
    body = Body(tuple(nodes), tuple(fresh), outputs, trips, outputs[:states])
    return [_node(reader, proto, body, [*found[:states], *scans])]


def _with_axis(shape: Shape | None, axis: int, size: int) -> Shape | None:
    if shape is None:
        return None
    at = axis % (len(shape) + 1)
    return (*shape[:at], size, *shape[at:])


def _node(reader: Reader, proto: Any, body: Body, shapes: Sequence[Shape | None]) -> Node:
    """A loop; its outputs have the types of what its body hands on."""
    node = reader.translate(proto)
    for local, inner, shape in zip(proto.output, body.outputs, shapes, strict=False):
        if local:
            reader.put(reader.define(local), shape, reader.types[inner].tensor_type.elem_type)
            reader.alias(local, reader.scope[local])
    return Node(node.name, node.op, node.inputs, node.outputs, node.attributes, body)


def _fresh(reader: Reader, proto: Any, name: str, shape: Shape | None, kind: int) -> str:
    """A tensor that is another one in each trip."""
    made = f"{reader.prefix}{name_of(proto)}/{name}"
    reader.put(made, shape, kind)
    return made


def _like(reader: Reader, proto: Any, name: str, other: str) -> str:
    return _fresh(reader, proto, name, reader.tensors[other].shape, reader.types[other].tensor_type.elem_type)


def _constant(reader: Reader, proto: Any, name: str, value: Any) -> str:
    made = f"{reader.prefix}{name_of(proto)}/{name}"
    reader.put(made, value.shape, BOOL if value.dtype == bool else INT64, constant=True, value=value)
    return made


# ---- sequences and optionals


def _sequence(members: Callable[[Reader, Any], Sequence[str] | None]) -> Writer:
    """Writer of an op whose output is a sequence, of which `members` says the tensors."""

    def write(reader: Reader, proto: Any) -> list[Node] | None:
        found = members(reader, proto)
        if found is None:
            return None
        reader.sequences[reader.define(proto.output[0])] = tuple(found)
        return []

    return write


def _members(reader: Reader, proto: Any) -> list[str] | None:
    found = reader.sequences.get(reader.scope.get(proto.input[0], ""))
    return None if found is None else list(found)


def _place(reader: Reader, proto: Any, position: int, default: int, length: int) -> int | None:
    """A place in a sequence; None where data say it."""
    if len(proto.input) <= position or not proto.input[position]:
        return default
    value = reader.value(proto.input[position])
    at = -1 if value is None else int(value.item())
    at += length if value is not None and at < 0 else 0
    return at if 0 <= at <= length else None


def _inserted(reader: Reader, proto: Any) -> list[str] | None:
    found = _members(reader, proto)
    at = None if found is None else _place(reader, proto, 2, len(found), len(found))
    if found is None or at is None:
        return None
    return [*found[:at], *reader.elements([proto.input[1]]), *found[at:]]


def _erased(reader: Reader, proto: Any) -> list[str] | None:
    found = _members(reader, proto)
    at = None if not found else _place(reader, proto, 1, len(found) - 1, len(found))
    return None if not found or at is None else [name for k, name in enumerate(found) if k != at]


def _split(reader: Reader, proto: Any) -> list[Node] | None:
    attributes, shape = reader.attributes(proto), reader.shape(proto.input[0])
    if shape is None or not shape:
        return None
    axis = int(attributes.get("axis", 0)) % len(shape)
    sizes: list[int] = [1] * shape[axis]
    if len(proto.input) > 1 and proto.input[1]:
        value = reader.value(proto.input[1])
        if value is None or (value.ndim == 0 and int(value) < 1):
            return None
        sizes = [int(v) for v in value.ravel()]
        if value.ndim == 0:
            sizes = [min(sizes[0], shape[axis] - k) for k in range(0, shape[axis], sizes[0])]
    squeezed = len(proto.input) < 2 and not attributes.get("keepdims", 1)
    kind = reader.types[reader.scope[proto.input[0]]].tensor_type.elem_type
    names = []
    for k, size in enumerate(sizes):
        left = shape[axis + 1 :] if squeezed else (size, *shape[axis + 1 :])
        names.append(_fresh(reader, proto, f"part{k}", (*shape[:axis], *left), kind))
    reader.sequences[reader.define(proto.output[0])] = tuple(names)
    return [Node(name_of(proto), "Split", reader.elements(proto.input[:1]), tuple(names))]


def _at(reader: Reader, proto: Any) -> list[Node] | None:
    found = _members(reader, proto)
    at = None if not found else _place(reader, proto, 1, 0, len(found))
    if not found or at is None or at == len(found):
        return None
    reader.alias(proto.output[0], found[at])
    return []


def _length(reader: Reader, proto: Any) -> list[Node] | None:
    found = _members(reader, proto)
    if found is None:
        return None
    reader.alias(proto.output[0], _constant(reader, proto, "length", np.array(len(found))))
    return []


def _joined(reader: Reader, proto: Any) -> list[Node] | None:
    found = _members(reader, proto)
    shapes = [reader.tensors[name].shape for name in found or ()]
    if not found or any(shape is None for shape in shapes):
        return None
    attributes, first = reader.attributes(proto), list(shapes[0] or ())
    axis = int(attributes.get("axis", 0))
    if attributes.get("new_axis", 0):
        shape = _with_axis(tuple(first), axis, len(found))
    else:
        first[axis] = sum((each or ())[axis] for each in shapes)
        shape = tuple(first)
    reader.put(reader.define(proto.output[0]), shape, reader.types[found[0]].tensor_type.elem_type)
    return [Node(name_of(proto), "Concat", tuple(found), (reader.scope[proto.output[0]],), {"axis": axis})]


def _same(reader: Reader, proto: Any) -> list[Node] | None:
    """What holds one thing, which is a sequence or an optional's."""
    if not proto.input or not proto.input[0]:
        return None
    reader.alias(proto.output[0], reader.scope[proto.input[0]])
    return []


def _identity(reader: Reader, proto: Any) -> list[Node] | None:
    """None of a tensor: it is a node then."""
    return None if not proto.input or reader.scope[proto.input[0]] in reader.tensors else _same(reader, proto)


def _optional(reader: Reader, proto: Any) -> list[Node] | None:
    """An optional that holds nothing is the name of no tensor and no sequence."""
    if proto.input and proto.input[0]:
        return _same(reader, proto)
    reader.define(proto.output[0])
    return []


def _is_there(reader: Reader, proto: Any) -> list[Node] | None:
    held = reader.scope[proto.input[0]] if proto.input and proto.input[0] else ""
    value = np.array(held in reader.tensors or held in reader.sequences)
    reader.alias(proto.output[0], _constant(reader, proto, "there", value))
    return []


WRITERS: dict[str, Writer] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceEmpty": _sequence(lambda reader, proto: ()),
    "SequenceConstruct": _sequence(lambda reader, proto: reader.elements(proto.input)),
    "SequenceInsert": _sequence(_inserted),
    "SequenceErase": _sequence(_erased),
    "SplitToSequence": _split,
    "SequenceAt": _at,
    "SequenceLength": _length,
    "ConcatFromSequence": _joined,
    "Identity": _identity,
    "Optional": _optional,
    "OptionalGetElement": _same,
    "OptionalHasElement": _is_there,
}
"""Op -> what it is in nodes that compute."""
