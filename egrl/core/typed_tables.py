"""Tables of settings, read strictly into dataclasses: the keys of a TOML file, of `--set`, of keyword arguments.

A key of a nested table may be named alone where it is unique: `--set method.t0=0.1`. A table itself stands for its
key `name`, if it has one: `--set method.network=gat`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

from annotated_types import Ge, Gt, Lt, Predicate
from typing_extensions import Doc

from workloads.errors import InputError
from workloads.references import NamesCode
from workloads.text import hint

TABLES = ("problem", "method", "evaluator")
"""The tables that `--set` reaches."""
MOST_LISTED = 4
"""Keys that a message lists."""
FLAGS = "--"
"""Where a value is from, if each key is a flag: messages name `--generation-evals`."""
LIMITS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "predicate_failed": "printable UTF-8",
}
"""Kind of a limit -> what messages say is expected; `str.isprintable` is the one predicate that settings have."""
T = TypeVar("T")
Printable = Annotated[str, Predicate(str.isprintable)]
Number = Annotated[float, Gt(-math.inf), Lt(math.inf)]
Positive = Annotated[float, Gt(0), Lt(math.inf)]
Count = Annotated[int, Ge(0)]

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


@functools.cache  # annotations are text: to read those of all settings takes longer than a small search
def leaves(kind: type) -> tuple[tuple[str, Any], ...]:
    """(dotted key, type) of every setting of a dataclass, nested dataclasses walked."""
    hints, found = get_type_hints(kind), list[tuple[str, Any]]()
    for entry in dataclasses.fields(kind):
        hint = hints[entry.name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            found += [(f"{entry.name}.{name}", nested) for name, nested in leaves(hint)]
        else:
            found.append((entry.name, hint))
    return tuple(found)


@functools.cache
def _checks(kind: type) -> dict[str, TypeAdapter[Any]]:
    """What checks the value of every setting of a dataclass, by its dotted key."""
    from pydantic import ConfigDict, TypeAdapter

    finite = ConfigDict(allow_inf_nan=False)
    return {name: TypeAdapter(hint, config=finite) for name, hint in leaves(kind)}


@functools.cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _resolve(key: str, kind: type, where: str) -> str:
    """The full dotted key that `key` names: itself, or the one nested key that ends in it."""
    names = [name for name, _ in leaves(kind)]
    if key in names:
        return key
    if f"{key}.name" in names:
        return f"{key}.name"
    matches = [name for name in names if name.endswith("." + key)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(f"{where}: {key!r} is ambiguous: expected one of {', '.join(matches)}")
    ends = {name.rsplit(".", 1)[-1]: name for name in names}
    meant = hint(key, names) or hint(key.rsplit(".", 1)[-1], ends)
    raise InputError(f"{where}: unknown key {key!r}{meant or '; expected ' + _listed(names)}")


def code_settings(config: Any, prefix: str = "") -> Iterator[tuple[str, str, NamesCode]]:
    """(dotted key, text, marker) of every setting of a dataclass that may name code, nested ones walked."""
    hints = get_type_hints(type(config), include_extras=True)
    for entry in dataclasses.fields(config):
        value = getattr(config, entry.name)
        if dataclasses.is_dataclass(value):
            yield from code_settings(value, f"{prefix}{entry.name}.")
        for mark in getattr(hints[entry.name], "__metadata__", ()):
            if isinstance(mark, NamesCode):
                yield f"{prefix}{entry.name}", value, mark


def check_code(config: Any) -> None:
    """Import the code that a user's settings of a method name. InputError naming the setting that names none of use."""
    for key, text, mark in code_settings(config):
        mark.check(text, f"--set method.{key}={text}")


def missing_code(config: Any, given: Sequence[str]) -> list[str]:
    """The words `--set method.KEY=TEXT` for each code that a method's config of a file names and `given` does not."""
    named = parse_set(given, "method")["method"]
    own = {_resolve(key, type(config), "--set"): value for key, value in named.items()}
    words = (
        (f"method.{key}={text}", mark.refers(text), own.get(key) == text)
        for key, text, mark in code_settings(config)
    )
    return [word for setting, foreign, same in words if foreign and not same for word in ("--set", setting)]


def _listed(names: Sequence[str]) -> str:
    """The names, or the first of many and where to find the rest."""
    if len(names) <= MOST_LISTED:
        return f"one of {', '.join(names)}" if names else "none: there is nothing to set"
    more = len(names) - MOST_LISTED
    return f"one of {', '.join(names[:MOST_LISTED])} or {more} more (the config.toml of a run has all)"


def _flatten(table: Mapping[str, Any], kind: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    nested = {name for name, _ in leaves(kind)}
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, Mapping) and any(n.startswith(name + ".") for n in nested):
            yield from _flatten(value, kind, name + ".")
        else:
            yield name, value


def build(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """A dataclass from its defaults and a table of (possibly nested or dotted) keys, types checked.

    Raises InputError naming the key, what was expected and what was found.
    """
    from pydantic import ValidationError

    tree: dict[str, Any] = plain_table(kind())
    for key, value in _flatten(table, kind):
        *parents, leaf = _resolve(key, kind, where).split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    whole: type = kind
    checks = _checks(whole)
    try:
        for key, value in _flatten(tree, kind):
            checks[key].validate_python(value, strict=True)
        built: T = _adapter(whole).validate_python(tree)
        return built
    except ValidationError as error:
        location, wrong = _first(error)
        location = location or (key if checks else "")
        named = FLAGS + location.replace("_", "-") if where == FLAGS else f"{where}: {location}"
        raise InputError(f"{named}: {wrong}") from error


def check_document(kind: type, document: Mapping[str, Any], where: str) -> None:
    """InputError unless a JSON document has the fields of a TypedDict, with values of their types. It may have more."""
    from pydantic import ValidationError

    try:
        _adapter(kind).validate_python(document, strict=True)
    except ValidationError as error:
        raise InputError(f"{where}: {': '.join(_first(error))}") from error


def _first(error: ValidationError) -> tuple[str, str]:
    """Where the first mistake is, and what was expected and found there."""
    first = error.errors()[0]
    location = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return location, "expected it, found none"
    if first["type"] in LIMITS:
        message = "expected " + LIMITS[first["type"]].format(**first.get("ctx", {}))
    else:
        message = first["msg"].removeprefix("Value error, ").replace("Input should be ", "expected ", 1)
    return location, message + ("" if first["type"] == "value_error" else f", found {_short(first['input'])}")


def meaning(hint: Any) -> str:
    """What the `Doc` of an annotation says; "" if it has none."""
    return next(
        (each.documentation for each in getattr(hint, "__metadata__", ()) if isinstance(each, Doc)), ""
    )


def meanings(kind: type) -> dict[str, str]:
    """Field of a dataclass -> what its `Doc` says."""
    hints = get_type_hints(kind, include_extras=True)
    return {entry.name: meaning(hints[entry.name]) for entry in dataclasses.fields(kind)}


def _short(value: Any) -> str:
    """A value as it is typed, cut to 60 characters."""
    return repr(value[:60]) if isinstance(value, str) else repr(value)[:60]


def parse_set(settings: Sequence[str], *names: str) -> dict[str, dict[str, Any]]:
    """{"problem": {key: value}, "method": {…}, "evaluator": {…}} from `--set problem.invalid=penalise …`.

    A value is TOML or, where it is not, a plain word. Raises InputError where a setting is not of that form, or of
    another table than those in `names` (none: of all).
    """
    tables: dict[str, dict[str, Any]] = {name: {} for name in names or TABLES}
    for setting in settings:
        path, equals, text = setting.partition("=")
        table, dot, key = path.strip().partition(".")
        if not equals or not dot or table not in tables or not key:
            raise InputError(
                f"--set {setting}: expected {' or '.join(f'{name}.KEY=VALUE' for name in tables)}"
                f"{hint(table, tables) if table not in tables else ''}"
            )
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            value = text.strip()
        tables[table][key] = value
    return tables


def dotted_keys(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value of nested tables."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= dotted_keys(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def plain_table(value: Any) -> Any:
    """A dataclass as nested tables of plain values; what is None is left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: plain_table(v)
            for f in dataclasses.fields(value)
            if (v := getattr(value, f.name)) is not None
        }
    if isinstance(value, list | tuple):
        return [plain_table(v) for v in value]
    return value


def flattened(table: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """A table of tables as one table; keys are joined by dots."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= flattened(value, f"{within}{key}.") if isinstance(value, Mapping) else {within + key: value}
    return found
