"""A file of JSON lines to which a run appends: measurements, confirmations."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from io import BufferedWriter
from pathlib import Path
from typing import Any

from egrl.core import atomic
from workloads.atomic import no_link
from workloads.files import read_bytes

SYNC_S = 1.0
"""At most so much is lost where the machine itself dies; a killed process loses nothing."""


class Lines:
    """The file, open until `close`; for one thread at a time.

    Attributes:
        path: of the file.
        found: the objects that it had when it was opened. A last line that was cut off is dropped; a line that is no
            object is passed over and stays in the file.
    """

    def __init__(self, path: Path, what: str, kind: str, version: int) -> None:
        """Open it, or begin it.

        Args:
            path: of the file.
            what: it has, for an error ("the measurements of the run").
            kind, version: that each line says of itself.

        Raises:
            InputError: it is there and cannot be read.
            RunFailure: the disk refuses.
        """
        self.path = path
        self._head = {"kind": kind, "version": version}
        content = read_bytes(path, what) if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        self.found = [entry for line in whole.splitlines() if (entry := _object(line)) is not None]
        self._synced = 0.0
        try:
            self._stream = _appending(path)
            self._stream.truncate(len(whole))
        except OSError as error:
            raise atomic.disk_failure(path, error) from error

    def add(self, entry: Mapping[str, Any]) -> None:
        """Another line. RunFailure where the disk refuses."""
        line = json.dumps({**self._head, **entry}).encode() + b"\n"
        try:
            self._stream.write(line)
            self._stream.flush()
            if time.monotonic() - self._synced >= SYNC_S:
                os.fsync(self._stream.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            raise atomic.disk_failure(self.path, error) from error

    def close(self) -> None:
        """Make everything durable, and add no more. RunFailure where the disk refuses."""
        if self._stream.closed:
            return
        try:
            os.fsync(self._stream.fileno())
            self._stream.close()
        except OSError as error:
            raise atomic.disk_failure(self.path, error) from error


def _appending(path: Path) -> BufferedWriter:
    return open(path, "ab", opener=no_link)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # no JSON, or nested too deeply
        return None
    return entry if isinstance(entry, dict) else None
