"""Programs as JSON text, and back.

    {"kind": "program", "version": 1, "name": …, "source": …,
     "instructions": {"name": […], "opcode": […], "flops": […], "slow_bytes": […]},
     "tensors": {"name": […], "size_bytes": […], "produced": […], "last_use": […], "leaves": […]},
     "buffers": {"tensor": […], "instruction": […], "is_output": […], "traffic_bytes": […], "alias_id": […]}}

A program with what its compiler decided has a `compiled`, too: {"name": …, "instructions": {"cycles": […],
"scratch_bytes": […]}, "buffers": {"action": […], "copy_first": […], "copy_last": […]}} (`workloads.programs.compiled`).

Fields are those of `workloads.programs.program`, a column each: tens of thousands of buffers stay small and quick.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from workloads.errors import InputError
from workloads.json_text import describe, judge, parse_object, read_rows
from workloads.programs import compiled as compilers
from workloads.programs.compiled import Compiled, Estimate, Placed
from workloads.programs.program import Buffer, Instruction, Program, Tensor, check
from workloads.text import few

KIND = "program"
VERSION = 1

_TABLES: dict[str, type] = {"instructions": Instruction, "tensors": Tensor, "buffers": Buffer}
_COLUMNS = {table: {f.name: str(f.type) for f in fields(row)} for table, row in _TABLES.items()}
_SEPARATOR = ",\n"


def to_json(program: Program) -> str:
    """The program as JSON, one line per column; `from_json` gives an equal program back.

    Raises:
        InputError: the program is not sound, so that nothing could read the text back.
    """
    check(program)
    header: dict[str, Any] = {"kind": KIND, "version": VERSION, "name": program.name}
    if program.source:
        header["source"] = program.source
    if program.remarks:
        header["remarks"] = list(program.remarks)
    parts = [f"{_dump(key)}: {_dump(value)}" for key, value in header.items()]
    parts += _tables(program, _COLUMNS)
    if program.compiled is not None:
        inner = [
            f"{_dump('name')}: {_dump(program.compiled.name)}",
            *_tables(program.compiled, compilers.COLUMNS),
        ]
        parts.append(f"{_dump('compiled')}: {{{_SEPARATOR.join(inner)}}}")
    return f"{{{_SEPARATOR.join(parts)}}}\n"


def _tables(owner: Program | Compiled, tables: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The tables of columns that an object has under their names, as JSON."""
    parts = []
    for table, columns in tables.items():
        rows = getattr(owner, table)
        lines = [f"  {_dump(c)}: {_dump([getattr(row, c) for row in rows])}" for c in columns]
        parts.append(f"{_dump(table)}: {{\n{_SEPARATOR.join(lines)}\n}}")
    return parts


def from_json(text: str, where: str) -> Program:
    """Parse and check a program; `where` (a file name) begins every error.

    Raises:
        InputError: one line naming file, field, what was expected and what was found.
    """
    return from_document(parse_object(text, where, KIND), where)


def from_document(document: dict[str, Any], where: str) -> Program:
    """The program in a JSON object that is parsed already, checked. InputError as `from_json`."""
    judge(document, where, KIND, VERSION)
    known = ("kind", "version", "name", "source", *_TABLES, "remarks", "compiled")
    for field in document:
        if field not in known:
            raise InputError(
                f"{where}: expected one of the fields {', '.join(known)}, found {describe(field)}"
            )
    for field in ("name", "source"):
        if type(document.get(field, "")) is not str:
            raise InputError(f"{where}: {field}: expected a string, found {describe(document[field])}")
    remarks = document.get("remarks", [])
    if not isinstance(remarks, list):
        raise InputError(f"{where}: remarks: expected a list of strings, found {describe(remarks)}")
    if "name" not in document:
        raise InputError(f"{where}: name: expected a string, found nothing")
    instructions, tensors, buffers = (read_rows(document, table, _COLUMNS[table], where) for table in _TABLES)
    program = Program(
        document["name"],
        tuple(Instruction(*row) for row in instructions),
        tuple(Tensor(*row) for row in tensors),
        tuple(Buffer(*row) for row in buffers),
        document.get("source", ""),
        few(remarks),
        _compiled(document, where),
    )
    try:
        return check(program)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _compiled(document: dict[str, Any], where: str) -> Compiled | None:
    """What the program's compiler decided; None where the document does not say. InputError as `from_json`."""
    if "compiled" not in document:
        return None
    found, where = document["compiled"], f"{where}: compiled"
    if not isinstance(found, dict) or sorted(found) != ["buffers", "instructions", "name"]:
        raise InputError(
            f"{where}: expected an object of name, instructions and buffers, found {describe(found)}"
        )
    if type(found["name"]) is not str:
        raise InputError(f"{where}: name: expected a string, found {describe(found['name'])}")
    instructions, buffers = (read_rows(found, t, compilers.COLUMNS[t], where) for t in compilers.TABLES)
    return Compiled(
        found["name"], tuple(Estimate(*row) for row in instructions), tuple(Placed(*row) for row in buffers)
    )


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


__all__ = ["KIND", "VERSION", "check", "from_document", "from_json", "to_json"]
