"""Workloads as JSON text, and back.

    {"kind": "workload", "version": 1, "name": …, "source": …, "element_bytes": {…}, "ops": [{…}, …]}

An op's fields are those of `workloads.workload.Op`; a field at its default may be left out. An edge is the name
of the op it reads (all of its output), or {"source": …, "read_bytes": …}.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, asdict, fields
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from workloads.errors import InputError
from workloads.json_text import describe, parse_document
from workloads.text import few
from workloads.workload import MAX_OPS, Edge, ElementBytes, Gemm, Op, Workload, check

KIND = "workload"
VERSION = 1

_DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(Op) if f.default is not MISSING}


class _Document(BaseModel):
    """The file. Nested dataclasses follow the same rules: no extra fields, no conversions, finite."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    kind: Literal["workload"]
    version: Literal[1]
    name: str
    ops: Annotated[tuple[Op, ...], Field(max_length=MAX_OPS)]
    element_bytes: ElementBytes = ElementBytes()
    source: str = ""
    remarks: tuple[str, ...] = ()


_FIELDS: dict[str, tuple[str, ...]] = {
    "": tuple(_Document.model_fields),
    "ops": tuple(f.name for f in fields(Op)),
    "inputs": tuple(f.name for f in fields(Edge)),
    "gemm": tuple(f.name for f in fields(Gemm)),
    "element_bytes": tuple(f.name for f in fields(ElementBytes)),
}
"""Names of the fields allowed in the document itself and in each object inside it."""

_OFM_KEY = re.compile(r'"ofm"\s*:')
"""Every op has this key once and nothing else has it (quotes inside strings are escaped): millions of ops are
counted in the text, far faster than they are parsed."""

_EXPECTED = {
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "finite_number": "a finite number",
    "dataclass_type": "an object",
}
"""What stands behind the parser's types of fault."""


def to_json(workload: Workload) -> str:
    """The workload as JSON, one op per line; `from_json` gives an equal workload back.

    Raises:
        InputError: the workload is not sound, so that nothing could read the text back.
    """
    check(workload)
    held = {op.name: op.output_bytes for op in workload.ops}
    header: dict[str, Any] = {"kind": KIND, "version": VERSION, "name": workload.name}
    if workload.source:
        header["source"] = workload.source
    if workload.remarks:
        header["remarks"] = list(workload.remarks)
    if workload.element_bytes != ElementBytes():
        header["element_bytes"] = asdict(workload.element_bytes)
    head = "".join(f"{_dump(key)}: {_dump(value)},\n" for key, value in header.items())
    ops = ",\n".join(f"  {_dump(_op_fields(op, held))}" for op in workload.ops)
    return f'{{{head}"ops": [\n{ops}\n]}}\n'


def from_json(text: str, where: str) -> Workload:
    """Parse and check a workload; `where` (a file name) begins every error.

    Raises:
        InputError: one line naming file, field, what was expected and what was found.
    """
    _bound_ops(sum(1 for _ in _OFM_KEY.finditer(text)), where)
    document = parse_document(text, where, KIND, VERSION)
    ops = document.get("ops")
    if isinstance(ops, list):
        _bound_ops(len(ops), where)
        _expand_edges(ops)
    try:
        # Strict JSON mode takes arrays for tuples but never "5", 5.0 or true for an integer.
        parsed = _Document.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise InputError(f"{where}: {_first_fault(error)}") from None
    try:
        return check(
            Workload(parsed.name, parsed.ops, parsed.element_bytes, parsed.source, few(parsed.remarks))
        )
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _bound_ops(count: int, where: str) -> None:
    if count > MAX_OPS:
        raise InputError(f"{where}: ops: expected at most {MAX_OPS} ops, found {count}")


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _op_fields(op: Op, held: dict[str, int]) -> dict[str, Any]:
    values = {f.name: getattr(op, f.name) for f in fields(Op)}
    values["inputs"] = [
        e.source if e.read_bytes == held[e.source] else {"source": e.source, "read_bytes": e.read_bytes}
        for e in op.inputs
    ]
    given = {k: v for k, v in values.items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
    if op.gemm is not None:
        given["gemm"] = asdict(op.gemm)
    return given


def _expand_edges(ops: list[Any]) -> None:
    """Write bare names out as edges, in place. What is malformed stays as it is, for the parser to name."""
    objects = [op for op in ops if isinstance(op, dict)]
    held = {
        op["name"]: op["output_bytes"]
        for op in objects
        if isinstance(op.get("name"), str) and type(op.get("output_bytes")) is int
    }
    for op in objects:
        if isinstance(op.get("inputs"), list):
            op["inputs"] = [
                {"source": e, "read_bytes": held.get(e, 0)} if isinstance(e, str) else e for e in op["inputs"]
            ]


def _first_fault(error: ValidationError) -> str:
    """The first fault on one line, and how many more there are."""
    faults = error.errors(include_url=False)
    first = faults[0]
    if first["type"] == "json_invalid":
        return "expected valid Unicode in strings, found a lone surrogate"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{_path(first['loc'])}: {_complaint(first)}{more}"


def _complaint(fault: ErrorDetails) -> str:
    kind = fault["type"]
    if kind == "missing":
        return "expected a value, found nothing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        owner = next((part for part in reversed(fault["loc"][:-1]) if isinstance(part, str)), "")
        return f"expected one of the fields {', '.join(_FIELDS[owner])}, found an unknown one"
    if kind == "too_long":
        expected, found = f"{fault['ctx']['max_length']} values", str(fault["ctx"]["actual_length"])
    else:
        expected, found = _EXPECTED.get(kind, fault["msg"]), describe(fault["input"])
    return f"expected {expected}, found {found}"


def _path(loc: tuple[int | str, ...]) -> str:
    """("ops", 3, "inputs", 0, "source") -> ops[3].inputs[0].source"""
    steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return "".join(steps).removeprefix(".")


SIZES = ("ifm", "ofm", "batch", "gemm", "output_bytes", "external_bytes", "weight_bytes", "steps", "inputs")
"""Fields of an op that must be the same. Times, kinds and vector operations may differ."""


def first_difference(expected: Workload, found: Workload) -> str:
    """The first op that is another one or has another shape, size or input, in words; "" if there is none."""
    pairs = list(zip(expected, found, strict=False))
    for number, (one, other) in enumerate(pairs):
        if one.name != other.name:
            return f"expected {one.name!r} as op {number}, found {other.name!r}"
    for one, other in pairs:
        for name in SIZES:
            values = _words(one, name), _words(other, name)
            if values[0] != values[1]:
                return f"expected {name} of {one.name!r} to be {values[0]}, found {values[1]}"
    return "" if len(expected) == len(found) else f"expected {len(expected)} ops, found {len(found)}"


def _words(op: Op, name: str) -> str:
    value = getattr(op, name)
    return ", ".join(map(_edge, value)) or "none" if name == "inputs" else str(value)


def _edge(edge: Edge) -> str:
    return f"{edge.read_bytes} bytes of {edge.source!r}"
