"""metrics.csv: one row per generation, under a header that never changes."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from egrl.core import atomic
from workloads.atomic import no_link
from workloads.errors import InputError, Notice
from workloads.files import read_bytes


class MetricsFile:
    """The metrics of a run that is open.

    They are kept in memory, too: a file that somebody deletes or changes meanwhile is written again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content: bytearray | None = None

    def counted(self) -> dict[str, Any]:
        """Its length and SHA-256, for a checkpoint."""
        content = self._rows()
        return {"metrics_bytes": len(content), "metrics_sha256": hashlib.sha256(content).hexdigest()}

    def rows(self) -> list[dict[str, str]]:
        """The rows so far, by names as they are written."""
        return list(csv.DictReader(io.StringIO(self._rows().decode(), newline="")))

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; the first one brings the header.

        Raises RunFailure where the disk refuses, ValueError where a row has other names than the header.
        """
        content, buffer = self._rows(), io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if not content:
            writer.writerow(row.keys())
        else:
            names = next(csv.reader([content[: content.index(b"\n")].decode()]))
            if list(row) != names:
                raise ValueError(f"metrics: expected {', '.join(names)}, received {', '.join(row)}")
        writer.writerow([_cell(value) for value in row.values()])
        self._mend(self._size() == len(content))
        line = buffer.getvalue().encode()
        try:
            with open(self._path, "ab", opener=no_link) as stream:
                stream.write(line)
        except OSError as error:
            raise atomic.disk_failure(self._path, error) from error
        content += line

    def sync(self) -> None:
        """Make it durable as it is in memory. RunFailure where the disk refuses."""
        content = self._rows()
        try:
            same = self._size() == len(content)
            if same and content:
                with open(self._path, "rb") as stream:
                    same = stream.read() == content
                    os.fsync(stream.fileno())
        except OSError as error:
            raise atomic.disk_failure(self._path, error) from error
        self._mend(same)

    def check(self, size: int, digest: str) -> bytes:
        """The first `size` bytes of the file. InputError where they have another SHA-256 than `digest`."""
        content = read_bytes(self._path, "the metrics of the run") if size or self._path.exists() else b""
        if hashlib.sha256(content[:size]).hexdigest() != digest:
            raise InputError(
                f"{self._path}: expected the {size} bytes that the checkpoint counts, found {len(content)} or others"
            )
        return content[:size]

    def cut_back(self, content: bytes) -> None:
        """Go on from the beginning of the file that `check` gave. OSError where the disk refuses."""
        if self._path.exists():
            with open(self._path, "r+b", opener=no_link) as stream:
                stream.truncate(len(content))
        self._content = bytearray(content)

    def _rows(self) -> bytearray:
        if self._content is None:
            self._content = bytearray(self._path.read_bytes() if self._path.is_file() else b"")
        return self._content

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.is_file() else 0

    def _mend(self, good: bool) -> None:
        if good:
            return
        warnings.warn(
            Notice(f"{self._path}: deleted or changed while the run goes on; written again, nothing is lost"),
            stacklevel=2,
        )
        atomic.make_folder(self._path.parent)
        atomic.write(self._path, bytes(self._rows()))


def _cell(value: Any) -> Any:
    return repr(float(value)) if isinstance(value, float | np.floating) else value
