"""JSON documents that users hand in: read strictly, refused in one line.

Every document is an object with `kind` and `version`. Refused beyond what JSON itself refuses: NaN and
Infinity, a field given twice in one object, nesting or numbers too long for the interpreter.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from workloads.errors import InputError


def parse_document(text: str, where: str, kind: str, version: int) -> dict[str, Any]:
    """The JSON object in `text`, its `kind` and `version` judged; `where` (a file name) begins every error.

    Raises:
        InputError: naming the file and the line and column, or the field, expected and found.
    """
    document = parse_object(text, where, kind)
    judge(document, where, kind, version)
    return document


def parse_object(text: str, where: str, kind: str) -> dict[str, Any]:
    """The JSON object in `text`, expected to be a `kind`. InputError as `parse_document`, but for kind and version."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}: line {error.lineno}, column {error.colno}: expected JSON, found: {error.msg}"
        ) from None
    except _Refused as error:
        raise InputError(f"{where}: {error}") from None
    except RecursionError:
        raise InputError(f"{where}: expected a {kind}, found JSON nested too deeply") from None
    except ValueError:
        raise InputError(f"{where}: expected numbers of few digits, found one of thousands") from None
    if not isinstance(document, dict):
        raise InputError(f"{where}: expected a JSON object, found {describe(document)}")
    return document


def check_characters(document: dict[str, Any], where: str) -> None:
    """InputError if a text in it has half of a character, which no file or terminal takes."""
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(f"{where}: expected text, found half of a surrogate pair") from None


def judge(document: dict[str, Any], where: str, kind: str, version: int) -> None:
    """Raise InputError unless the document is of this kind and version."""
    for field, expected in (("kind", kind), ("version", version)):
        found = document.get(field)
        if type(found) is not type(expected) or found != expected:
            given = describe(found) if field in document else "nothing"
            raise InputError(f"{where}: {field}: expected {json.dumps(expected)}, found {given}")


def describe(value: object) -> str:
    """A value for an error message: short, as JSON, containers by their type only."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(type(value).__name__)
    return text if len(text) <= 60 else f"{text[:57]}..."


class _Refused(Exception):
    """JSON that the parser would accept and that no document may hold."""


def _refuse_constant(name: str) -> float:
    raise _Refused(f"expected finite numbers, found {name}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    given = dict(pairs)
    if len(given) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _Refused(f"expected each field once in an object, found {describe(twice)} twice")
    return given


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
