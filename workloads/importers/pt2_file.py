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
from math import prod
from typing import Any

from workloads.errors import InputError
from workloads.importers.aten import DROPPED, Call, Ref, node_of
from workloads.importers.dimensions import Dimensions
from workloads.importers.ir import ModelGraph, Node, Shape, Tensor

MAX_GRAPH_BYTES = 512 * 2**20

_TYPES: dict[int, tuple[float, bool]] = {
    1: (1.0, True),
    2: (1.0, True),
    3: (2.0, False),
    4: (4.0, False),
    5: (8.0, False),
    6: (2.0, True),
    7: (4.0, True),
    8: (8.0, True),
    9: (4.0, True),
    10: (8.0, True),
    11: (16.0, True),
    12: (1.0, False),
    13: (2.0, True),
    28: (2.0, False),
    29: (1.0, True),
    30: (1.0, True),
    31: (1.0, True),
    32: (1.0, True),
}
"""Number of a type in the schema -> bytes an element, and whether it holds numbers to compute with."""


def read(data: bytes, file: str, dimensions: Dimensions) -> ModelGraph:
    """The program in a file's bytes.

    Raises:
        InputError: not an exported program, or dimensions are open that `dimensions` does not give.
    """
    program = _program(data, file)
    try:
        return _graph(program, file, dimensions)
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
        what = " ".join(str(error).split())[:80]
        raise InputError(
            f"{file}: expected the graph of an exported program, found another form ({type(error).__name__}: {what})"
        ) from None


def _program(data: bytes, file: str) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [info.filename for info in archive.infolist()]
            found = [name for name in names if name.endswith(".json") and "/models/" in f"/{name}"]
            found += [name for name in names if name.endswith("serialized_exported_program.json")]
            if not found:
                raise InputError(
                    f"{file}: expected a program written by torch.export.save, found none in the archive"
                )
            with archive.open(min(found)) as stream:
                text = stream.read(MAX_GRAPH_BYTES + 1)
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file}: expected a file written by torch.export.save, found: {error}") from None
    if len(text) > MAX_GRAPH_BYTES:
        raise InputError(f"{file}: expected a graph of at most {MAX_GRAPH_BYTES} bytes, found more")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: expected JSON in the archive, found: {error}") from None


def _graph(program: Any, file: str, dimensions: Dimensions) -> ModelGraph:
    module = program["graph_module"]
    graph, signature = module["graph"], module["signature"]
    fixed, given = _inputs(signature)
    tensors: dict[str, Tensor] = {}
    for name, meta in graph["tensor_values"].items():
        width, is_float = _TYPES.get(meta["dtype"], (4.0, True))
        where = f"input {name!r}" if name in given else f"tensor {name!r}"
        tensors[name] = Tensor(_shape(meta["sizes"], dimensions, where), width, is_float, name in fixed)
    dimensions.check(file)
    nodes: list[Node] = []
    for position, item in enumerate(graph["nodes"]):
        call = _call(item, position)
        if call.op in DROPPED or not call.outputs:
            continue
        for name in call.outputs:
            if name and name not in tensors:
                tensors[name] = Tensor(None)
        nodes.append(node_of(call, tensors))
    _check_order(nodes, {*fixed, *given}, file)
    outputs = tuple(arg["as_tensor"]["name"] for arg in graph["outputs"] if "as_tensor" in arg)
    missing = [
        name for name in (*outputs, *(n for node in nodes for n in node.inputs if n)) if name not in tensors
    ]
    if missing:
        raise InputError(f"{file}: expected a tensor called {missing[0]!r}, found none")
    return ModelGraph("", tuple(nodes), tensors, tuple(given), outputs)


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


def _call(item: Any, position: int) -> Call:
    target = item["target"].removeprefix("torch.ops.")
    _, _, rest = target.partition(".")
    op = rest.partition(".")[0] if target.startswith("aten.") else target
    outputs: list[str] = []
    for output in item["outputs"]:
        if "as_tensor" in output:
            outputs.append(output["as_tensor"]["name"])
        elif "as_tensors" in output:
            outputs += [each["name"] for each in output["as_tensors"]]
    arguments = {argument["name"]: _value(argument["arg"]) for argument in item["inputs"]}
    name = item.get("name") or (outputs[0] if outputs else f"node_{position}")
    return Call(name, op or "_".join(target.split(".")), arguments, tuple(outputs))


def _value(argument: Any) -> Any:
    """A tensor as a `Ref`, numbers and texts as they are, None for everything else."""
    (kind, content), *_ = argument.items()
    if kind == "as_tensor":
        return Ref(content["name"])
    if kind in ("as_tensors", "as_optional_tensors"):
        return [_optional(each) for each in content]
    if kind in ("as_int", "as_float", "as_bool", "as_string", "as_ints", "as_floats", "as_bools"):
        return content
    if kind == "as_sym_ints":
        return [each.get("as_int") for each in content]
    return None


def _optional(item: Any) -> Ref | None:
    if "name" in item:
        return Ref(item["name"])
    tensor = item.get("as_tensor")
    return Ref(tensor["name"]) if tensor else None


def _shape(sizes: Any, dimensions: Dimensions, where: str) -> Shape | None:
    found: list[int] = []
    for size in sizes:
        value = (
            size["as_int"]
            if "as_int" in size
            else _expression(size["as_expr"]["expr_str"], dimensions, where)
        )
        if value is None or type(value) is not int or value < 0:
            return None
        found.append(value)
    return tuple(found)


def _expression(text: str, dimensions: Dimensions, where: str) -> int | None:
    """The value of an expression as SymPy prints it: Mul(Integer(2), Symbol('s0', …)) or 2*s0."""
    if len(text) > 10_000:
        return None
    try:
        term = ast.parse(text, mode="eval").body
    except (SyntaxError, MemoryError):
        return None
    return _evaluate(term, dimensions, where)


def _evaluate(term: ast.expr, dimensions: Dimensions, where: str) -> int | None:
    if isinstance(term, ast.Constant) and type(term.value) is int:
        return term.value
    if isinstance(term, ast.Name):
        return _symbol(term.id, dimensions, where)
    if isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.USub):
        value = _evaluate(term.operand, dimensions, where)
        return None if value is None else -value
    if isinstance(term, ast.BinOp):
        names = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.FloorDiv: "FloorDiv", ast.Mod: "Mod"}
        values = [_evaluate(side, dimensions, where) for side in (term.left, term.right)]
        return _apply(names.get(type(term.op), ""), values)
    if isinstance(term, ast.Call) and isinstance(term.func, ast.Name | ast.Attribute):
        name = term.func.id if isinstance(term.func, ast.Name) else term.func.attr
        if name == "Symbol" and term.args and isinstance(term.args[0], ast.Constant):
            return _symbol(str(term.args[0].value), dimensions, where)
        return _apply(name, [_evaluate(each, dimensions, where) for each in term.args])
    return None


def _symbol(name: str, dimensions: Dimensions, where: str) -> int | None:
    """The size of an open dimension; None, too, for one that depends on data (PyTorch calls those u0, u1 …)."""
    return dimensions.given.get(name) if name.startswith("u") else dimensions.size(name, where)


def _apply(name: str, values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not known or any(abs(value) > 2**62 for value in known):
        return None
    first, *rest = known
    if name == "Integer":
        return first
    if name == "Add":
        return sum(known)
    if name == "Sub" and rest:
        return first - rest[0]
    if name == "Mul":
        return prod(known)
    if name in ("Max", "Min"):
        return max(known) if name == "Max" else min(known)
    if name in ("FloorDiv", "CleanDiv", "CeilDiv", "CeilToInt") and rest and rest[0]:
        return -(-first // rest[0]) if name.startswith("Ceil") else first // rest[0]
    if name in ("Mod", "PythonMod") and rest and rest[0]:
        return first % rest[0]
    return None


def _check_order(nodes: list[Node], given: set[str], file: str) -> None:
    written = set(given)
    for node in nodes:
        late = next((name for name in node.inputs if name and name not in written), None)
        if late is not None:
            raise InputError(
                f"{file}: node {node.name!r}: expected inputs that are written before, found {late!r}"
            )
        written.update(node.outputs)
