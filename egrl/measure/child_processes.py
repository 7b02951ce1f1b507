"""Processes that a board has started and that left its process group: found by a mark in their environment.

Linux only: elsewhere there is no /proc, and such a process lives on. One that cleared its environment does, too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from pathlib import Path

PROC = Path("/proc")
NAME = "EGRL_BOARD"
"""The variable with the mark."""
ROUNDS = 5
"""So often processes are looked for, since one may start another while it is looked for."""


def new_mark() -> str:
    """A mark that no other process has."""
    return secrets.token_hex(16)


def marked(mark: str) -> dict[str, str]:
    """The environment of this process, with the mark."""
    return {**os.environ, NAME: mark}


def end_marked(mark: str) -> None:
    """Kill what has the mark, by SIGKILL."""
    for _ in range(ROUNDS):
        found = [process for process in _processes() if _has(process, mark)]
        if not found:
            return
        for process in found:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)


def _processes() -> list[int]:
    return [int(path.name) for path in PROC.iterdir() if path.name.isdecimal()] if PROC.is_dir() else []


def _has(process: int, mark: str) -> bool:
    """Whether a process that can be looked at has the mark; one that has ended and waits for its parent has none."""
    try:
        environment = (PROC / str(process) / "environ").read_bytes()
    except OSError:
        return False
    return f"{NAME}={mark}".encode() in environment.split(b"\0")
