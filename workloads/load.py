"""A workload by its name in the zoo or from a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

from workloads.errors import InputError
from workloads.files import PROGRAMS, read_text
from workloads.importers.dimensions import OpenDimensions
from workloads.importers.read import is_model
from workloads.importers.uncounted import warned
from workloads.nearest import hint
from workloads.programs import program_names
from workloads.workload import Workload
from workloads.zoo import DECODERS, MCM87, ZOO, builder, canonical_name
from workloads.zoo.mcm87 import is_set, members

MAX_FILE_BYTES = 512 * 2**20
"""Largest workload file that is read."""
MAX_PARAMETER = 1_000_000
"""Parameters of a variant are below this."""


def names() -> tuple[str, ...]:
    """Names of the workloads in the zoo that have certificates and bounds, sorted."""
    return tuple(sorted(ZOO))


def all_names() -> tuple[str, ...]:
    """Names of the zoo, of the large language models and of the data set `mcm87`, each once, sorted."""
    return tuple(sorted({*ZOO, *DECODERS, *MCM87}))


def load(name_or_file: str) -> Workload:
    """The workload called `name_or_file` in the zoo or in the data set `mcm87` ("resnet50", "ResNet-50"), or the one in
    that .json file, or the model in that .onnx, .onnx.gz or .pt2 file; what there is to say about a model is logged as
    warnings.

    A name of the zoo wins over a file of the same name. NAME:KEY=NUMBER:… is a variant of the zoo's network, another
    size of it: "bert:layers=6:length=256", with the parameters of its builder.

    Raises:
        InputError: neither a name nor a readable workload file; one line that says which and why.
    """
    name = canonical_name(name_or_file)
    if name is not None:
        return builder(name)()
    base, colon, parameters = name_or_file.partition(":")
    if colon and (name := canonical_name(base)) is not None:
        where, build = f"workload {name_or_file!r}", builder(name)
        sizes = variant(build, parameters, where)
        try:
            return build(**sizes)
        except ValueError as error:
            raise InputError(f"{where}: {error}") from error
    if is_set(name_or_file):
        raise InputError(
            f"workload {name_or_file!r}: expected one workload, found a set of {len(members(name_or_file))}, which"
            " `egrl pretrain`, `egrl transfer` and `egrl compare` take"
        )
    if name_or_file.lower().endswith(PROGRAMS):
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
    if is_model(name_or_file):
        return warned(_from_model(name_or_file), name_or_file)
    named = name_or_file.lower().endswith(".json") or "/" in name_or_file or "\\" in name_or_file
    if named or _exists(name_or_file):
        return warned(_from_file(name_or_file), name_or_file)
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
    from workloads.importers.read import read, stem

    try:
        imported = read(file)
    except OpenDimensions as error:
        made = f"{stem(file)}.json"
        command = f"egrl import {file} -o {made} {error.flags}"
        raise InputError(f"{error.found}; {command} makes {made}, which takes its place") from error
    return imported.workload


def _from_file(file: str) -> Workload:
    from workloads.serialize import from_json  # pydantic is slow to import, and names need none of it

    return from_json(read_text(file, "a workload file (.json)", MAX_FILE_BYTES), file)
