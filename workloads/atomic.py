"""Files that are either wholly there or not at all: temporary file, fsync, rename, fsync of the folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

TEMPORARY = ".tmp"
"""Suffix of files not yet complete; whatever carries it after a crash may be deleted."""


def no_link(path: str, flags: int) -> int:
    """How `open` opens a file itself, never what a link of its name leads to: its `opener`. OSError if it is a link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def replace_file(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, or make it. OSError where the disk refuses: the old file is then as it was."""
    # The name carries the process, so that two processes that write one file do not write into each other's.
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        with open(temporary, "wb", opener=no_link) as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make renames and deletions in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
