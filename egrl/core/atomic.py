"""Files that are either wholly there or not at all: temporary file, fsync, rename, fsync of the folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from egrl.core.failure import RunFailure

TEMPORARY = ".tmp"
"""Suffix of files not yet complete; whatever carries it after a crash may be deleted."""


def disk_failure(path: Path, error: OSError) -> RunFailure:
    """The one-line failure of a write that the disk refused."""
    return RunFailure(f"cannot write {path}: {error.strerror or error}; what was saved before is still good")


def write(path: Path, data: bytes | str) -> None:
    """Replace `path` by `data`. A failure (disk full …) raises RunFailure and leaves the old file."""
    content = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with open(temporary, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise disk_failure(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder and its parents where they do not exist. RunFailure where the disk refuses."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_failure(path, error) from error


def sync_folder(folder: Path) -> None:
    """Make renames and deletions in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
