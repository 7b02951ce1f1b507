"""Files that are either wholly there or not at all: temporary file, fsync, rename, fsync of the folder."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

TEMPORARY = ".tmp"
"""Suffix of files not yet complete; whatever carries it after a crash may be deleted."""


def no_link(path: str, flags: int) -> int:
    """The `opener` of a regular file itself, never of what a link of its name leads to. OSError of anything else."""
    handle = at_once(path, flags | getattr(os, "O_NOFOLLOW", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file", path)
    return handle


def at_once(path: str, flags: int) -> int:
    """The `opener` of a file that does not wait: a pipe that nobody reads is an OSError."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    os.set_blocking(handle, True)
    return handle


def write_to(path: Path, data: bytes) -> None:
    """Write what a user named: what is there is replaced as a whole, but a device or pipe is written to. OSError."""
    if not path.exists() or path.is_file():
        replace_file(path, data)
        return
    with open(path, "wb", opener=at_once) as stream:
        stream.write(data)


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
