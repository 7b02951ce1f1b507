"""A board behind a script: one process that measures one mapping at a time, spoken to in lines of JSON.

    we    {"id": 7, "problem": "nnpi", "workload": "bert", "chip": "nnpi", "timeout_s": 60.0,
           "mapping": [{"node": "conv1", "weight": "sram", "activation": "llc"}, …]}
    it    {"id": 7, "latency_s": 0.00123}            measured; a list of numbers: measured so often
          {"id": 7, "invalid": true, "epsilon": 0.2} the board's compiler would have to move that share of the bytes
          {"id": 7, "error": "what went wrong"}      this mapping cannot be measured

Whatever else it prints is skipped: lines that are not JSON objects, and answers to other ids. Until the first answer, a
bare number or an answer without an id is refused, as a mistake of whoever wrote the script. docs/guides/boards.md is
the page for people.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from egrl.measure.board import Answer, BoardDied, BoardSilent, check_meant, excerpt, parse_answer
from workloads.errors import Notice

LONGEST_LINE = 16 * 2**20
"""Bytes of a line; a longer one is noise."""
TAIL_BYTES = 4096
"""What is kept of a board's stderr, for messages."""
GRACE_S = 2.0
"""How long a board may take to end once its stdin is closed."""
QUOTED_AFTER_S = 3.0
"""After this long without a first answer, what a board said instead is shown."""
_FIRST = tuple(bytes([byte]) for byte in b"{-+.0123456789")
"""How a line begins that may be an answer, or meant as one."""


class BoardProcess:
    """One process, started with the first request and again after it ended."""

    def __init__(self, command: Sequence[str], start_timeout_s: float = 0.0) -> None:
        """`start_timeout_s` is allowed on top of the time-out of the first request after a start."""
        self._command, self._start_timeout_s = list(command), start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._tail, self._said = bytearray(), bytearray()
        self._number = 0
        self._busy = self._understood = False
        self._readers: list[threading.Thread] = []

    def measure(self, request: Mapping[str, Any], timeout_s: float) -> Answer:
        """See `Board`. BoardSilent and BoardDied leave no process behind: the next request starts a new one."""
        self._number += 1
        self._busy = True
        try:
            return self._ask(request, timeout_s)
        finally:
            self._busy = False

    def _ask(self, request: Mapping[str, Any], timeout_s: float) -> Answer:
        fresh = self._process is None
        allowed_s = timeout_s + (self._start_timeout_s if fresh else 0.0)
        deadline = time.monotonic() + allowed_s
        process = self._process or self._start()
        line = json.dumps({"id": self._number, **request, "timeout_s": timeout_s}, allow_nan=False) + "\n"
        try:
            self._write(process, line.encode(), deadline)
            while True:
                answer = self._next(deadline)
                if answer is not None:
                    return answer
        except queue.Empty:
            self._kill()
            raise BoardSilent(f"no answer within {allowed_s:g} s{_quoted('it said', self._said)}") from None
        except _Ended:
            raise BoardDied(self._obituary()) from None

    def _next(self, deadline: float) -> Answer | None:
        line = self._line(deadline)
        if line is None:
            raise _Ended
        answer = parse_answer(line, self._number)
        if answer is None and not self._understood:
            check_meant(line, self._number)
        self._understood = self._understood or answer is not None
        return answer

    def _line(self, deadline: float) -> str | None:
        """The next line that may be an answer, None at the end. A board that has never answered, and says something
        else meanwhile, is quoted in a `Notice`."""
        left = max(1e-3, deadline - time.monotonic())
        if not self._understood and left > QUOTED_AFTER_S:
            try:
                return self._lines.get(timeout=QUOTED_AFTER_S)
            except queue.Empty:
                left = max(1e-3, deadline - time.monotonic())
            if self._said:
                warnings.warn(
                    f'the evaluator has given no answer such as {{"id": {self._number}, "latency_s": 0.001}} so far;'
                    f" waiting up to {left:.0f} s more{_quoted('it said', self._said)}",
                    Notice,
                    stacklevel=2,
                )
        return self._lines.get(timeout=left)

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise BoardDied(f"cannot be started: {self._command[0]}: {reason}") from error
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._lines, self._tail, self._said = queue.Queue(), bytearray(), bytearray()
        self._readers = [
            threading.Thread(target=_read_lines, args=(process.stdout, self._lines, self._said), daemon=True),
            threading.Thread(target=_read_tail, args=(process.stderr, self._tail), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        self._process = process
        return process

    def _write(self, process: subprocess.Popen[bytes], data: bytes, deadline: float) -> None:
        """Write without waiting longer than the deadline for a process that does not read."""
        assert process.stdin is not None
        handle, left = process.stdin.fileno(), memoryview(data)
        while left:
            _, writable, _ = select.select([], [handle], [], max(0.0, deadline - time.monotonic()))
            if not writable:
                raise queue.Empty
            try:
                left = left[os.write(handle, left) :]
            except BlockingIOError:
                continue
            except OSError:
                raise _Ended from None

    def _obituary(self) -> str:
        """How the process ended, and its last words."""
        process = self._process
        assert process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_S)
        for reader in self._readers:
            reader.join(timeout=0.5)
        code = process.poll()
        self._kill()
        if code is None:
            how = "closed its stdout"
        else:
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        return how + (_quoted("last words", self._tail) or _quoted("it said", self._said))

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def close(self) -> None:
        """Close its stdin and wait a little for it to end; then end it, and what it has started.

        While another thread is measuring, the process is ended at once, and that thread gets a BoardDied.
        """
        process = self._process
        if process is None:
            return
        if self._busy:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_S)
        self._kill()


class _Ended(Exception):
    """The process is gone."""


def _quoted(what: str, tail: bytearray) -> str:
    """The last line that was kept, as the end of a sentence; nothing where there is none."""
    lines = bytes(tail).decode(errors="replace").strip().splitlines()
    return f"; {what}: {excerpt(lines[-1])}" if lines else ""


def _read_lines(stream: Any, lines: queue.Queue[str | None], said: bytearray) -> None:
    """Every line of a stream that may be an answer, longer ones cut away, None at its end; in `said` its last bytes."""
    held = bytearray()
    with contextlib.suppress(OSError, ValueError):
        while chunk := stream.read(1 << 16):
            said += chunk
            del said[:-TAIL_BYTES]
            held += chunk
            whole: list[bytearray] = []
            if b"\n" in chunk:
                *whole, held = held.split(b"\n")
            for line in whole:
                if line.lstrip()[:1] in _FIRST and len(line) <= LONGEST_LINE:
                    lines.put(line.decode(errors="replace"))
            if len(held) > LONGEST_LINE:
                held = bytearray()
    lines.put(None)


def _read_tail(stream: Any, tail: bytearray) -> None:
    """The last `TAIL_BYTES` of a stream."""
    with contextlib.suppress(OSError, ValueError):
        while chunk := stream.read(1 << 14):
            tail += chunk
            del tail[:-TAIL_BYTES]
