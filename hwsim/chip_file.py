"""What chip files of every problem have in common: TOML with a kind and a version, read strictly into a dataclass."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tomli_w
from pydantic import Field, TypeAdapter, ValidationError

from workloads.errors import InputError
from workloads.files import parse_toml, read_text

MAX_FILE_BYTES = 1 << 20

Count = Annotated[int, Field(strict=True, ge=1, lt=2**53)]
Rate = Annotated[float, Field(strict=True, ge=1, le=1e18, allow_inf_nan=False)]
Name = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]

C = TypeVar("C")


def packaged_names(folder: Traversable) -> tuple[str, ...]:
    """Names of the chips in a folder of the package, sorted."""
    return tuple(sorted(p.name.removesuffix(".toml") for p in folder.iterdir() if p.name.endswith(".toml")))


def renamed(folder: Traversable, like: str, name: str) -> str:
    """The commented text of a chip in a folder of the package, under another name."""
    text = (folder / f"{like}.toml").read_text(encoding="utf-8")
    return re.sub(r"(?m)^name = .*$", lambda _: f'name = "{name}"', text, count=1)


def load(name_or_file: str | Path, folder: Traversable, parse: Callable[[str, str], C]) -> C:
    """A chip by its name in a folder of the package or from a TOML file, read by `parse` (text, where).

    Raises:
        InputError: neither a known name nor a readable file, or the file is not a chip.
    """
    given, names = str(name_or_file), packaged_names(folder)
    if given in names:
        return parse((folder / f"{given}.toml").read_text(encoding="utf-8"), f"{given}.toml")
    if not given.endswith(".toml"):
        raise InputError(f"chip {given!r}: expected one of {', '.join(names)} or a .toml file")
    return parse(read_text(given, "a chip file", MAX_FILE_BYTES), given)


def parse(text: str, where: str, kind: str, version: int, adapter: TypeAdapter[C]) -> C:
    """A chip from TOML text; `where` (a file name) opens the message of an error.

    Raises:
        InputError: malformed TOML (with its line), or an unknown, missing or impossible value (with its key).
    """
    table = parse_toml(text, where)
    expected: str | int
    for key, expected in (("kind", kind), ("version", version)):
        found = table.pop(key, expected)
        if type(found) is not type(expected) or found != expected:
            raise InputError(f"{where}: {key}: expected {expected!r}, found {found!r}")
    try:
        return adapter.validate_python(table)
    except ValidationError as error:
        raise InputError(f"{where}: {_first(error)}") from error


def text_of(chip: Any, kind: str, version: int) -> str:
    """The TOML of a chip (a dataclass) with the kind and version that a file carries."""
    return tomli_w.dumps({"kind": kind, "version": version, **asdict(chip)})


def capacity(size_bytes: int) -> str:
    """A size for people: "128 MiB"."""
    for exponent, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size_bytes >= 1024**exponent:
            return f"{size_bytes / 1024**exponent:.4g} {unit}"
    return f"{size_bytes} B"


def _first(error: ValidationError) -> str:
    """The first problem that pydantic found, as `key: expected …, found …`."""
    problem: Any = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in problem["loc"])
    match problem["type"]:
        case "missing":
            return f"{key}: expected a value, found none"
        case "unexpected_keyword_argument":
            return f"{key}: expected no such key, found {problem['input']!r}"
        case "value_error":
            return str(problem["ctx"]["error"])
        case _:
            expected = problem["msg"].removeprefix("Input should be ")
            return f"{key}: expected {expected}, found {problem['input']!r}"
