"""Files of a run, either wholly there or not at all; what the disk refuses is a `RunFailure` in one line."""

from __future__ import annotations

import errno
from pathlib import Path

from workloads.errors import InputError, RunFailure
from workloads.files import replace_file, write_to


def disk_failure(path: Path, error: OSError) -> RunFailure:
    """The one-line failure of a write that the disk refused."""
    return RunFailure(f"cannot write {path}: {error.strerror or error}; what was saved before is still good")


def unwritable(what: str, path: Path, error: OSError) -> InputError | RunFailure:
    """A full disk is a failure; anything else that keeps a folder from being made is the user's to mend."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_failure(path, error)
    return InputError(f"{what}: expected a folder that can be written: {error.strerror}")


def write(path: Path, data: bytes | str) -> None:
    """Replace `path` by `data`. A failure (disk full …) raises RunFailure and leaves the old file."""
    try:
        replace_file(path, encoded(data))
    except OSError as error:
        raise disk_failure(path, error) from error


def write_named(path: Path, data: bytes | str) -> None:
    """Write a file that the user named: what is there is replaced, but a device or pipe is written to."""
    try:
        write_to(path, encoded(data))
    except OSError as error:
        raise disk_failure(path, error) from error


def encoded(data: bytes | str) -> bytes:
    """Text as UTF-8; what it has no bytes for, from a name of a file that is not text, is written as an escape."""
    return data.encode(errors="backslashreplace") if isinstance(data, str) else data


def make_folder(path: Path) -> None:
    """Make a folder and its parents where they do not exist. RunFailure where the disk refuses."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_failure(path, error) from error
