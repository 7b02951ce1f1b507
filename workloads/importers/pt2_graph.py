"""The calls of an exported PyTorch program as nodes: graphs inside of ops are written out, writes in place followed.

Format: torch/_export/serde/schema.py of https://github.com/pytorch/pytorch. What becomes of graphs inside of ops
(torch/_higher_order_ops):
- a region (`no_grad`, `autocast`, `checkpoint`, …) is what is in it;
- `scan` and `map` are one node with a body, that runs as often as their operands have slices;
- `while_loop` and others, too; how often they run is known if a counter says it (`pt2_counters.py`);
- `cond` is its branch of more products, and holds the constants of the other one, too.

Writes in place, as values: who reads a tensor after a write to memory that it shares reads what was written.

A *storage* is the memory of a tensor and of all its views, under the name of the tensor that they are views of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workloads.errors import InputError
from workloads.importers.aten import ALIASES, DROPPED, Call, Ref, node_of, targets_of
from workloads.importers.ir import Body, Node, Shape, Tensor, all_nodes
from workloads.importers.pt2_counters import made_value, trips_of
from workloads.importers.work import dearest

MAX_DEPTH = 50
"""Graphs inside of graphs."""
HIGHER_ORDER = "higher_order."
SLICING = frozenset({"scan", "map", "map_impl"})
"""Loops that run once for each slice of an operand."""
LOOPS = SLICING | {"while_loop", "associative_scan"}
SETTLED = frozenset({"embedding_renorm"})
"""Ops that change a weight once, and then never again: that is done before the first inference."""
VMAP = "_add_batch_dim"
"""What begins a part of a program whose shapes are those of one sample of many."""
MOVED = frozenset({"flex_attention"})
"""Ops whose graphs change single numbers, and are not looked into."""


@dataclass(frozen=True)
class Inner:
    """A graph that a call has as an argument: inputs, nodes, outputs and tensor_values of the schema."""

    graph: Any


class Writer:
    """Writes graphs out, one node after another.

    Attributes:
        tensors: every tensor by name; of the outermost graph they are there before.
        constants: names of those that hold the same in every inference.
        nodes: what is written so far.
        remarks: what the user should know.
        numbers: whole numbers that are known, by the tensors that hold them.
    """

    def __init__(
        self,
        file: str,
        tensors: dict[str, Tensor],
        constants: set[str],
        tensor_of: Callable[[Any, str], Tensor],
        numbers: Mapping[str, int],
    ) -> None:
        self.numbers = dict(numbers)
        self.file, self.tensors, self.constants, self.tensor_of = file, tensors, constants, tensor_of
        self.nodes: list[Node] = []
        self.remarks: dict[str, None] = {}
        self.storages = Storages(tensors, lambda node: self.nodes.append(node))
        self._depth = 0

    def run(self, graph: Any, names: dict[str, str], prefix: str = "") -> list[str]:
        """Writes out a graph whose tensors that exist already are called `names` here, new ones `prefix` and their
        name; the names of its outputs, "" for what is no tensor."""
        for name, meta in graph["tensor_values"].items():
            if name not in names:
                names[name] = prefix + name
                self.tensors[prefix + name] = self.tensor_of(meta, name)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InputError(f"{self.file}: expected graphs at most {MAX_DEPTH} deep, found more")
        for position, item in enumerate(graph["nodes"]):
            self._call(_call(item, names, prefix, position), names, item)
        self._depth -= 1
        return [
            self._named(arg["as_tensor"]["name"], names) if "as_tensor" in arg else ""
            for arg in graph["outputs"]
        ]

    def _named(self, name: str, names: Mapping[str, str]) -> str:
        if name not in names:
            raise InputError(f"{self.file}: expected a tensor called {name!r}, found none")
        return names[name]

    def _call(self, call: Call, names: dict[str, str], item: Any) -> None:
        if VMAP in call.op:
            raise InputError(
                f"{self.file}: expected a program in which torch.vmap is written out, found {call.op}: save"
                " program.run_decompositions({})"
            )
        targets = targets_of(call)
        if not call.outputs and "." in call.op:  # nobody says what others' ops write: all that they are given
            given = [value.name for value in _flat(list(call.arguments.values())) if isinstance(value, Ref)]
            targets = [name for name in given if name not in self.constants]
        if call.op in DROPPED or not (call.outputs or targets):
            return
        for name in call.outputs:
            self.tensors.setdefault(name, Tensor(None))
        if call.op.removesuffix("_") in SETTLED:
            changed = call.arguments["self"].name
            if self.storages.origin(changed) in self.constants:
                names |= dict.fromkeys(_local_outputs(item), changed)
                return
        bodies = [value for value in call.arguments.values() if isinstance(value, Inner)]
        if bodies and call.op.removeprefix(HIGHER_ORDER) not in MOVED:
            outputs = self._bodies(call, bodies)
            names |= dict(zip(_local_outputs(item), outputs, strict=True))
            return
        self._plain(call, targets)

    def _plain(self, call: Call, targets: list[str]) -> None:
        number = made_value(call, self.numbers)
        if number is not None:
            self.numbers |= dict.fromkeys(call.outputs, number)
        elif targets:
            self.numbers.clear()  # which of them are written to, nobody knows here
        made = tuple(f"{call.name}@{at}" for at in range(len(call.outputs), len(targets)))
        call = replace(
            call,
            outputs=call.outputs + made,
            arguments={key: self._present(value) for key, value in call.arguments.items()},
        )
        for name, target in zip(made, targets[len(targets) - len(made) :], strict=True):
            self.tensors[name] = replace(self.tensors[target], constant=False)
        self.nodes.append(node_of(call, self.tensors))
        for target, output in zip(targets, call.outputs, strict=False):
            self.storages.write(target, output)
        shared = next(iter(call.arguments.values()), None)
        if not targets and call.op.removesuffix("_") in ALIASES and isinstance(shared, Ref):
            for output in call.outputs:
                self.storages.share(output, shared.name)

    def _present(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return Ref(self.storages.value(value.name))
        return [self._present(each) for each in value] if isinstance(value, list) else value

    def _bodies(self, call: Call, bodies: list[Inner]) -> list[str]:
        """Writes out a call of an op with graphs inside; the names of its outputs."""
        op = call.op.removeprefix(HIGHER_ORDER)
        values = [value for key, value in call.arguments.items() if key.isdecimal()]
        last = max((at for at, value in enumerate(values) if isinstance(value, Inner)), default=0)
        operands = values[last + 1 :]
        if op == "cond":
            return self._branches(call, bodies, operands)
        given = list(_flat([value for value in operands if not isinstance(value, str)]))
        if op not in LOOPS and len(bodies) == 1 and len(given) == len(bodies[0].graph["inputs"]):
            return self._region(bodies[0], given, f"{call.name}.")
        self._loop(call, op, bodies, [value for value in operands if isinstance(value, list)])
        return list(call.outputs)

    def _region(self, body: Inner, given: list[Any], prefix: str) -> list[str]:
        """Writes a graph out that runs once, on what is given."""
        return [self.storages.value(name) for name in self.run(body.graph, _bound(body, given), prefix)]

    def _apart(self, body: Inner, names: dict[str, str], prefix: str) -> tuple[list[Node], list[str]]:
        """The nodes of a graph, and the names of its outputs; nothing is written."""
        begin = len(self.nodes)
        outputs = [self.storages.value(name) for name in self.run(body.graph, names, prefix)]
        nodes = self.nodes[begin:]
        del self.nodes[begin:]
        return nodes, outputs

    def _branches(self, call: Call, bodies: list[Inner], operands: list[Any]) -> list[str]:
        """The larger one is written; the constants of the other are held by the choice."""
        given = list(_flat(operands))
        written = [
            self._apart(body, _bound(body, given), f"{call.name}.{at}.") for at, body in enumerate(bodies)
        ]
        nodes, outputs = written[dearest([nodes for nodes, _ in written], self.tensors)]
        self.nodes += nodes
        self.remarks[f"{call.name} depends on data: counted as its branch of more products"] = None
        read = {name for node in all_nodes(nodes) for name in node.inputs}
        others = (name for rest, _ in written for node in all_nodes(rest) for name in node.inputs)
        spared = dict.fromkeys(name for name in others if name in self.constants and name not in read)
        condition = [value.name for value in list(call.arguments.values())[:1] if isinstance(value, Ref)]
        for output, chosen in zip(call.outputs, outputs, strict=True):
            inputs = (chosen, *(self.storages.value(name) for name in condition), *spared)
            self.nodes.append(Node(call.name, "Where", inputs, (output,)))
            spared = {}
        return list(call.outputs)

    def _loop(self, call: Call, op: str, bodies: list[Inner], operands: list[list[Any]]) -> None:
        """One node. `scan` has (carried, sliced, other) operands, `map` (sliced, other), `while_loop` (carried, other):
        those of the others are the same tensors in each trip."""
        other = operands[-1] if op in LOOPS and operands else []
        nodes, fresh, outputs, needed = list[Node](), list[str](), list[str](), list[str]()
        for at, body in enumerate(bodies):
            inner, prefix = _inputs(body), f"{call.name}.{at}."
            fixed = zip(inner[len(inner) - len(other) :], other, strict=True)
            names = {
                name: self.storages.value(ref.name) for name, ref in fixed if name and isinstance(ref, Ref)
            }
            fresh += [prefix + name for name in inner if name and name not in names]
            more, outputs = self._apart(body, names, prefix)
            nodes += more
            needed += outputs
        trips = None
        if op in SLICING and len(operands) > 1 and operands[-2]:
            shape = self._shape(operands[-2][0].name)
            trips = shape[0] if shape else None
            needed = needed[: len(operands[0])] if len(operands) > 2 else []
        if op == "while_loop" and len(bodies) == 2 and len(operands) == 2:
            trips = self._counted(bodies, operands)

        def values(given: list[Any]) -> list[str]:
            return [self.storages.value(each.name) for each in _flat(given) if isinstance(each, Ref)]

        # What is the same in each trip a body reads by its own name: such weights are held for the nodes inside.
        changing = values(operands[:-1] if op in LOOPS else operands)
        inputs = dict.fromkeys((*changing, *(name for name in values(other) if name not in self.constants)))
        body_ = Body(tuple(nodes), tuple(fresh), tuple(outputs), trips, tuple(needed))
        self.nodes.append(Node(call.name, op, tuple(inputs), call.outputs, {}, body_))

    def _counted(self, bodies: list[Inner], operands: list[list[Any]]) -> int | None:
        """How often a `while_loop` runs, of a condition and a body; None where that is not known."""
        calls = [[_call(item, {}, "", at) for at, item in enumerate(body.graph["nodes"])] for body in bodies]
        results = [
            [arg["as_tensor"]["name"] if "as_tensor" in arg else "" for arg in body.graph["outputs"]]
            for body in bodies
        ]
        given = [value for operand in operands for value in operand]
        begins = [self.numbers.get(each.name) if isinstance(each, Ref) else None for each in given]
        inputs = _inputs(bodies[0]), _inputs(bodies[1])
        if len(results[0]) != 1 or any(len(each) != len(given) for each in inputs):
            return None
        condition, body = (calls[0], results[0][0]), (calls[1], results[1])
        return trips_of(condition, body, inputs, begins, len(operands[0]))

    def _shape(self, name: str) -> Shape:
        return self.tensors[name].shape or ()


def _inputs(body: Inner) -> list[str]:
    """The names of a graph's inputs; "" for what is no tensor."""
    return [arg["as_tensor"]["name"] if "as_tensor" in arg else "" for arg in body.graph["inputs"]]


def _bound(body: Inner, given: list[Any]) -> dict[str, str]:
    """What a graph's inputs are called outside."""
    pairs = zip(_inputs(body), given, strict=True)
    return {inner: outer.name for inner, outer in pairs if inner and isinstance(outer, Ref)}


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value


def _local_outputs(item: Any) -> list[str]:
    found: list[str] = []
    for output in item["outputs"]:
        if "as_tensor" in output:
            found.append(output["as_tensor"]["name"])
        elif "as_tensors" in output:
            found += [each["name"] for each in output["as_tensors"]]
    return found


def _call(item: Any, names: Mapping[str, str], prefix: str, position: int) -> Call:
    """A node of the schema; tensors under the names that `names` gives them, others under their own."""
    target = item["target"].removeprefix("torch.ops.")
    _, _, rest = target.partition(".")
    op = rest.partition(".")[0] if target.startswith("aten.") else target
    arguments = {
        argument["name"] or f"{at}": _value(argument["arg"], names)
        for at, argument in enumerate(item["inputs"])
    }
    outputs = tuple(names.get(output, output) for output in _local_outputs(item))
    if not all(isinstance(output, str) for output in outputs):
        raise TypeError("a name that is no text")
    name = prefix + item["name"] if item.get("name") else next(iter(outputs), f"{prefix}node_{position}")
    return Call(name, op or "_".join(target.split(".")), arguments, outputs)


def _value(argument: Any, names: Mapping[str, str]) -> Any:
    """A tensor as a `Ref`, a graph as a `Body`, numbers and texts as they are, None for everything else."""
    (kind, content), *_ = argument.items()
    if kind == "as_tensor":
        return _ref(content, names)
    if kind == "as_graph":
        return Inner(content["graph"])
    if kind in ("as_tensors", "as_optional_tensors"):
        return [_optional(each, names) for each in content]
    if kind in ("as_int", "as_float", "as_bool", "as_string", "as_ints", "as_floats", "as_bools"):
        return content
    if kind == "as_sym_ints":
        return [each.get("as_int") for each in content]
    return None


def _ref(tensor: Any, names: Mapping[str, str]) -> Ref:
    return Ref(names.get(tensor["name"], tensor["name"]))


def _optional(item: Any, names: Mapping[str, str]) -> Ref | None:
    tensor = item if "name" in item else item.get("as_tensor")
    return _ref(tensor, names) if tensor else None


@dataclass
class Storages:
    """What lies in each storage now.

    Attributes:
        tensors: every tensor by name; values of storages after a write are added.
        append: takes the nodes that read or change a part of a storage.
        written: storage -> the tensor that it holds since the last write.
    """

    tensors: dict[str, Tensor]
    append: Callable[[Node], None]
    written: dict[str, str] = field(default_factory=dict)
    _storage: dict[str, str] = field(default_factory=dict)
    _writes: dict[str, int] = field(default_factory=dict)
    _values: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Tensor -> the number of writes to its storage that it has seen, and the name of its value since then."""

    def share(self, view: str, tensor: str) -> None:
        """`view` is written as a view of `tensor`, as that is now."""
        storage = self._storage[view] = self._storage.get(tensor, tensor)
        self._values[view] = self._writes.get(storage, 0), view

    def origin(self, name: str) -> str:
        """The tensor whose memory `name` shares."""
        return self._storage.get(name, name)

    def holds(self, view: str, tensor: str) -> bool:
        """Whether `view` is all of `tensor`, to which nothing was written."""
        of_it = self.origin(view) == self.origin(tensor)
        return of_it and tensor not in self.written and self._is_whole(view, tensor)

    def value(self, name: str) -> str:
        """The tensor that holds what reading `name` gives now."""
        storage = self._storage.get(name, name)
        writes = self._writes.get(storage, 0)
        seen, value = self._values.get(name, (0, name))
        if seen < writes:
            op = "Reshape" if self._is_whole(name, storage) else "Select"
            value = self._made(f"{name}@{writes}", op, (self.written[storage],), name)
            self._values[name] = self._values[value] = writes, value
        return value

    def write(self, target: str, value: str) -> None:
        """The tensor called `value` is written to `target`, and is a view of its storage from now on."""
        storage = self._storage.get(target, target)
        writes = self._writes.get(storage, 0) + 1
        whole, made = self._is_whole(target, storage), value
        if not whole:
            inputs = self.value(storage), value
            made = self._made(f"{storage}@{writes}", "ScatterElements", inputs, storage)
        elif self._shape(value) != self._shape(storage):
            made = self._made(f"{storage}@{writes}", "Reshape", (value,), storage)
        self._writes[storage], self.written[storage] = writes, made
        self._values[target] = self._values[value] = writes, value
        self._values[storage] = self._values[made] = writes, made
        self._storage[value] = storage

    def _is_whole(self, view: str, storage: str) -> bool:
        shapes = self._shape(view), self._shape(storage)
        return view == storage or (
            None not in shapes and self.tensors[view].elements == self.tensors[storage].elements
        )

    def _shape(self, name: str) -> Shape | None:
        return self.tensors[name].shape

    def _made(self, name: str, op: str, inputs: tuple[str, ...], like: str) -> str:
        self.tensors[name] = Tensor(
            self._shape(like), self.tensors[like].element_bytes, self.tensors[like].is_float
        )
        self._storage[name] = self._storage.get(like, like)
        self.append(Node(name, op, inputs, (name,)))
        return name
