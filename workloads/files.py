"""Reading what users hand in: regular files of a sane size, and TOML, refused in one line otherwise; cache folder."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from workloads.errors import InputError

MAX_BYTES = 1 << 31


def cache_folder() -> Path:
    """The user's folder for what can be made again: EGRL_CACHE_DIR, else `egrl` in XDG_CACHE_HOME or ~/.cache.

    Raises:
        FileNotFoundError: there is no home folder.
    """
    named = os.environ.get("EGRL_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "egrl"
    except RuntimeError as error:
        raise FileNotFoundError(str(error)) from error


def read_bytes(path: str | Path, what: str, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file. `what` names what was expected ("a chip file").

    Raises:
        InputError: missing, a folder, a pipe or device, unreadable, or larger than `limit` bytes.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a special file"
            raise InputError(f"{path}: expected {what}, found {kind}")
        if status.st_size > limit:
            raise InputError(f"{path}: expected {what} of at most {limit} bytes, found {status.st_size}")
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: expected {what}: {error.strerror or error}") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{str(path)!r}: expected a path: {error}") from error


def read_text(path: str | Path, what: str, limit: int = MAX_BYTES) -> str:
    """The text of a regular file in UTF-8 (a byte order mark is skipped). Raises InputError as `read_bytes` does."""
    data = read_bytes(path, what, limit)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected {what} in UTF-8, found other bytes at offset {error.start}"
        ) from error


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The table in TOML text; InputError naming `where` and what is wrong."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: expected TOML, found: {error}") from error
    except RecursionError as error:
        raise InputError(f"{where}: expected TOML, found it nested too deeply") from error
    except ValueError as error:
        raise InputError(f"{where}: expected numbers of few digits, found one of thousands") from error


HLO = (".hlo", ".hlo.gz", ".txt")
"""HLO text."""
PACKED = ".json.xz"
"""A program's own JSON, packed; unpacked it ends like a workload's."""
PROGRAMS = (*HLO, PACKED)
"""What can be nothing but a program, by its name."""
