"""A board behind a script: one process that measures one mapping at a time, spoken to in lines of JSON.

    we    {"id": 7, "problem": "nnpi", "workload": "bert", "chip": "nnpi", "timeout_s": 60.0,
           "mapping": [{"node": "conv1", "weight": "sram", "activation": "llc"}, …]}
    it    {"id": 7, "latency_s": 0.00123}            measured; a list of numbers: measured so often
          {"id": 7, "latency_s": 0.00123, "op_seconds": {"conv1": 1.2e-5, …}}    and what single ops took
          {"id": 7, "invalid": true, "epsilon": 0.2} the board's compiler would have to move that share of the bytes
          {"id": 7, "error": "what went wrong"}      this mapping cannot be measured; with "retry": true: not this time
          …, "board": "kite 3, firmware 1.2"}        which board it is, beside any of these

Whatever else it prints is skipped: lines that are not JSON objects, and answers to other ids. If nothing else comes in
time, such a line was meant as the answer: the request is repeated, as after a crash. An id is drawn at random,
so that nothing printed before a request can answer it. Until the first answer, a bare number or an answer without an id
is refused, as a mistake in the script. docs/guides/boards.md is the page for people.

One thread writes the request and reads both streams, with the deadline in view: a board that floods its stdout waits
for this process, not the other way round. (Threads that read could outlive their process by a moment: they took the
first bytes of the next process, whose pipe had got the number of the one just closed.) Between requests nothing is
read; what a board prints then is skipped with the next request.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import select
import signal
import subprocess
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from egrl.measure.board import (
    ID,
    IDS,
    LEAST_ID,
    Answer,
    BoardDied,
    BoardFailure,
    BoardGarbled,
    BoardSilent,
    check_meant,
    parse_answer,
    quoted,
)
from workloads.errors import Notice

LONGEST_LINE = 16 * 2**20
"""Bytes of a line; a longer one is noise."""
TAIL_BYTES = 4096
"""How much is kept of a board's stdout and of its stderr, for messages."""
GRACE_S = 2.0
"""How long a board may take to end once its stdin is closed."""
QUOTED_AFTER_S = 3.0
"""After this long without a first answer, what a board said instead is shown."""
_BEGUN_ID = re.compile(r'("id"\s*:\s*)\d+$')
"""How a line ends that was cut within an id."""
_CHUNK = 1 << 16
_FIRST = tuple(bytes([byte]) for byte in b"{-+.0123456789")
"""How a line begins that may be an answer, or meant as one."""


class BoardProcess:
    """One process, started with the first request and again after it ended. One thread at a time calls `measure`."""

    def __init__(self, command: Sequence[str], start_timeout_s: float = 0.0) -> None:
        """`start_timeout_s` is allowed on top of the time-out of the first request after a start."""
        self._command, self._start_timeout_s = list(command), start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._output, self._errors = _Stream(-1), _Stream(-1)
        self._busy = self._understood = False
        self._mark = new_mark()

    def measure(self, request: Mapping[str, Any], timeout_s: float) -> Answer:
        """See `Board`. BoardSilent and BoardDied leave no process behind: the next request starts a new one."""
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
        self._output.forget()
        number = LEAST_ID + secrets.randbelow(IDS)
        line = json.dumps({"id": number, **request, "timeout_s": timeout_s}, allow_nan=False) + "\n"
        try:
            answer = self._exchange(process, number, line.encode(), deadline)
            return replace(answer, reason=answer.reason.replace(str(number), ID))
        except TimeoutError:
            self._kill()
            silent = BoardGarbled if self._output.spoke else BoardSilent
            failure: BoardFailure = silent(
                f"no answer within {allowed_s:g} s{_quoted('it said', self._output.tail)}"
            )
        except _Ended:
            failure = BoardDied(self._obituary(process))
        except BoardFailure as error:
            failure = error
        # What is recorded must not have the id, which is another one in every run.
        raise type(failure)(str(failure).replace(str(number), ID))

    def _exchange(
        self, process: subprocess.Popen[bytes], number: int, data: bytes, deadline: float
    ) -> Answer:
        """Write a request and read until its answer. TimeoutError at the deadline, _Ended at the end of stdout."""
        assert process.stdin is not None
        left, answer = memoryview(data), None
        quoted_at = math.inf if self._understood else time.monotonic() + QUOTED_AFTER_S
        while (now := time.monotonic()) < deadline:
            if now >= quoted_at and self._output.tail:
                self._show_what_it_said(deadline - now)
                quoted_at = math.inf
            wake_at = min(deadline, quoted_at) if quoted_at > now else deadline
            ready = self._ready(process.stdin.fileno() if left else None, wake_at - now)
            if process.stdin.fileno() in ready:
                left = left[_write(process, left) :]
            for line in self._read(ready):
                answer = answer or self._answer(line, number)
            if answer is not None and not left:
                return answer
            if self._output.ended:
                raise _Ended
        raise TimeoutError

    def _read(self, ready: set[int]) -> list[str]:
        """Read once from the streams that are ready: the lines of stdout that may be answers."""
        if self._errors.handle in ready:
            self._errors.read()
        return self._output.read() if self._output.handle in ready else []

    def _ready(self, stdin: int | None, seconds: float) -> set[int]:
        """The handles that can be read or written now: of the streams that have not ended, and `stdin` if given."""
        poll = select.poll()
        if stdin is not None:
            poll.register(stdin, select.POLLOUT)
        for stream in (self._output, self._errors):
            if not stream.ended:
                poll.register(stream.handle, select.POLLIN)
        return {handle for handle, _ in poll.poll(math.ceil(1e3 * max(0.0, seconds)))}

    def _answer(self, line: str, number: int) -> Answer | None:
        answer = parse_answer(line, number)
        if answer is None and not self._understood:
            check_meant(line)
        self._understood = self._understood or answer is not None
        return answer

    def _show_what_it_said(self, left_s: float) -> None:
        warnings.warn(
            f'the evaluator has given no answer such as {{"id": {ID}, "latency_s": 0.001}} so far;'
            f" waiting up to {left_s:.0f} s more{_quoted('it said', self._output.tail)}",
            Notice,
            stacklevel=2,
        )

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,
                bufsize=0,
                env=marked(self._mark),
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise BoardDied(f"cannot be started: {self._command[0]}: {reason}") from error
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._output, self._errors = _Stream(process.stdout.fileno()), _Stream(process.stderr.fileno())
        self._process = process
        return process

    def _read_to_the_end(self, process: subprocess.Popen[bytes]) -> None:
        """Read both streams until the process has ended, `GRACE_S` at most."""
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            over = process.poll() is not None
            ready = self._ready(None, 0.0 if over else 0.02)
            self._read(ready)
            if over and not ready:
                return

    def _obituary(self, process: subprocess.Popen[bytes]) -> str:
        """How the process ended, and its last words."""
        self._read_to_the_end(process)
        code = process.poll()
        self._kill()
        if code is None:
            how = "closed its stdout"
        else:
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        return how + (_quoted("last words", self._errors.tail) or _quoted("it said", self._output.tail))

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        end_marked(self._mark)
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
        self._read_to_the_end(process)
        self._kill()


class _Ended(Exception):
    """The process is gone."""


class _Stream:
    """What a board prints to a pipe: whole lines that may be answers, and the last bytes of all of it.

    Attributes:
        handle: of the pipe.
        tail: its last `TAIL_BYTES` since `forget`.
        spoke: whether a line came since then that is no answer, to whichever request.
        ended: whether nothing more will come.
    """

    def __init__(self, handle: int) -> None:
        self.handle, self.tail, self.spoke, self.ended = handle, bytearray(), False, False
        self._held, self._skips = bytearray(), False

    def forget(self) -> None:
        """What was said so far belongs to earlier requests."""
        self.tail, self.spoke = bytearray(), False

    def read(self) -> list[str]:
        """Read once: the lines that have become whole and may be answers."""
        chunk = os.read(self.handle, _CHUNK)
        self.ended = not chunk
        self.tail += chunk
        del self.tail[:-TAIL_BYTES]
        *whole, rest = chunk.split(b"\n")
        lines = []
        for part in whole:
            line = self._held + part
            self.spoke = self.spoke or _is_noise(line)
            if not self._skips and line.lstrip()[:1] in _FIRST and len(line) <= LONGEST_LINE:
                lines.append(line.decode(errors="replace"))
            self._held, self._skips = bytearray(), False
        self._held += rest
        if len(self._held) > LONGEST_LINE:
            self._held, self._skips = bytearray(), True
        return lines


def _is_noise(line: bytearray) -> bool:
    """Whether a line says something that is no answer, to whichever request."""
    if len(line) > TAIL_BYTES or not line.strip():
        return bool(line.strip())
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return True
    return not isinstance(document, dict) or "id" not in document


def _write(process: subprocess.Popen[bytes], data: memoryview) -> int:
    """Write as much as the process takes now, and say how many bytes. _Ended where it takes no more."""
    assert process.stdin is not None
    try:
        return os.write(process.stdin.fileno(), data)
    except BlockingIOError:
        return 0
    except OSError:
        raise _Ended from None


def _quoted(what: str, tail: bytearray) -> str:
    """The last line that was kept, as the end of a sentence; nothing where there is none. No part of an id is shown."""
    lines = bytes(tail).decode(errors="replace").strip().splitlines()
    if not lines:
        return ""
    line = lines[-1]
    if len(lines) == 1 and len(tail) == TAIL_BYTES:
        line = line.lstrip("0123456789")  # the rest of a number that began before what was kept
    line = _BEGUN_ID.sub(rf"\1{ID}", line)
    return f"; {what}: {quoted(line)}"


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
