"""A program by its name or from a file."""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePath

from workloads.compressed import check_values, unpack
from workloads.errors import InputError
from workloads.files import HLO, PACKED, read_bytes
from workloads.importers.uncounted import warned
from workloads.load import all_names, load
from workloads.nearest import hint
from workloads.programs import program_names, read_shipped
from workloads.programs.program import NO_ALIAS, Program
from workloads.zoo import canonical_name
from workloads.zoo.mcm87 import is_set

MAX_TEXT = 1 << 30
"""Largest program file in bytes, unpacked."""
_IS_PROGRAM = re.compile(rb'"kind"\s*:\s*"program"')
"""Every program has this, quotes inside strings being escaped, but not in every place where it occurs."""
_BACKWARD = ("backward=0", "backward=1")


def is_hlo(file: str) -> bool:
    """Whether a file's name ends like one of HLO text."""
    return file.lower().endswith(HLO)


def load_program(name_or_file: str) -> Program:
    """The program called `name_or_file`: a shipped one, or the one in that .json or .json.xz file, or in that file of
    scheduled HLO text (.hlo, .hlo.gz, .txt), or the program of a workload: a name of the zoo with or without
    parameters, a workload file or a model, as `workloads.load.load` takes them.

    A workload's program is its forward pass; NAME:backward=1 adds the backward pass. What there is to say about HLO
    text is logged as warnings. Shipped names win over the zoo's, and both over files.

    Raises:
        InputError: none of these; one line that says which and why.
    """
    name = _canonical(name_or_file)
    if name is not None:
        return _load_shipped(name)
    lower = name_or_file.lower()
    if is_hlo(name_or_file):
        return _from_hlo(name_or_file)
    if lower.endswith(PACKED):
        return _from_text(_unpack(_read(name_or_file), name_or_file), name_or_file)
    base, backward = _split(name_or_file)
    if lower.endswith(".json"):
        program = _from_json(_read(name_or_file), name_or_file)
        if program is not None:
            return program
    elif not _is_workload(base):
        raise InputError(_unknown_name(name_or_file))
    from workloads.programs.of_workload import program_of

    return program_of(load(base), backward)


def describe(program: Program) -> dict[str, int]:
    """Numbers of buffers, tensors, instructions and alias groups, operations, and bytes that all buffers together and
    the insides of instructions move."""
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
    return next((known for known in program_names() if _bare(known) == _bare(name)), None)


@cache
def _load_shipped(name: str) -> Program:
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
    if canonical_name(name.partition(":")[0]) is not None or is_set(name):
        return True
    return "/" in name or "\\" in name or name.lower().endswith((".json", ".onnx", ".onnx.gz", ".pt2"))


def _unknown_name(name: str) -> str:
    known = (*program_names(), *all_names())
    meant = hint(_bare(name.partition(":")[0]), known)
    return (
        f"program {name!r}: expected the name of a program or of a workload, or a {PACKED}, .json or"
        f" {', '.join(HLO)} file, found neither; `egrl list workloads` lists all names{meant}"
    )


def _read(file: str) -> bytes:
    return read_bytes(file, f"a program file (.json, {PACKED} or {', '.join(HLO)})", MAX_TEXT)


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
    return warned(from_document(document, where), where) if document.get("kind") == KIND else None


def _decode(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: expected JSON in UTF-8, found other bytes at offset {error.start}"
        ) from None


def _from_hlo(file: str) -> Program:
    from workloads.importers.hlo import read

    imported = read(file)
    return warned(imported.program, PurePath(file).name)
