"""Programs from HLO, the text of a module that XLA has compiled and scheduled.

text -> parse.py (module, computations, nodes) -> flops.py (operations by shape; values, views looked through), priced
by price.py (bodies.py: loops, calls, branches) -> lower.py (a Program)
"""

from __future__ import annotations

from pathlib import PurePath

from egrl_hlo.lower import lower
from egrl_hlo.parse import parse
from workloads.errors import InputError
from workloads.files import MAX_BYTES, read_bytes, unpack
from workloads.programs.program import Program

ENDINGS = (".hlo", ".hlo.gz", ".hlo.xz", ".txt")
"""Of files of HLO text: the names of the entry points in pyproject.toml."""


def read(file: str, boundary_aliases: bool = False, allow_unknown: bool = False) -> Program:
    """The program in a file of HLO text (.hlo, .hlo.gz, .hlo.xz, .txt); the flags are those of `lower`.

    Raises:
        InputError: not such a file, not scheduled, cut off or damaged; one line.
    """
    data = unpack(read_bytes(file, "HLO text (.hlo, .hlo.gz, .hlo.xz or .txt)"), file, MAX_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: expected HLO text in UTF-8, found other bytes at offset {error.start}"
        ) from None
    name = PurePath(file).name
    ending = max((s for s in ENDINGS if name.lower().endswith(s)), key=len, default="")
    return of_text(text, name[: len(name) - len(ending)] or name, name, file, boundary_aliases, allow_unknown)


def of_text(
    text: str, name: str, source: str, where: str, boundary_aliases: bool = False, allow_unknown: bool = False
) -> Program:
    """The program of HLO text, called `name`; `where` begins every error."""
    return lower(parse(text, where), name, source, where, boundary_aliases, allow_unknown)
