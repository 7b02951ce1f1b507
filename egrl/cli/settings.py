"""What `--set` can change, for people: the settings of a dataclass, what they are by default, may be and mean.

Meanings are those of the docstrings' "Attributes", so that a setting is described where it is defined.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


@dataclass(frozen=True)
class Known:
    """A setting.

    Attributes:
        key: dotted, as `--set` takes it.
        default: its value where nothing is said (None: unlimited).
        allowed: the words or the range that it can take, for people; "" where its type says everything.
        meaning: of it.
    """

    key: str
    default: Any
    allowed: str
    meaning: str


def known(given: Any, prefix: str) -> Iterator[Known]:
    """Every setting of an instance of a dataclass with its defaults, nested ones walked; keys begin with `prefix`."""
    kind = type(given)
    hints, meanings = get_type_hints(kind, include_extras=True), _meanings(kind)
    for entry in dataclasses.fields(kind):
        value, key = getattr(given, entry.name), f"{prefix}.{entry.name}"
        if dataclasses.is_dataclass(value):
            yield from known(value, key)
        else:
            yield Known(key, value, _allowed(hints[entry.name]), meanings.get(entry.name, ""))


def table(settings: Sequence[Known]) -> list[str]:
    """Default, what is allowed, and meaning of each, as aligned columns."""
    rows = [(json.dumps(each.default).strip('"'), each.allowed) for each in settings]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        f"{default:<{widths[0]}}  {allowed:<{widths[1]}}  {each.meaning}"
        for (default, allowed), each in zip(rows, settings, strict=True)
    ]


def _allowed(hint: Any) -> str:
    bounds = [
        f"{sign} {getattr(bound, name):{',' if isinstance(getattr(bound, name), int) else 'g'}}"
        for bound in getattr(hint, "__metadata__", ())
        for name, sign in BOUNDS.items()
        if hasattr(bound, name)
    ]
    if bounds:
        return ", ".join(bounds)
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    return "true | false" if hint is bool else ""


def _meanings(kind: type) -> dict[str, str]:
    """Attribute -> what the docstrings of a class and of those it is made of say of it, on one line."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        _, _, listed = (inspect.cleandoc(each.__doc__ or "")).partition("Attributes:\n")
        text = re.sub(r"\n {5,}", " ", listed.split("\n\n")[0])
        for line in text.splitlines():
            names, _, meaning = line.strip().partition(": ")
            found |= dict.fromkeys(names.split(", "), meaning.removesuffix("."))
    return found
