"""Chip files of all problems: TOML with a kind and a version, read strictly into a dataclass."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, cast, get_args, get_type_hints

import tomli_w
from pydantic import Field, TypeAdapter, ValidationError

from workloads.errors import InputError
from workloads.files import parse_toml, read_text
from workloads.text import hint, one_of

MAX_FILE_BYTES = 1 << 20
UNKNOWN = "unexpected_keyword_argument"
"""The type of pydantic's error for an unknown key."""

Count = Annotated[int, Field(strict=True, ge=1, lt=2**53)]
Part = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
Rate = Annotated[float, Field(strict=True, ge=1, le=1e18, allow_inf_nan=False)]
Name = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]

UNWRITTEN = {"reserved_bytes": 0, "access_s": 0.0, "serial": 0.0, "shared": 0.0}
"""Values that no file has to state, and that are not written: files that do not state them stay as they are."""

INSTEAD = {
    ("read_Bps", "write_Bps", "read_bandwidth_Bps", "write_bandwidth_Bps"): (
        "reads and writes share one bandwidth_Bps: give the lower one, or factors.traffic by kind of op"
    ),
    ("banks", "ports", "streams", "conflicts"): (
        "for streams that disturb each other in a memory give a lower bandwidth_Bps and access_s, the seconds that each"
        " of them costs"
    ),
    ("start_s", "latency_s", "setup_s", "dma_s", "access_s"): (
        "the start of a transfer is access_s of its memory, in nnpi's chip files"
    ),
    ("dma_channels", "channels"): (
        "memories that take turns are waiting.shared, in nnpi's chip files: 1 for one channel, 0 for one each"
    ),
    ("weights_only", "activations_only", "holds"): (
        "every memory holds weights and activations: room that is taken is reserved_bytes"
    ),
}
"""What to write instead of keys that users expect, and that chip files do not have."""

Prediction = Mapping[
    Literal["held_out_error"], Annotated[float, Field(strict=True, ge=0, le=1e3, allow_inf_nan=False)]
]
"""How well a fitted file predicts: of mappings that the fit had not seen, the root mean square of the logarithm of
predicted over measured. Empty: the file was not fitted, or nobody looked."""

C = TypeVar("C")


class ChipFiles(Generic[C]):
    """The files of one kind of chip: those that come with the package, and those of users.

    Attributes:
        kind, version: what a file must state.
    """

    def __init__(self, chip: type[C], kind: str, version: int, package: str, folder: str = "chips") -> None:
        """`folder` of `package` holds the files that ship; each is called like its chip."""
        self.kind, self.version = kind, version
        self._chip, self._adapter = chip, TypeAdapter(chip)
        self._folder = files(package) / folder

    def names(self) -> tuple[str, ...]:
        """Names of the chips that come with the package, sorted."""
        found = (path.name for path in self._folder.iterdir())
        return tuple(sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml")))

    def template(self, like: str, name: str) -> str:
        """The commented text of the package's chip with that name, under another name; `parse` reads it."""
        return re.sub(r"(?m)^name = .*$", lambda _: f'name = "{name}"', self._packaged(like), count=1)

    def load(self, name_or_file: str | Path) -> C:
        """A chip by its name in `names()` or from a TOML file.

        Raises:
            InputError: neither a known name nor a readable file, or the file is not a chip of this kind.
        """
        given, names = str(name_or_file), self.names()
        if given in names:
            return self.parse(self._packaged(given), f"{given}.toml")
        if not given.endswith(".toml"):
            raise InputError(f"chip: {one_of(given, names, ' or a .toml file')}")
        return self.parse(read_text(given, "a chip file", MAX_FILE_BYTES), given)

    def parse(self, text: str, where: str) -> C:
        """A chip from TOML text; `where` (a file name) opens the message of an error.

        Raises:
            InputError: malformed TOML (with its line), or an unknown, missing or impossible value (with its key).
        """
        table = parse_toml(text, where)
        expected: str | int
        for key, expected in (("kind", self.kind), ("version", self.version)):
            found = table.pop(key, expected)
            if type(found) is not type(expected) or found != expected:
                raise InputError(f"{where}: {key}: expected {expected!r}, found {found!r}")
        try:
            return self._adapter.validate_python(table)
        except ValidationError as error:
            raise InputError(f"{where}: {_first(error, table, self._chip)}") from error

    def text_of(self, chip: C) -> str:
        """The TOML text of a chip, from which `parse` makes an equal one; what needs no saying is left out."""
        values = _without_empty(asdict(cast(Any, chip)))  # any dataclass
        return tomli_w.dumps({"kind": self.kind, "version": self.version, **values})

    def _packaged(self, name: str) -> str:
        return (self._folder / f"{name}.toml").read_text(encoding="utf-8")


def with_prediction(text: str, held_out_error: float) -> str:
    """The text of a fitted file with the table `prediction`, which it must not have."""
    why = "Root mean square of log(predicted / measured), of mappings that the fit had not seen."
    return f"{text.rstrip()}\n\n# {why}\n[prediction]\nheld_out_error = {held_out_error:.4g}\n"


def _without_empty(table: Any) -> Any:
    """A table without the tables in it that hold no value, and without values of `UNWRITTEN`."""
    if isinstance(table, list | tuple):
        return type(table)(_without_empty(entry) for entry in table)
    if not isinstance(table, Mapping):
        return table
    inner = {key: _without_empty(value) for key, value in table.items() if UNWRITTEN.get(key) != value}
    return {key: value for key, value in inner.items() if value != {}}


def capacity(size_bytes: int) -> str:
    """A size for people: "128 MiB"."""
    for exponent, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size_bytes >= 1024**exponent:
            return f"{size_bytes / 1024**exponent:.4g} {unit}"
    return f"{size_bytes} B"


def _first(error: ValidationError, table: Mapping[str, Any], chip: type) -> str:
    """The first problem that pydantic found in a table, as `key: expected …, found …`; a key that is none first."""
    problems: list[Any] = error.errors(include_url=False)
    problem = min(problems, key=lambda each: each["type"] != UNKNOWN)
    key = _told(problem["loc"], table)
    match problem["type"]:
        case "missing":
            return f"{key}: expected a value, found none"
        case _ if problem["type"] == UNKNOWN:
            known = _keys(problem["loc"][:-1], chip)
            meant = hint(str(problem["loc"][-1]), known)
            instead = "".join(f"; {says}" for words, says in INSTEAD.items() if problem["loc"][-1] in words)
            return f"{key}: expected no such key but {', '.join(known)}, found {problem['input']!r}{meant or instead}"
        case "value_error":
            return str(problem["ctx"]["error"])
        case _:
            expected = problem["msg"].removeprefix("Input should be ")
            return f"{key}: expected {expected}, found {problem['input']!r}"


def _told(location: Sequence[str | int], table: Any) -> str:
    """The place of a value in words: a table of a list by its number from 0 and its name, "memories[1] (llc).name"."""
    text = ""
    for part in location:
        try:
            table = table[part]
        except (KeyError, IndexError, TypeError):
            table = None
        if isinstance(part, int):
            name = table.get("name") if isinstance(table, Mapping) else None
            text += f"[{part}]" + (f" ({name})" if isinstance(name, str) else "")
        else:
            text += f".{part}" if text else part
    return text


def _keys(location: Sequence[str | int], chip: Any) -> list[str]:
    """The keys of the table at a location of a chip file."""
    for part in location:
        chip = get_args(chip)[0] if isinstance(part, int) else get_type_hints(chip)[part]
    return [entry.name for entry in fields(chip)]
