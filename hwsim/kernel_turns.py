"""One process compiles a kernel that several need at the same time; the others wait, and load what it has kept.

A turn is a lock on one byte of a file in the folder of machine code; the byte is named by the kernel and the types of
its arguments. The system gives a turn back when its process ends, and a forked process has none of its parent's.
Kernels never call each other in a circle, nor do processes wait for each other in one. A process that was stopped keeps
its turns: nobody waits for longer than `LONGEST_S`, and where the file system has no locks nobody waits at all.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # elsewhere than on Unix each process compiles for itself
    fcntl = None  # type: ignore[assignment]

FILE = "turns"
LONGEST_S = 120.0
"""A large kernel takes seconds, on a busy machine a minute."""
POLL_S = 0.02


def take(place: Path, name: str) -> bool:
    """Wait for the turn to compile what will be called `name` in the folder `place`; False after `LONGEST_S`.

    Who waited looks for the file again. OSError if the folder cannot be written, or has no locks.
    """
    if fcntl is None:
        return False
    until = time.monotonic() + LONGEST_S
    while True:
        try:
            fcntl.lockf(_opened(place), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(name))
        except (BlockingIOError, PermissionError):  # another process has it; which of both, POSIX leaves open
            if time.monotonic() >= until:
                return False
            time.sleep(POLL_S)
        else:
            return True


def give_back(place: Path, name: str) -> None:
    """End a turn, if this process has it. OSError as in `take`."""
    if fcntl is not None:
        fcntl.lockf(_opened(place), fcntl.LOCK_UN, 1, _byte(name))


@functools.cache
def _opened(place: Path) -> int:
    """The file, which stays open: closing it would end all turns of this process."""
    return os.open(place / FILE, os.O_RDWR | os.O_CREAT, 0o600)


def _byte(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest()[:12], 16)
