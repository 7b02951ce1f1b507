"""What `--set` can change, for people: the settings of a dataclass, what they are by default, may be and mean.

A meaning is the `Doc` of the field's type (PEP 727), so that a setting is described where it is defined.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from egrl.core.typed_tables import meaning

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
    hints = get_type_hints(kind, include_extras=True)
    for entry in dataclasses.fields(kind):
        value, key = getattr(given, entry.name), f"{prefix}.{entry.name}"
        if dataclasses.is_dataclass(value):
            yield from known(value, key)
        else:
            yield Known(key, value, _allowed(hints[entry.name]), meaning(hints[entry.name]))


def table(settings: Sequence[Known]) -> list[str]:
    """Default, what is allowed, and meaning of each, as aligned columns."""
    rows = [(json.dumps(each.default).strip('"'), each.allowed) for each in settings]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] or [0, 0]
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
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    return "true | false" if hint is bool else ""
