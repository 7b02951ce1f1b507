"""Training steps as JSON text, and back.

    {"kind": "training-step", "version": 1, "name": …, "source": …, "graph": …,
     "values": {"name": […], "size_bytes": […], "view_of": […], "role": […]},
     "ops": {"name": […], "kind": […], "phase": […], "inputs": [[…], …], "outputs": [[…], …], "seconds": […],
             "scratch_bytes": […], "recomputable": […], "module": […]},
     "outputs": […], "gradients": […]}

Fields are those of `egrl_training.steps.step`, one column each; a value is called by its position. `module` may be
missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from egrl_training.steps.check import check
from egrl_training.steps.step import Op, TrainingStep, Value
from workloads.errors import InputError
from workloads.json_text import check_numbers, describe, judge, parse_object, read_rows

KIND = "training-step"
VERSION = 1

_TABLES: dict[str, type] = {"values": Value, "ops": Op}
_COLUMNS = {table: {f.name: str(f.type) for f in fields(row)} for table, row in _TABLES.items()}
_LISTS = ("outputs", "gradients")
_TEXTS = ("source", "graph")
"""Texts that a step may lack."""
_OPTIONAL = "module"
"""The column that a table may lack."""
_SEPARATOR = ",\n"


def to_json(step: TrainingStep) -> str:
    """The step as JSON, one line per column; `from_json` gives an equal step back.

    Raises:
        InputError: the step is not sound, so that nothing could read the text back.
    """
    check(step)
    header: dict[str, Any] = {"kind": KIND, "version": VERSION, "name": step.name}
    header |= {field: text for field in _TEXTS if (text := getattr(step, field))}
    parts = [f"{_dump(key)}: {_dump(value)}" for key, value in header.items()]
    for table, columns in _COLUMNS.items():
        rows = getattr(step, table)
        known = [c for c in columns if c != _OPTIONAL or any(getattr(row, c) for row in rows)]
        lines = [f"  {_dump(c)}: {_dump([getattr(row, c) for row in rows])}" for c in known]
        parts.append(f"{_dump(table)}: {{\n{_SEPARATOR.join(lines)}\n}}")
    parts += [f"{_dump(name)}: {_dump(getattr(step, name))}" for name in _LISTS]
    return f"{{{_SEPARATOR.join(parts)}}}\n"


def from_json(text: str, where: str) -> TrainingStep:
    """Parse and check a step; `where` (a file name) begins every error.

    Raises:
        InputError: one line naming file, field, what was expected and what was found.
    """
    document = parse_object(text, where, KIND)
    judge(document, where, KIND, VERSION)
    known = ("kind", "version", "name", *_TEXTS, *_TABLES, *_LISTS)
    for field in document:
        if field not in known:
            raise InputError(
                f"{where}: expected one of the fields {', '.join(known)}, found {describe(field)}"
            )
    for field in ("name", *_TEXTS):
        if type(document.get(field, "")) is not str:
            raise InputError(f"{where}: {field}: expected a string, found {describe(document[field])}")
    values, ops = (read_rows(document, table, _present(document, table), where) for table in _TABLES)
    outputs, gradients = (check_numbers(document.get(name), f"{where}: {name}") for name in _LISTS)
    step = TrainingStep(
        document.get("name", ""),
        tuple(Value(*row) for row in values),
        tuple(Op(*row) for row in ops),
        outputs,
        gradients,
        *(document.get(field, "") for field in _TEXTS),
    )
    try:
        return check(step)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _present(document: Mapping[str, Any], table: str) -> dict[str, str]:
    """The columns of a table with their types, without the one that it may lack if it does."""
    given = document.get(table)
    lacking = isinstance(given, dict) and _OPTIONAL not in given
    return {name: kind for name, kind in _COLUMNS[table].items() if name != _OPTIONAL or not lacking}


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
