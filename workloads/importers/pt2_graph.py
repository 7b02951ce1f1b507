"""The calls of an exported PyTorch program as nodes: graphs inside of ops are written out, writes in place followed.

Format: torch/_export/serde/schema.py of https://github.com/pytorch/pytorch. What becomes of graphs inside of ops
(torch/_higher_order_ops):
- a region (`no_grad`, `autocast`, `checkpoint`, …) is what is in it;
- `scan` and `map` are their bodies, once a round;
- `cond` is its branch of more products, and holds the constants of the other one, too;
- `while_loop` and others are refused if there are products in them: nobody knows how often they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workloads.errors import InputError
from workloads.importers.aten import ALIASES, DROPPED, Call, Ref, is_product, node_of, targets_of
from workloads.importers.aten_products import Tree, cheapest
from workloads.importers.ir import Node, Tensor
from workloads.importers.storages import Storages
from workloads.importers.work import gemm_of

MAX_NODES = 200_000
"""Nodes once loops are written out."""
MAX_DEPTH = 50
"""Graphs inside of graphs."""
HIGHER_ORDER = "higher_order."
CHAINS = frozenset({"linalg_multi_dot", "chain_matmul"})
MOVED = frozenset({"flex_attention"})
"""Ops whose graphs change single numbers, and are not looked into."""


@dataclass(frozen=True)
class Body:
    """A graph that a call has as an argument: inputs, nodes, outputs and tensor_values of the schema."""

    graph: Any


class Writer:
    """Writes graphs out, one node after another.

    Attributes:
        tensors: every tensor by name; of the outermost graph they are there before.
        constants: names of those that hold the same in every inference.
        nodes: what is written so far.
        remarks: what the user should know.
    """

    def __init__(
        self,
        file: str,
        tensors: dict[str, Tensor],
        constants: set[str],
        tensor_of: Callable[[Any, str], Tensor],
    ) -> None:
        self.file, self.tensors, self.constants, self.tensor_of = file, tensors, constants, tensor_of
        self.nodes: list[Node] = []
        self.remarks: dict[str, None] = {}
        self.storages = Storages(tensors, self._append)
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

    def _append(self, node: Node) -> None:
        if len(self.nodes) >= MAX_NODES:
            raise InputError(
                f"{self.file}: expected at most {MAX_NODES} nodes once loops are written out, found more"
            )
        self.nodes.append(node)

    def _call(self, call: Call, names: dict[str, str], item: Any) -> None:
        targets = targets_of(call)
        if (
            not call.outputs and "." in call.op
        ):  # of others' ops nobody says what they write: all that they are given
            given = [value.name for value in _flat(list(call.arguments.values())) if isinstance(value, Ref)]
            targets = [name for name in given if name not in self.constants]
        if call.op in DROPPED or not (call.outputs or targets):
            return
        bodies = [value for value in call.arguments.values() if isinstance(value, Body)]
        if bodies and call.op.removeprefix(HIGHER_ORDER) not in MOVED:
            outputs = self._bodies(call, bodies)
            names |= dict(zip(_local_outputs(item), outputs, strict=True))
            return
        self._plain(call, targets)

    def _plain(self, call: Call, targets: list[str]) -> None:
        made = tuple(f"{call.name}@{at}" for at in range(len(call.outputs), len(targets)))
        call = replace(
            call,
            outputs=call.outputs + made,
            arguments={key: self._present(value) for key, value in call.arguments.items()},
        )
        for name, target in zip(made, targets[len(targets) - len(made) :], strict=True):
            self.tensors[name] = replace(self.tensors[target], constant=False)
        for name in call.outputs:
            if name and name not in self.tensors:
                self.tensors[name] = Tensor(None)
        if call.op in CHAINS:
            self._chain(call)
        else:
            self._append(node_of(call, self.tensors))
        for target, output in zip(targets, call.outputs, strict=False):
            self.storages.write(target, output)
        shared = next(iter(call.arguments.values()), None)
        if not targets and call.op.removesuffix("_") in ALIASES and isinstance(shared, Ref):
            for output in call.outputs:
                self.storages.share(output, shared.name)

    def _chain(self, call: Call) -> None:
        """The product of a list of matrices, in the cheapest order."""
        (matrices,) = call.arguments.values()
        tree = cheapest([self.tensors[matrix.name].shape or () for matrix in matrices])
        self._product(tree, [matrix.name for matrix in matrices], call.outputs[0])

    def _product(self, tree: Tree, matrices: list[str], output: str) -> str:
        if isinstance(tree, int):
            return matrices[tree]
        inputs = [self._product(side, matrices, f"{output}.{at}") for at, side in enumerate(tree)]
        first, second = (self.tensors[name] for name in inputs)
        if output not in self.tensors:
            self.tensors[output] = replace(
                first, shape=(*(first.shape or ())[:-1], *(second.shape or ())[1:]), constant=False
            )
        self._append(Node(output, "MatMul", tuple(inputs), (output,)))
        return output

    def _present(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return Ref(self.storages.value(value.name))
        return [self._present(each) for each in value] if isinstance(value, list) else value

    def _bodies(self, call: Call, bodies: list[Body]) -> list[str]:
        """Writes out a call of an op with graphs inside; the names of its outputs."""
        op = call.op.removeprefix(HIGHER_ORDER)
        values = [value for key, value in call.arguments.items() if key.isdecimal()]
        last = max((at for at, value in enumerate(values) if isinstance(value, Body)), default=0)
        operands = values[last + 1 :]
        if op == "cond":
            return self._branches(call, bodies, operands)
        if op in ("scan", "map_impl", "map"):
            return self._rounds(call, bodies[0], operands)
        if op not in ("while_loop", "associative_scan") and len(bodies) == 1:
            given = list(_flat([value for value in operands if not isinstance(value, str)]))
            if len(given) == len(bodies[0].graph["inputs"]):
                return self._body(bodies[0], given, f"{call.name}.")
        if any(_has_products(body.graph) for body in bodies):
            raise InputError(
                f"{self.file}: node {call.name!r}: expected ops that run a known number of times, found {op} with"
                " products in it"
            )
        self._plain(call, [])
        return list(call.outputs)

    def _body(self, body: Body, given: list[Any], prefix: str) -> list[str]:
        names = {
            inner["as_tensor"]["name"]: outer.name
            for inner, outer in zip(body.graph["inputs"], given, strict=True)
            if "as_tensor" in inner and isinstance(outer, Ref)
        }
        return [self.storages.value(name) for name in self.run(body.graph, names, prefix)]

    def _branches(self, call: Call, bodies: list[Body], operands: list[Any]) -> list[str]:
        """Both are written, and the smaller one is taken out again: its constants are held by the choice."""
        given, begin = list(_flat(operands)), len(self.nodes)
        written: list[tuple[int, list[Node], list[str]]] = []
        for at, body in enumerate(bodies):
            outputs = self._body(body, given, f"{call.name}.{at}.")
            nodes = self.nodes[begin:]
            del self.nodes[begin:]
            gemms = (gemm_of(node, lambda name: self.tensors[name].shape or ()) for node in nodes)
            written.append((sum(gemm.macs for gemm in gemms if gemm is not None), nodes, outputs))
        _, nodes, outputs = max(written, key=lambda branch: branch[0])
        self.nodes += nodes
        self.remarks["cond: counted as its branch of more products"] = None
        read = {name for node in nodes for name in node.inputs}
        spared = dict.fromkeys(
            name
            for _, others, _ in written
            for node in others
            for name in node.inputs
            if name in self.constants and name not in read
        )
        condition = [value.name for value in list(call.arguments.values())[:1] if isinstance(value, Ref)]
        for output, chosen in zip(call.outputs, outputs, strict=True):
            inputs = (chosen, *(self.storages.value(name) for name in condition), *spared)
            self._append(Node(call.name, "Where", inputs, (output,)))
            spared = {}
        return list(call.outputs)

    def _rounds(self, call: Call, body: Body, operands: list[Any]) -> list[str]:
        """`scan` has (carried, sliced, other) operands and (carried, stacked) outputs, `map` (sliced, other) and
        (stacked)."""
        carried, sliced, other = ([[], *operands] if len(operands) == 2 else operands)[:3]
        shapes = [self.tensors[each.name].shape for each in sliced]
        if not shapes or not shapes[0]:
            raise InputError(
                f"{self.file}: node {call.name!r}: expected a loop of a known number of rounds, found none"
            )
        stacked: list[list[str]] = [[] for _ in call.outputs[len(carried) :]]
        for at in range(shapes[0][0]):
            prefix = f"{call.name}.{at}."
            parts = [self._part(each.name, f"{prefix}{k}") for k, each in enumerate(sliced)]
            outputs = self._body(body, [*carried, *parts, *other], prefix)
            carried = [Ref(name) for name in outputs[: len(carried)]]
            for names, name in zip(stacked, outputs[len(carried) :], strict=True):
                names.append(name)
        for output, names in zip(call.outputs[len(carried) :], stacked, strict=True):
            self._append(Node(output, "Concat", tuple(names), (output,)))
        return [*(each.name for each in carried), *call.outputs[len(carried) :]]

    def _part(self, name: str, part: str) -> Ref:
        """A round's part of a tensor."""
        whole = self.tensors[name]
        self.tensors[part] = replace(whole, shape=(whole.shape or ())[1:], constant=False)
        self._append(Node(part, "Select", (self.storages.value(name),), (part,)))
        return Ref(part)


def _has_products(graph: Any) -> bool:
    """Whether an op of a graph, or of one inside it, multiplies matrices, as far as its name says."""
    for item in graph["nodes"]:
        call = _call(item, {}, "", 0)
        if is_product(call.op):
            return True
        if any(_has_products(value.graph) for value in call.arguments.values() if isinstance(value, Body)):
            return True
    return False


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
    name = prefix + item["name"] if item.get("name") else next(iter(outputs), f"{prefix}node_{position}")
    return Call(name, op or "_".join(target.split(".")), arguments, outputs)


def _value(argument: Any, names: Mapping[str, str]) -> Any:
    """A tensor as a `Ref`, a graph as a `Body`, numbers and texts as they are, None for everything else."""
    (kind, content), *_ = argument.items()
    if kind == "as_tensor":
        return _ref(content, names)
    if kind == "as_graph":
        return Body(content["graph"])
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
