"""Tables in JSON documents, one list per column: tens of thousands of rows stay small and quick to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workloads.errors import InputError
from workloads.json_text import describe

MAX_ROWS = 1_000_000
_EXPECTED: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "an integer"),
    "str": ((str,), "a string"),
    "bool": ((bool,), "true or false"),
    "float": ((int, float), "a number"),
    "tuple[int, ...]": ((list,), "a list of integers"),
}
"""Annotation of a field -> the types that JSON may give, and what they are called."""


def read_rows(
    document: Mapping[str, Any], table: str, columns: Mapping[str, str], where: str
) -> list[tuple[Any, ...]]:
    """The rows of one table, their values in the order of `columns` (name -> annotation, a key of `_EXPECTED`).

    Raises:
        InputError: a column is missing, unknown, of another type or of another length; it begins with `where`.
    """
    found = document.get(table)
    if not isinstance(found, dict):
        given = describe(found) if table in document else "nothing"
        raise InputError(f"{where}: {table}: expected an object of columns, found {given}")
    for name in found:
        if name not in columns:
            raise InputError(
                f"{where}: {table}: expected one of the columns {', '.join(columns)}, found {describe(name)}"
            )
    for name, kind in columns.items():
        _check_column(found.get(name), kind, f"{where}: {table}.{name}")
    lengths = {name: len(found[name]) for name in columns}
    first = next(iter(columns))
    for name, length in lengths.items():
        if length != lengths[first]:
            raise InputError(
                f"{where}: {table}.{name}: expected {lengths[first]} values as in {first}, found {length}"
            )
    values = [_values(found[name], kind) for name, kind in columns.items()]
    return list(zip(*values, strict=True))


def check_numbers(values: object, where: str) -> tuple[int, ...]:
    """A JSON list of integers. InputError, beginning with `where`, if it is none."""
    if not isinstance(values, list):
        given = "nothing" if values is None else describe(values)
        raise InputError(f"{where}: expected a list of integers, found {given}")
    for i, value in enumerate(values):
        if type(value) is not int:
            raise InputError(f"{where}[{i}]: expected an integer, found {describe(value)}")
    return tuple(values)


def _check_column(values: object, kind: str, field: str) -> None:
    if not isinstance(values, list):
        given = "nothing" if values is None else describe(values)
        raise InputError(f"{field}: expected a list, found {given}")
    if len(values) > MAX_ROWS:
        raise InputError(f"{field}: expected at most {MAX_ROWS} values, found {len(values)}")
    wanted, words = _EXPECTED[kind]
    for i, value in enumerate(values):
        if type(value) not in wanted:
            raise InputError(f"{field}[{i}]: expected {words}, found {describe(value)}")
        if list in wanted:
            check_numbers(value, f"{field}[{i}]")


def _values(values: Sequence[Any], kind: str) -> list[Any]:
    if kind == "float":
        return [_as_float(value) for value in values]
    return [tuple(value) for value in values] if kind.startswith("tuple") else list(values)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits; whoever checks refuses what is not finite
        return float("inf")
