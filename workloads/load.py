"""A workload by its name in the zoo or from a file."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from workloads import plugins
from workloads.errors import InputError
from workloads.files import MODELS, PACKED, check_values, read_bytes, read_text, unpack
from workloads.text import hint
from workloads.workload import Workload
from workloads.zoo import DECODERS, ZOO, builder_of, canonical_name

if TYPE_CHECKING:
    from workloads.programs.program import Program

MAX_FILE_BYTES = 512 * 2**20
"""Largest workload file that is read."""
MAX_PARAMETER = 1_000_000
"""Parameters of a variant are below this."""


def names() -> tuple[str, ...]:
    """Names of the workloads in the zoo that have certificates and bounds, sorted."""
    return tuple(sorted(ZOO))


def all_names() -> tuple[str, ...]:
    """Names of the zoo, of the large language models and of the data set `mcm87`, each once, sorted."""
    from workloads.zoo.mcm87 import MCM87

    return tuple(sorted({*ZOO, *DECODERS, *MCM87}))


def load(name_or_file: str) -> Workload:
    """The workload called `name_or_file` in the zoo or in the data set `mcm87` ("resnet50", "ResNet-50"), or the one in
    that .json file, or the model in that .onnx, .onnx.gz or .pt2 file; what there is to say about a model is logged as
    warnings.

    A name of the zoo wins over a file of the same name. NAME:KEY=NUMBER:… is a variant of the zoo's network, another
    size of it: "bert:layers=6:length=256", with the parameters of its builder.

    Raises:
        InputError: neither a name nor a readable workload file; one line that says which and why.

    Example:
        >>> from workloads.load import load
        >>> len(load("bert")), len(load("bert:layers=6"))
        (376, 196)
    """
    name = canonical_name(name_or_file)
    if name is not None:
        return builder_of(name)()
    base, colon, parameters = name_or_file.partition(":")
    if colon and (name := canonical_name(base)) is not None:
        where, build = f"workload {name_or_file!r}", builder_of(name)
        sizes = variant(build, parameters, where)
        try:
            return build(**sizes)
        except ValueError as error:
            raise InputError(f"{where}: {error}") from error
    from workloads.zoo.mcm87 import is_set, members

    if is_set(name_or_file):
        raise InputError(
            f"workload {name_or_file!r}: expected one workload, found a set of {len(members(name_or_file))}, which"
            " `egrl pretrain`, `egrl transfer` and `egrl compare` take"
        )
    if name_or_file.lower().endswith(PACKED) or reads_program(name_or_file):
        raise InputError(
            f"workload {name_or_file!r}: expected a workload, found a program, which --problem mmap takes"
        )
    if name_or_file.lower().endswith(".json.gz"):
        raise InputError(
            f"workload {name_or_file!r}: expected a workload, found a placement instance's ending, which --problem mcm"
            " --chip profiled takes"
        )
    if name_or_file.lower().endswith(".toml"):
        raise InputError(
            f"workload {name_or_file!r}: expected a workload, found a file of TOML, as --chip and --config take"
        )
    if name_or_file.lower().endswith(MODELS):
        return _from_model(name_or_file)
    named = name_or_file.lower().endswith(".json") or "/" in name_or_file or "\\" in name_or_file
    if named or _exists(name_or_file):
        return _from_file(name_or_file)
    raise InputError(_unknown_name(name_or_file))


def variant(build: Callable[..., Workload], text: str, where: str) -> dict[str, float]:
    """The sizes in KEY=NUMBER:…, each a keyword of the builder and of its default's type; `where` begins every error.

    Raises:
        InputError: an unknown or repeated key, or a value that is no number in range.
    """
    known = {
        key: parameter.default
        for key, parameter in inspect.signature(build).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    if not known:
        raise InputError(f"{where}: expected no parameters: this network is a shipped file, and has one size")
    sizes: dict[str, float] = {}
    for part in text.split(":"):
        key, _, value = part.partition("=")
        if key not in known or key in sizes:
            raise InputError(
                f"{where}: expected each of {', '.join(f'{k}=NUMBER' for k in known)} at most once, found"
                f" {part!r}{hint(key, known) if key not in known else ''}"
            )
        sizes[key] = _parameter(value, known[key], f"{where}: {key}")
    return sizes


def _parameter(text: str, default: float, where: str) -> float:
    """A parameter of a variant, of its default's type: a switch is 0 or 1."""
    if isinstance(default, bool):
        if text not in ("0", "1"):
            raise InputError(f"{where}: expected 0 or 1, found {text!r}")
        return text == "1"
    try:
        value = type(default)(text)
    except ValueError:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise InputError(f"{where}: expected {kind}, found {text!r}") from None
    if not 0 < value < MAX_PARAMETER:
        raise InputError(f"{where}: expected above 0 and below {MAX_PARAMETER:,}, found {text}")
    return value


def _unknown_name(name: str) -> str:
    from workloads.programs import program_names

    if name in program_names():
        return f"workload {name!r}: expected a workload, found a program, which --problem mmap takes"
    return (
        f"workload {name!r}: expected a name from the zoo or a .json, .onnx or .pt2 file, found neither;"
        f" `egrl list workloads` lists all names{hint(name, all_names())}"
    )


def _exists(path: str) -> bool:
    try:
        return bool(path) and Path(path).exists()
    except (OSError, ValueError):
        return False


def _from_model(file: str) -> Workload:
    from workloads.importers.dimensions import OpenDimensions
    from workloads.importers.read import read, stem
    from workloads.importers.uncounted import warned

    try:
        imported = read(file)
    except OpenDimensions as error:
        made = f"{stem(file)}.json"
        command = f"egrl import {file} -o {made} {error.flags}"
        raise InputError(f"{error.found}; {command} makes {made}, which takes its place") from error
    return warned(imported.workload, file)


def _from_file(file: str) -> Workload:
    from workloads.importers.uncounted import warned
    from workloads.serialize import from_json  # pydantic is slow to import, and names need none of it

    return warned(from_json(read_text(file, "a workload file (.json)", MAX_FILE_BYTES), file), file)


MAX_TEXT = 1 << 30
"""Largest program file in bytes, unpacked."""
_IS_PROGRAM = re.compile(rb'"kind"\s*:\s*"program"')
"""Every program has this, quotes inside strings being escaped, but not in every place where it occurs."""
_BACKWARD = ("backward=0", "backward=1")


READERS = plugins.Kind(
    "program", "ending", (), "a function of (file, boundary_aliases, allow_unknown) that gives a Program"
)
"""Plug-ins of the group `egrl.programs`: what reads programs of other formats, by the ending of their files."""


def program_endings() -> tuple[str, ...]:
    """Endings of the files of programs that installed plug-ins read: ".hlo"."""
    return tuple(f".{name}" for name in plugins.installed(READERS))


def reads_program(file: str) -> bool:
    """Whether a plug-in reads such files as programs, by their ending: one that is installed, or could be."""
    return bool(_format(file))


def _format(file: str) -> str:
    """The name under which a plug-in reads a file: the longest ending; "" if there is none."""
    names = {*plugins.installed(READERS), *plugins.offered(READERS.word)}
    return max((name for name in names if file.lower().endswith(f".{name}")), key=len, default="")


def read_program(file: str, boundary_aliases: bool = False, allow_unknown: bool = False) -> Program:
    """The program in a file of a format that a plug-in reads (`reads_program`), with its remarks.

    Args:
        boundary_aliases: a donated parameter and the result in its memory are one alias group.
        allow_unknown: instructions of unknown work are taken as traffic alone, however much they move.

    Raises:
        InputError: the plug-in is not installed or is none, or its refusal of the file; one line.
    """
    from workloads.programs.program import Program

    found = plugins.find(replace(READERS, flag=f"{file}: ending"), _format(file))
    if not callable(found.thing):
        raise found.refuse(plugins.described(found))
    program = found.thing(file, boundary_aliases, allow_unknown)
    if not isinstance(program, Program):
        raise found.refuse(f"one that gives {type(program).__name__}")
    return program


def load_program(name_or_file: str) -> Program:
    """The program called `name_or_file`: a shipped one, or the one in that .json or .json.xz file, or in that file of
    a format that a plug-in reads, or the program of a workload: a name of the zoo with or without parameters, a
    workload file or a model, as `workloads.load.load` takes them.

    A workload's program is its forward pass; NAME:backward=1 adds the backward pass. What there is to say about a
    file is logged as warnings. Shipped names win over the zoo's, and both over files.

    Raises:
        InputError: none of these; one line that says which and why.
    """
    name = _canonical(name_or_file)
    if name is not None:
        return _load_shipped(name)
    lower = name_or_file.lower()
    if lower.endswith(PACKED):
        return _from_text(_unpack(_read(name_or_file), name_or_file), name_or_file)
    if reads_program(name_or_file):
        return _warned(read_program(name_or_file), name_or_file)
    base, backward = _split(name_or_file)
    if lower.endswith(".json"):
        program = _from_json(_read(name_or_file), name_or_file)
        if program is not None:
            return program
    elif not _is_workload(base):
        raise InputError(_unknown_program(name_or_file))
    from workloads.programs.of_workload import program_of

    return program_of(load(base), backward)


def describe(program: Program) -> dict[str, int]:
    """Numbers of buffers, tensors, instructions and alias groups, operations, and bytes that all buffers together and
    the insides of instructions move."""
    from workloads.programs.program import NO_ALIAS

    return {
        "buffers": len(program),
        "tensors": len(program.tensors),
        "instructions": len(program.instructions),
        "flops": program.flops,
        "bytes": sum(b.traffic_bytes for b in program) + sum(i.slow_bytes for i in program.instructions),
        "alias_groups": len({b.alias_id for b in program} - {NO_ALIAS}),
    }


def _bare(name: str) -> str:
    return name.lower().replace("-", "_")


def _canonical(name: str) -> str | None:
    from workloads.programs import program_names

    return next((known for known in program_names() if _bare(known) == _bare(name)), None)


@cache
def _load_shipped(name: str) -> Program:
    from workloads.programs import read_shipped

    file = f"{name}{PACKED}"
    return _from_text(_unpack(read_shipped(name), file), file)


def _split(name: str) -> tuple[str, bool]:
    """The workload's name without the parameter `backward`, and whether that is 1."""
    base, *parts = name.split(":")
    given = [part for part in parts if part.startswith("backward=")]
    if len(given) > 1 or any(part not in _BACKWARD for part in given):
        raise InputError(
            f"program {name!r}: expected {' or '.join(_BACKWARD)} at most once, found {':'.join(given)}"
        )
    return ":".join([base, *(part for part in parts if part not in given)]), given == ["backward=1"]


def _is_workload(name: str) -> bool:
    """Whether `load` has something to say about it: a name of the zoo or of a set, or what looks like a file."""
    from workloads.zoo.mcm87 import is_set

    if canonical_name(name.partition(":")[0]) is not None or is_set(name):
        return True
    return "/" in name or "\\" in name or name.lower().endswith((".json", ".onnx", ".onnx.gz", ".pt2"))


def _unknown_program(name: str) -> str:
    from workloads.programs import program_names

    known = (*program_names(), *all_names())
    meant = hint(_bare(name.partition(":")[0]), known)
    return (
        f"program {name!r}: expected the name of a program or of a workload, or a"
        f" {', '.join((PACKED, *program_endings()))} or .json file, found neither; `egrl list workloads` lists all"
        f" names{meant}"
    )


def _read(file: str) -> bytes:
    return read_bytes(file, f"a program file (.json or {PACKED})", MAX_TEXT)


def _unpack(data: bytes, where: str) -> bytes:
    """The JSON in an xz file. InputError where it is damaged or holds too much."""
    return check_values(unpack(data, where, MAX_TEXT), len(data), where)


def _from_text(data: bytes, where: str) -> Program:
    from workloads.programs.json_file import from_json

    return from_json(_decode(data, where), where)


def _from_json(data: bytes, where: str) -> Program | None:
    """The program in JSON; None where it is something else. Only what may be a program is parsed."""
    from workloads.json_text import parse_object
    from workloads.programs.json_file import KIND, from_document

    if _IS_PROGRAM.search(data) is None:
        return None
    document = parse_object(_decode(data, where), where, KIND)
    return _warned(from_document(document, where), where) if document.get("kind") == KIND else None


def _decode(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: expected JSON in UTF-8, found other bytes at offset {error.start}"
        ) from None


def _warned(program: Program, where: str) -> Program:
    from workloads.importers.uncounted import warned

    return warned(program, where)
