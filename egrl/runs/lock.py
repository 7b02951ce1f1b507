"""The lock of a run folder: one process at a time, which notices where another one has taken its place."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from filelock import FileLock, Timeout

from egrl.core import atomic
from egrl.core.failure import RunFailure
from workloads.errors import InputError

LOCK = ".lock"


class FolderLock:
    """The lock of a folder, held from the beginning. InputError where another process holds it, or none can be made."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / LOCK
        try:
            self._take()
        except Timeout as error:
            raise InputError(f"{folder}: the run folder is in use by another process") from error
        except OSError as error:
            raise atomic.unwritable(str(folder), folder, error) from error

    def _take(self) -> None:
        if self._path.is_symlink():
            raise OSError(errno.ELOOP, "a link is in its place", str(self._path))
        self._lock = FileLock(self._path)
        self._lock.acquire(timeout=0)
        self._file = self._identity()

    def _identity(self) -> tuple[int, int] | None:
        """Which file the lock is; None where there is none."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def hold(self) -> bool:
        """Take the lock again where its file was removed; whether that was so.

        RunFailure where the folder is gone, or another process holds the lock by now: that one goes on, this one ends.
        """
        if self._identity() == self._file is not None:
            return False
        if not self._folder.is_dir():
            raise RunFailure(f"{self._folder}: the run folder was removed while the run went on")
        self._lock.release()
        try:
            self._take()
        except Timeout as error:
            raise RunFailure(taken_over(self._folder)) from error
        except OSError as error:
            raise atomic.disk_failure(self._path, error) from error
        return True

    def release(self) -> None:
        """Let other processes have the folder."""
        self._lock.release()


def taken_over(folder: Path) -> str:
    """The error of a process that finds another one in its place."""
    return f"{folder}: {LOCK} was removed while the run went on, and another process has gone on with it: this one ends"
