"""What a run has paid for: every mapping that was measured by an evaluator, in RUN/measurements.jsonl.

A line a mapping, and another where it was measured again; the last one counts. A mapping is known by the digest of its
canonical form, so that what is proposed again, in this run or after resuming, is not measured again.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from egrl.core import atomic
from hwsim.problem import Mapping16, Status
from workloads.files import read_bytes

FILE = "measurements.jsonl"
LOG = "evaluator.log"
KIND = "measurement"
VERSION = 1
SYNC_S = 1.0
"""At most so much measuring is lost where the machine itself dies; a killed process loses nothing."""


@dataclass(frozen=True)
class Record:
    """What became of one mapping on the evaluator.

    Attributes:
        status: ok, invalid, failed or timeout.
        samples_s: every latency measured; none where it is not ok.
        epsilon: share of bytes that had to move, where invalid.
        request_s: seconds that the quickest request took.
        reason: why it failed.
    """

    status: Status
    samples_s: tuple[float, ...] = ()
    epsilon: float = 0.0
    request_s: float = 0.0
    reason: str = ""


def digest(mapping: Mapping16) -> str:
    """Hex digest of one canonical mapping [N, H]."""
    return hashlib.sha256(np.ascontiguousarray(mapping, dtype="<i2").tobytes()).hexdigest()


class Measurements:
    """Digest -> record, kept in memory and, once attached, in the run folder. Used by several threads."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._stream: IO[bytes] | None = None
        self._path = Path(FILE)
        self._lock = threading.Lock()
        self._synced = 0.0

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> Record | None:
        """The record of a mapping by its digest."""
        return self._records.get(key)

    def put(self, key: str, record: Record) -> None:
        """Keep a record. RunFailure where the disk refuses."""
        with self._lock:
            self._records[key] = record
            if self._stream is not None:
                self._append(key, record)

    def attach(self, folder: Path) -> None:
        """Read what the run folder has, and write there from now on, what is already known first.

        A last line that was cut off is dropped; any other line that is not a record is passed over and kept in the
        file. RunFailure where the disk refuses.
        """
        self._path = folder / FILE
        known, self._records = self._records, {}
        whole = 0
        if self._path.exists():
            content = read_bytes(self._path, "the measurements of the run")
            whole = content.rfind(b"\n") + 1
            for line in content[:whole].splitlines():
                self._read(line)
        try:
            self._stream = open(self._path, "ab")  # noqa: SIM115
            self._stream.truncate(whole)
        except OSError as error:
            raise atomic.disk_failure(self._path, error) from error
        for key, record in known.items():
            if key not in self._records:
                self.put(key, record)

    def _read(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            self._records[str(entry["mapping"])] = Record(
                Status[str(entry["status"]).upper()],
                tuple(float(s) for s in entry["latency_s"]),
                float(entry["epsilon"]),
                float(entry["request_s"]),
                str(entry["reason"]),
            )
        except (ValueError, KeyError, TypeError):
            return

    def _append(self, key: str, record: Record) -> None:
        assert self._stream is not None
        entry: dict[str, Any] = {
            "kind": KIND,
            "version": VERSION,
            "mapping": key,
            "status": record.status.name.lower(),
            "latency_s": list(record.samples_s),
            "epsilon": record.epsilon,
            "request_s": round(record.request_s, 6),
            "reason": record.reason,
        }
        try:
            self._stream.write(json.dumps(entry).encode() + b"\n")
            self._stream.flush()
            if time.monotonic() - self._synced >= SYNC_S:
                os.fsync(self._stream.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            raise atomic.disk_failure(self._path, error) from error

    def close(self) -> None:
        """Make everything durable."""
        with self._lock:
            stream, self._stream = self._stream, None
            if stream is not None:
                try:
                    os.fsync(stream.fileno())
                    stream.close()
                except OSError as error:
                    raise atomic.disk_failure(self._path, error) from error


class EvaluatorLog:
    """What went wrong with the evaluator, a line each, in RUN/evaluator.log; kept in memory until there is a folder.

    Used by several threads.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._path: Path | None = None

    def __call__(self, text: str) -> None:
        """One line. A disk that refuses is for others to find: the log is not what a run is for."""
        self._lines.append(text)
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
                with open(self._path, "a") as stream:
                    stream.write("".join(f"{line}\n" for line in lines))
            except OSError:
                return
