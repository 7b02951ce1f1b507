"""Branches, loops and sequences of ONNX as nodes that compute.

- **If**: the branch that a constant condition takes, else the one with more multiply-accumulates (then the one that
  reads more), with a remark. Its nodes stand in place of it.
- **Loop, Scan**: one node with a body that runs as often as constants, shapes and counters say. A loop that could end
  sooner runs to its limit, with a remark. Where what it hands on grows or is a sequence, its trips are written out one
  by one.
- **Sequences and optionals**: which tensors are in them is followed; nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from workloads.importers.ir import Body, Node, Shape
from workloads.importers.onnx_call import INT64, Call, Unknown, known, writer
from workloads.importers.onnx_reader import Writer, graphs_of, name_of
from workloads.importers.vocabulary import ELEMENTWISE, VIEWS
from workloads.importers.work import dearest

MAX_TRIPS = 1_000_000
"""A larger limit of a loop says only that it has none."""
MAX_COUNTED = 10_000
"""Trips of a loop that counters end, each of which is followed."""
MAX_WRITTEN = 100_000
"""Nodes that a loop whose trips differ may become."""


def _if(call: Call) -> Sequence[str]:
    graphs = {attribute.name: attribute.g for attribute in call.proto.attribute}
    if set(graphs) != {"then_branch", "else_branch"}:
        raise Unknown("branches: expected two, found others")
    condition, taken = call.value(0), list(graphs)
    if condition is not None and condition.size == 1:
        taken = ["then_branch" if condition.item() else "else_branch"]
    read = [call.reader.body(graphs[name], f"{name_of(call.proto)}/{name}", ()) for name in taken]
    nodes, outputs = read[dearest([nodes for nodes, _ in read], call.reader.tensors)]
    if len(read) > 1:
        call.reader.remark(
            "If whose condition depends on data ({names}): counted as the larger branch, nothing of the other",
            call.proto,
        )
    call.nodes += nodes
    return outputs


def _loop(call: Call) -> Sequence[str]:
    (graph,), reader = graphs_of(call.proto), call.reader
    if len(call.proto.input) < 2 or len(graph.input) < len(call.proto.input):
        raise Unknown("inputs: expected a limit, a condition and those of the body, found fewer")
    limit, go = call.value(0), call.value(1)
    most = MAX_TRIPS if limit is None else int(limit.item())
    if go is not None and not go.item():
        most = 0
    start = [reader.scope.get(name, "") for name in call.proto.input[2:]]
    ends = _counted(call, graph) if most else None
    most = most if ends is None else min(most, ends)
    if not reader.sequences.keys().isdisjoint(start):
        return _written_out(call, graph, start, most)
    fresh = reader.elements([call.put((), INT64), call.constant(True), *map(call.like, call.proto.input[2:])])
    nodes, outputs = reader.body(graph, name_of(call.proto), fresh)
    shapes = [reader.tensors[name].shape for name in outputs]
    if any(reader.tensors[a].shape != b for a, b in zip(fresh[2:], shapes[1:], strict=False)):
        return _written_out(call, graph, start, most)
    trips, finals = most if ends is not None else _trips(call, outputs[0], most), 1 + len(start)
    scans = [None if trips is None or shape is None else (trips, *shape) for shape in shapes[finals:]]
    body = Body(tuple(nodes), fresh, outputs[1:], trips, outputs[:finals])
    return _repeated(call, body, [*shapes[1:finals], *scans])


def _trips(call: Call, condition: str, most: int) -> int | None:
    """How often a loop runs at most; None where nothing says it."""
    again = call.reader.tensors[condition].value
    if again is not None and not again.item():
        return min(1, most)
    if most >= MAX_TRIPS:
        return None
    if again is None and most > 1:
        call.reader.remark("Loop that may end sooner ({names}): counted with all its trips", call.proto)
    return max(0, most)


def _counted(call: Call, graph: Any) -> int | None:
    """After how many trips the condition of a loop ends it, where counters and constants alone say that; None
    elsewhere."""
    counter, *carried = (info.name for info in graph.input)
    handed = dict(zip(carried, (info.name for info in graph.output), strict=False))
    nodes, read = _needed(graph, handed)
    values: dict[str, Any] = {name: call.reader.value(name) for name in read - {counter, *carried}}
    values |= {tensor.name: call.reader.array(tensor) for tensor in graph.initializer if tensor.name in read}
    values |= {name: call.value(at) for at, name in enumerate(carried, 1) if name in read}
    values[counter] = np.array(0)
    changing = [name for name in carried if name in read]
    known = all(value is not None and value.size == 1 for value in values.values())
    if not known or not all(map(_counts, nodes)) or not read & {counter, *carried[1:]}:
        return None
    try:
        run = call.reader.evaluator(nodes, list(values), [handed[name] for name in (carried[0], *changing)])
        for trip in range(1, MAX_COUNTED + 1):
            again, *found = run(values)
            if not again.item():
                return trip
            values |= {counter: np.array(trip), **dict(zip(changing, found, strict=True))}
    except Exception:  # what ONNX refuses is not followed
        pass
    return None


def _counts(node: Any) -> bool:
    """Whether a node (NodeProto) makes one number of others."""
    small = all(prod(a.t.dims) == 1 and len([*a.ints, *a.floats]) < 2 for a in node.attribute)
    return small and (node.op_type in ELEMENTWISE or node.op_type in VIEWS | {"Constant"})


def _needed(graph: Any, handed: Mapping[str, str]) -> tuple[list[Any], set[str]]:
    """The nodes of a loop's body that say whether it goes on, and what they read from outside of the trip; `handed`
    says what a trip hands on for each of its inputs but the first."""
    wanted = {next(iter(handed.values()))}
    while True:
        nodes = [node for node in graph.node if not wanted.isdisjoint(node.output)]
        more = wanted | {name for node in nodes for name in node.input if name}
        more |= {handed[name] for name in more & handed.keys()}
        if more == wanted:
            return nodes, wanted - {name for node in nodes for name in node.output}
        wanted = more


def _written_out(call: Call, graph: Any, carried: list[str], most: int) -> list[str]:
    """The nodes of every trip of a loop, one after another."""
    if most * max(1, len(graph.node)) > MAX_WRITTEN:
        raise Unknown(f"trips: expected at most {MAX_WRITTEN} nodes in all of them, found more")
    kept: list[tuple[str, ...]] = []
    held: dict[str, str] = {}
    for trip in range(most):
        given = [*call.reader.elements([call.constant(trip), call.constant(True)]), *carried]
        nodes, written = call.reader.body(graph, f"{name_of(call.proto)}/{trip}", given, held)
        call.nodes += nodes
        carried, left = list(written[1 : 1 + len(carried)]), written[1 + len(carried) :]
        kept.append(left)
        again = call.reader.tensors[written[0]].value
        if again is not None and not again.item():
            break
    stacked = zip(call.proto.output[len(carried) :], zip(*kept, strict=True), strict=False)
    return [*carried, *(_joined(call, parts, 0, True) if local else "" for local, parts in stacked)]


def _scan(call: Call) -> Sequence[str]:
    (graph,), reader, count = graphs_of(call.proto), call.reader, call.given.integer("num_scan_inputs", 0)
    given = reader.elements(call.proto.input)
    states = len(given) - count
    if count < 1 or states < 0 or reader.opsets.get("", 1) < 9 or len(graph.input) != len(given):
        raise Unknown("inputs: expected those of the body, found others")
    axes = list(call.given.attributes.get("scan_input_axes", [0] * count))
    sliced = call.proto.input[states:]
    shapes = [known(call.shape(name) or None) for name in sliced]
    lefts = [
        (*shape[:axis], *shape[axis % len(shape) + 1 :]) for shape, axis in zip(shapes, axes, strict=True)
    ]
    fresh = reader.elements(
        [
            *map(call.like, call.proto.input[:states]),
            *(call.put(left, call.kind(name)) for name, left in zip(sliced, lefts, strict=True)),
        ]
    )
    nodes, outputs = reader.body(graph, name_of(call.proto), fresh)
    found = [reader.tensors[name].shape for name in outputs]
    along = list(call.given.attributes.get("scan_output_axes", [0] * (len(outputs) - states)))
    trips = shapes[0][axes[0]]
    scans = [_with_axis(shape, axis, trips) for shape, axis in zip(found[states:], along, strict=True)]
    body = Body(tuple(nodes), fresh, outputs, trips, outputs[:states])
    return _repeated(call, body, [*found[:states], *scans])


def _with_axis(shape: Shape | None, axis: int, size: int) -> Shape | None:
    if shape is None:
        return None
    at = axis % (len(shape) + 1)
    return (*shape[:at], size, *shape[at:])


def _repeated(call: Call, body: Body, shapes: Sequence[Shape | None]) -> tuple[str, ...]:
    """A loop; its outputs have the types of what its body hands on."""
    node = call.reader.translate(call.proto)
    for made, inner, shape in zip(node.outputs, body.outputs, shapes, strict=False):
        if made:
            call.reader.put(made, shape, call.reader.kind(inner))
    call.nodes.append(Node(node.name, node.op, node.inputs, node.outputs, node.attributes, body))
    return node.outputs


# ---- sequences and optionals


def _sequence(members: Callable[[Call], Sequence[str]]) -> Writer:
    """The writer of an op whose output is a sequence, of which `members` says the tensors."""

    def write(call: Call) -> Sequence[str]:
        found = tuple(members(call))
        name = call.reader.define(call.proto.output[0])
        call.reader.sequences[name] = found
        return [name]

    return writer(write)


def _place(call: Call, position: int, default: int, length: int) -> int:
    """A place in a sequence. Unknown where data say it."""
    at = default
    if call.input(position):
        at = int(known(call.value(position)).item())
        at += length if at < 0 else 0
    if not 0 <= at <= length:
        raise Unknown(f"place: expected one up to {length}, found {at}")
    return at


def _inserted(call: Call) -> list[str]:
    found = call.members()
    at = _place(call, 2, len(found), len(found))
    return [*found[:at], *call.reader.elements([call.input(1)]), *found[at:]]


def _erased(call: Call) -> list[str]:
    found = call.members()
    at = _place(call, 1, len(found) - 1, len(found))
    return [name for k, name in enumerate(found) if k != at]


def _at(call: Call) -> list[str]:
    found = call.members()
    return [known((*found, None)[_place(call, 1, 0, len(found))])]


def _split(call: Call) -> Sequence[str]:
    x, shape = call.input(0), call.shape(call.input(0))
    axis = call.given.integer("axis", 0) % len(shape)
    sizes = [1] * shape[axis]
    if call.input(1):
        value = known(call.value(1))
        sizes = [int(v) for v in value.ravel()]
        if value.ndim == 0:
            sizes = [min(sizes[0], shape[axis] - k) for k in range(0, shape[axis], sizes[0])]
    names = call.split("Split", len(sizes), x, call.constant(np.array(sizes, np.int64)), axis=axis)
    if not call.input(1) and not call.given.integer("keepdims", 1):
        names = [call.add("Squeeze", name, call.constant([axis])) for name in names]
    return call.reader.elements(names)


def _joined(call: Call, tensors: Sequence[str], axis: int, is_new: bool) -> str:
    """The tensors (by their names in the whole model) along an axis, which may be a new one."""
    call.reader.scope.update((each, each) for each in tensors)
    if is_new:
        tensors = [call.add("Unsqueeze", each, call.constant([axis])) for each in tensors]
    return call.reader.scope[call.add("Concat", *tensors, axis=axis)]


def _whole(call: Call) -> list[str]:
    tensors = [name for name in call.members() if known(call.reader.tensors[name].shape) is not None]
    return [_joined(call, tensors, call.given.integer("axis", 0), bool(call.given.integer("new_axis", 0)))]


def _same(call: Call) -> list[str]:
    """What holds one thing, which is a sequence or an optional's."""
    return [call.reader.scope[known(call.input(0) or None)]]


def _identity(call: Call) -> list[str]:
    """None of a tensor: it is a node then."""
    (held,) = _same(call)
    if held in call.reader.tensors:
        raise Unknown("input: expected a sequence, found a tensor")
    return [held]


def _optional(call: Call) -> list[str]:
    """An optional that holds nothing is the name of no tensor and no sequence."""
    return _same(call) if call.input(0) else [call.reader.define(call.proto.output[0])]


def _is_there(call: Call) -> Sequence[str]:
    held = call.reader.scope.get(call.input(0), "")
    there = held in call.reader.tensors or held in call.reader.sequences
    return call.reader.elements([call.constant(there)])


WRITERS: dict[str, Writer] = {
    "SequenceEmpty": _sequence(lambda call: ()),
    "SequenceConstruct": _sequence(lambda call: call.reader.elements(call.proto.input)),
    "SequenceInsert": _sequence(_inserted),
    "SequenceErase": _sequence(_erased),
    "SplitToSequence": _sequence(_split),
    "If": writer(_if),
    "Loop": writer(_loop),
    "Scan": writer(_scan),
    "SequenceAt": writer(_at),
    "SequenceLength": writer(lambda call: call.reader.elements([call.constant(len(call.members()))])),
    "ConcatFromSequence": writer(_whole),
    "Identity": writer(_identity),
    "Optional": writer(_optional),
    "OptionalGetElement": writer(_same),
    "OptionalHasElement": writer(_is_there),
}
"""Op -> what it is in nodes that compute."""
