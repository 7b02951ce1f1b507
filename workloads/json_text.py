"""JSON documents that users hand in: read strictly, refused in one line.

Every document is an object with `kind` and `version`. Refused beyond what JSON itself refuses: NaN and
Infinity, a field given twice in one object, nesting or numbers too long for the interpreter.
"""

from __future__ import annotations

import json
from collections import Counter
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
