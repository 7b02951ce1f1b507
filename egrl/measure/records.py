"""The measurements of an evaluator, in RUN/measurements.jsonl.

The file has a line per mapping, and another one if it was measured again; the last one counts. A mapping is identified
by the digest of its canonical form. So a mapping that is proposed again, also after resuming, is not measured again.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from egrl.core import atomic
from egrl.core.typed_tables import check_document
from egrl.measure.board import Profile
from egrl.measure.config import LOG
from hwsim.problem import Mapping16, Status
from workloads.files import no_link, read_bytes, read_text
from workloads.json_text import parse_document
from workloads.text import visible

FILE = "measurements.jsonl"
KIND = "measurement"
BOARD, BOARD_KIND = "board.json", "board"
VERSION = 1


@dataclass(frozen=True)
class Record:
    """What became of one mapping on the evaluator.

    Attributes:
        status: ok, invalid, failed or timeout.
        samples_s: every latency measured; none where it is not ok.
        epsilon: share of bytes that had to move, where invalid.
        request_s: seconds that the quickest request took.
        reason: why it failed.
        profile: seconds of each of the problem's parts, None where that is not known; () if it has no profile.
    """

    status: Status
    samples_s: tuple[float, ...] = ()
    epsilon: float = 0.0
    request_s: float = 0.0
    reason: str = ""
    profile: Profile = ()


def digest(mapping: Mapping16) -> str:
    """Hex digest of one canonical mapping [N, H]."""
    return hashlib.sha256(np.ascontiguousarray(mapping, dtype="<i2").tobytes()).hexdigest()


class Measurements:
    """Digest -> record, kept in memory and, once attached, in the run folder. Used by several threads."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._lines: Lines | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> Record | None:
        """The record of a mapping by its digest."""
        return self._records.get(key)

    def put(self, key: str, record: Record) -> None:
        """Keep a record. RunFailure where the disk refuses."""
        with self._lock:
            self._records[key] = record
            if self._lines is not None:
                self._lines.add(_entry(key, record))

    def attach(self, folder: Path) -> None:
        """Read what the run folder has, and write there from now on, what is already known first.

        A line that is no record is passed over and kept in the file. RunFailure where the disk refuses.
        """
        known, self._records = self._records, {}
        self._lines = Lines(folder / FILE, "the measurements of the run", KIND, VERSION)
        for entry in self._lines.found:
            self._read(entry)
        for key, record in known.items():
            if key not in self._records:
                self.put(key, record)

    def _read(self, entry: Mapping[str, Any]) -> None:
        try:
            self._records[str(entry["mapping"])] = Record(
                Status[str(entry["status"]).upper()],
                tuple(float(s) for s in entry["latency_s"]),
                float(entry["epsilon"]),
                float(entry["request_s"]),
                str(entry["reason"]),
                tuple(None if s is None else float(s) for s in entry.get("op_seconds", ())),
            )
        except (ValueError, KeyError, TypeError):
            return

    def close(self) -> None:
        """Make everything durable."""
        with self._lock:
            lines, self._lines = self._lines, None
            if lines is not None:
                lines.close()


def _entry(key: str, record: Record) -> dict[str, Any]:
    profile = {"op_seconds": list(record.profile)} if record.profile else {}
    return {
        "mapping": key,
        "status": record.status.name.lower(),
        "latency_s": list(record.samples_s),
        "epsilon": record.epsilon,
        "request_s": round(record.request_s, 6),
        "reason": record.reason,
        **profile,
    }


def kept_samples(folder: Path, key: str) -> tuple[float, ...]:
    """The latencies of a mapping, by its digest, that a run folder keeps; none where it has none.

    InputError where the file cannot be read.
    """
    path, found = folder / FILE, Measurements()
    for line in read_bytes(path, "the measurements of the run").splitlines() if path.exists() else ():
        if (entry := _object(line)) is not None:
            found._read(entry)
    record = found.get(key)
    return () if record is None else record.samples_s


class BoardFile:
    """Which board measured a run, in RUN/board.json: its command, and what it calls itself, if it does.

    Attributes:
        command: of the evaluator that measured last; "": not known.
        names: of the boards that answered, as they say themselves.
    """

    def __init__(self, folder: Path) -> None:
        """The records of a run folder. InputError if the file is there and damaged."""
        self._path = folder / BOARD
        text = read_text(str(self._path), "the board of the run") if self._path.exists() else ""
        document = parse_document(text, str(self._path), BOARD_KIND, VERSION) if text else {}
        if text:
            check_document(_Board, document, str(self._path))
        self.command: str = document.get("command", "")
        self.names: set[str] = set(document.get("boards", ()))

    def keep(self, command: str, names: set[str]) -> None:
        """Write which boards answered, besides those before. RunFailure where the disk refuses."""
        known = self.names | names
        if (command, known) != (self.command, self.names):
            self.command, self.names = command, known
            document = {"kind": BOARD_KIND, "version": VERSION, "command": command, "boards": sorted(known)}
            atomic.write(self._path, json.dumps(document, indent=1) + "\n")


class _Board(TypedDict):
    command: str
    boards: list[str]


class EvaluatorLog:
    """What went wrong with the evaluator, a line each, in RUN/evaluator.log; kept in memory until there is a folder.

    Used by several threads.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._path: Path | None = None

    def __call__(self, text: str) -> None:
        """One line, printable. A disk that refuses is for others to find: the log is not what a run is for."""
        self._lines.append(visible(text))
        if self._path is not None:
            self._write()

    def attach(self, folder: Path) -> None:
        """Write there from now on."""
        self._path = folder / LOG
        self._write()

    def _write(self) -> None:
        assert self._path is not None
        lines, self._lines = self._lines, []
        if lines:
            try:
                with open(self._path, "a", encoding="utf-8", opener=no_link) as stream:
                    stream.write("".join(f"{line}\n" for line in lines))
            except OSError:
                return


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
