"""Exported PyTorch programs (.pt2), read without PyTorch: the graph in them is JSON, and weights are not needed.

Format: torch/_export/serde/schema.py of https://github.com/pytorch/pytorch (schema 5 and later), inside a zip file:
models/NAME.json since PyTorch 2.8, serialized_exported_program.json before.
"""

from __future__ import annotations

import ast
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import ceil, floor, prod, trunc
from typing import Any

from workloads.errors import InputError
from workloads.importers.dimensions import Dimensions
from workloads.importers.ir import ModelGraph, Node, Shape, Tensor, all_nodes
from workloads.importers.pt2_graph import Writer
from workloads.importers.uncounted import counted
from workloads.importers.uncounted import names as listed

MAX_GRAPH_BYTES = 512 * 2**20
MAX_EXPRESSION = 10_000
"""Characters of the expression of a size."""

WIDTHS = {
    **{1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 9: 4, 10: 8, 11: 16, 12: 1, 13: 2},
    **{28: 2, 29: 1, 30: 1, 31: 1, 32: 1, 33: 1, 34: 4, 35: 8},
}
"""Number of a type in the schema -> bytes an element."""
_WHOLE = (3, 4, 5)
"""Types of whole numbers with a sign."""
_COUNTING = (3, 4, 5, 12, 28, 34, 35)
"""Types of ids, masks and shapes; the others hold numbers to compute with."""


def read(data: bytes, file: str, dimensions: Dimensions) -> ModelGraph:
    """The program in a file's bytes.

    Raises:
        InputError: not an exported program, or dimensions are open that `dimensions` does not give.
    """
    program = _program(data, file)
    try:
        return _graph(program, _same(program, data), _numbers(program, data), file, dimensions)
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
        what = " ".join(str(error).split())[:80]
        raise InputError(
            f"{file}: expected the graph of an exported program, found another form ({type(error).__name__}: {what})"
        ) from None


DAMAGED = zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError
"""What reading an archive raises that is none, or damaged."""


def _program(data: bytes, file: str) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            found = [name for name in names if name.endswith(".json") and "/models/" in f"/{name}"]
            found += [name for name in names if name.endswith("serialized_exported_program.json")]
            text = archive.open(min(found)).read(MAX_GRAPH_BYTES + 1) if found else b""
    except DAMAGED as error:
        raise InputError(f"{file}: expected a file written by torch.export.save, found: {error}") from None
    if not found:
        raise InputError(
            f"{file}: expected a program written by torch.export.save, found none in the archive"
        )
    if len(text) > MAX_GRAPH_BYTES:
        raise InputError(f"{file}: expected a graph of at most {MAX_GRAPH_BYTES} bytes, found more")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: expected JSON in the archive, found: {error}") from None


def _same(program: Any, data: bytes) -> dict[str, str]:
    """Inputs that are the same tensor as an earlier one, such as a tied weight, and that one; as far as the archive
    says where each lies."""
    places: dict[Any, Any] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                if name.endswith(("_weights_config.json", "_constants_config.json")):
                    text = archive.open(name).read(MAX_GRAPH_BYTES)
                    places |= json.loads(text)["config"]
    except (*DAMAGED, KeyError, TypeError, RecursionError):
        return {}
    first: dict[str, str] = {}
    same: dict[str, str] = {}
    for spec in program["graph_module"]["signature"]["input_specs"]:
        for content in spec.values():
            place = places.get(_held(content))
            if place is not None:
                name, key = content["arg"]["name"], json.dumps(place, sort_keys=True)
                if first.setdefault(key, name) != name:
                    same[name] = first[key]
    return same


def _numbers(program: Any, data: bytes) -> dict[str, int]:
    """The whole numbers without dimensions that a program holds and never changes, by the inputs that they are."""
    signature, found = program["graph_module"]["signature"], dict[str, int]()
    changed = set(_replaced(signature).values())
    held = {
        _held(content): content["arg"]["name"]
        for spec in signature["input_specs"]
        for content in spec.values()
        if _held(content)
    }
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for config in (
                name
                for name in archive.namelist()
                if name.endswith(("_weights_config.json", "_constants_config.json"))
            ):
                for name, place in json.loads(archive.open(config).read(MAX_GRAPH_BYTES))["config"].items():
                    meta, width = place["tensor_meta"], WIDTHS.get(place["tensor_meta"]["dtype"], 0)
                    if meta["sizes"] or meta["dtype"] not in _WHOLE or held.get(name, name) in changed:
                        continue
                    text = archive.open(f"{config.rpartition('/')[0]}/{place['path_name']}").read(width + 1)
                    if len(text) == width and not place["use_pickle"] and name in held:
                        found[held[name]] = int.from_bytes(text, "little", signed=True)
    except (*DAMAGED, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return found


def _graph(
    program: Any, same: Mapping[str, str], numbers: Mapping[str, int], file: str, dimensions: Dimensions
) -> ModelGraph:
    """`same` names inputs that are others, too; `numbers` as in `Writer`."""
    module = program["graph_module"]
    graph, signature = module["graph"], module["signature"]
    fixed, given = _inputs(signature)
    learned = {spec["parameter"]["arg"]["name"] for spec in signature["input_specs"] if "parameter" in spec}
    tensors: dict[str, Tensor] = {}

    def tensor_of(meta: Any, name: str) -> Tensor:
        width, is_float = float(WIDTHS.get(meta["dtype"], 4)), meta["dtype"] not in _COUNTING
        where = f"input {name!r}" if name in given else f"tensor {name!r}"
        counts = name in learned or (name in fixed and width < 2)  # quantised weights are buffers
        shape = _shape(meta["sizes"], dimensions, where)
        return Tensor(shape, width, is_float, name in fixed, learned=None if counts else 0)

    tensors |= {name: tensor_of(meta, name) for name, meta in graph["tensor_values"].items()}
    dimensions.check(file)
    writer = Writer(
        file,
        tensors,
        fixed,
        lambda meta, name: replace(tensor_of(meta, name), constant=False, learned=0),
        numbers,
    )
    outputs = writer.run(graph, {name: same.get(name, name) for name in tensors})
    mutations, holds = _replaced(signature), writer.storages.holds
    replaced = {at: name for at, name in mutations.items() if not holds(outputs[at], name)}
    unchanged = mutations.keys() - replaced.keys()
    outputs = [name for at, name in enumerate(outputs) if name and at not in unchanged]
    changed = dict.fromkeys(name for name in (*writer.storages.written, *replaced.values()) if name in fixed)
    for name in changed:  # a state: handed in, and handed out
        tensors[name] = replace(tensors[name], constant=False)
    writer.remarks |= dict.fromkeys(_on_states([name for name in changed if name in learned], tensors))
    outputs = [writer.storages.value(name) for name in outputs]
    outputs += [writer.storages.written[n] for n in (*changed, *given) if n in writer.storages.written]
    kept = tuple(dict.fromkeys(outputs))
    _check_order(writer.nodes, tensors, {*fixed, *given}, file)
    missing = next((name for name in kept if name not in tensors), None)
    if missing is not None:
        raise InputError(f"{file}: expected a tensor called {missing!r}, found none")
    inputs, states = (*given, *changed), frozenset((*changed, *writer.storages.written))
    return ModelGraph(
        "",
        tuple(writer.nodes),
        tensors,
        inputs,
        kept,
        tuple(writer.remarks),
        states=states.intersection(inputs),
        unread=_unread(signature, writer.nodes, (*kept, *changed, *same)),
    )


def _unread(signature: Any, nodes: Iterable[Node], needed: Iterable[str]) -> dict[str, str]:
    """Parameters, buffers and constants that no node needs on which the results depend, and the module's names."""
    wanted = set(needed)
    for node in reversed(tuple(nodes)):
        if wanted.intersection(node.outputs):
            inside = all_nodes(node.body.nodes) if node.body is not None else ()
            wanted.update(node.inputs, *(each.inputs for each in inside))
            wanted.update(node.body.outputs if node.body is not None else ())
    held = [content for spec in signature["input_specs"] for content in spec.values() if _held(content)]
    return {each["arg"]["name"]: _held(each) for each in held if each["arg"]["name"] not in wanted}


def _on_states(written: list[str], tensors: Mapping[str, Tensor]) -> list[str]:
    """The remark on parameters that a program writes; none where it writes none."""
    if not written:
        return []
    elements = counted(sum(tensors[name].elements for name in written), "parameter")
    return [
        f"{elements} of {listed(written)} are written in an inference: counted as a state, not as weights"
    ]


def _replaced(signature: Any) -> dict[int, str]:
    """The parameters and buffers that an output replaces, by its position, in programs that write nothing in place."""
    kinds = "buffer_mutation", "parameter_mutation"
    held = {
        _held(content): content["arg"]["name"]
        for spec in signature["input_specs"]
        for content in spec.values()
        if _held(content)
    }
    specs = [(at, *item) for at, spec in enumerate(signature["output_specs"]) for item in spec.items()]
    return {at: held[_held(content)] for at, kind, content in specs if kind in kinds}


def _held(content: Any) -> Any:
    """What an input or an output says the module calls it; None where it is none of the module's."""
    names = "buffer_name", "parameter_name", "tensor_constant_name"
    return next((content[name] for name in names if content.get(name)), None)


def _inputs(signature: Any) -> tuple[set[str], list[str]]:
    """Names of the tensors that are parameters, buffers or constants, and of those that the user hands in."""
    fixed: set[str] = set()
    given: list[str] = []
    for spec in signature["input_specs"]:
        (kind, content), *_ = spec.items()
        if kind == "user_input":
            name = content["arg"].get("as_tensor", {}).get("name")
            if name is not None:
                given.append(name)
        elif isinstance(content.get("arg"), dict) and "name" in content["arg"]:
            fixed.add(content["arg"]["name"])
    return fixed, given


def _shape(sizes: Any, dimensions: Dimensions, where: str) -> Shape | None:
    found: list[Any] = [
        each["as_int"] if "as_int" in each else _expression(each["as_expr"]["expr_str"], dimensions, where)
        for each in sizes
    ]
    return None if any(type(size) is not int or size < 0 for size in found) else tuple(found)


def _expression(text: str, dimensions: Dimensions, where: str) -> int | None:
    """The value of an expression as SymPy prints it: Mul(Integer(2), Symbol('s0', …)) or 2*s0; None where a size in it
    is not given, or depends on data (PyTorch calls those u0, u1 …)."""

    def symbol(name: str) -> float | None:
        return dimensions.given.get(name) if name.startswith("u") else dimensions.size(name, where)

    def value(term: ast.expr) -> float | None:
        match term:
            case ast.Constant(value=int(number) | float(number)):
                return number
            case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=str(number)), *_]):
                return float(number)
            case (
                ast.Name(id=name)
                | ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name)), *_])
            ):
                return symbol(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _applied("Neg", [value(operand)])
            case ast.BinOp(left=left, op=operator, right=right):
                return _applied(type(operator).__name__, [value(left), value(right)])
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments):
                return _applied(name, list(map(value, arguments)))
        return None

    try:
        found = value(ast.parse(text, mode="eval").body) if len(text) <= MAX_EXPRESSION else None
    except (SyntaxError, MemoryError, ValueError):
        return None
    return found if type(found) is int else None


_FUNCTIONS: dict[str, Callable[..., float | None]] = {
    "Integer": int,
    **dict.fromkeys(("Float", "ToFloat"), float),
    "Neg": lambda a: -a,
    "Sub": lambda a, b: a - b,
    **dict.fromkeys(("Mul", "Mult"), lambda *each: prod(each)),
    "Add": lambda *each: sum(each),
    "Max": max,
    "Min": min,
    **dict.fromkeys(("Pow", "PowByNatural"), lambda a, b: a**b if 0 <= b < 64 else None),
    **dict.fromkeys(("FloorDiv", "CleanDiv"), lambda a, b: a // b),
    **dict.fromkeys(("IntTrueDiv", "FloatTrueDiv", "Rational", "Div"), lambda a, b: a / b),
    "CeilDiv": lambda a, b: -(-a // b),
    **{"CeilToInt": ceil, "FloorToInt": floor, "TruncToInt": trunc, "RoundToInt": round},
    **dict.fromkeys(("Mod", "PythonMod"), lambda a, b: a % b),
}
"""Functions of SymPy and PyTorch, and operators of Python, in sizes; None where there is no such value."""


def _applied(name: str, values: list[float | None]) -> float | None:
    """A function of sizes; None where one is not known, or there is no such value."""
    known = [value for value in values if value is not None and abs(value) <= 2**62]
    try:
        return _FUNCTIONS[name](*known) if len(known) == len(values) else None
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None


def _check_order(nodes: Iterable[Node], tensors: Mapping[str, Tensor], given: set[str], file: str) -> None:
    written = set(given)
    for node in nodes:
        missing = next((name for name in node.inputs if name and name not in tensors), None)
        if missing is not None:
            raise InputError(f"{file}: expected a tensor called {missing!r}, found none")
        late = next((name for name in node.inputs if name and name not in written), None)
        if late is not None:
            raise InputError(
                f"{file}: node {node.name!r}: expected inputs that are written before, found {late!r}"
            )
        if node.body is not None:
            _check_order(node.body.nodes, tensors, written | set(node.body.inputs), file)
        written.update(node.outputs)
