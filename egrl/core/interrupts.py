"""Ctrl-C, SIGTERM and SIGHUP: the first asks a run to stop after what is being measured, the second ends it at once."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

HINT = "stopping after what is being measured; Ctrl-C again stops at once"
STDERR = 2
ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that end a command: one line and exit code 130."""
INTERRUPTED = 130


class Interrupted(Exception):
    """The user stopped the run, which goes on from the checkpoint of `generation` in `folder`.

    `generation` is None where none was written yet: the run begins anew then. `at_once`: the generation under way
    was given up. `again` says how to go on, where that is not `egrl run --resume`; `flags` are words that this needs.
    """

    def __init__(
        self,
        folder: Path,
        generation: int | None,
        at_once: bool = False,
        again: str = "",
        flags: Sequence[str] = (),
    ) -> None:
        if again:
            after = "" if generation is None else f" after generation {generation}"
            super().__init__(f"interrupted{after}; {again}")
            self.folder, self.generation = folder, generation
            return
        if not at_once:
            what = f"interrupted after generation {generation}; go on with:"
        elif generation is None:
            what = "interrupted before the first checkpoint; begin anew with:"
        else:
            what = f"interrupted at once; go on from generation {generation} with:"
        super().__init__(f"{what} {shlex.join(['egrl', 'run', '--resume', str(folder), *flags])}")
        self.folder, self.generation = folder, generation


def leave_to_parent() -> None:
    """Ignore Ctrl-C and a closed terminal, which reach all its processes: the first of them decides."""
    for number in set(ENDING) - {signal.SIGTERM}:
        signal.signal(number, signal.SIG_IGN)


def end_at_once(number: int, frame: FrameType | None) -> None:
    """The handler while a command starts and ends, when there is nothing to tidy up: says so, and exits."""
    with contextlib.suppress(OSError):
        os.write(STDERR, b"egrl: error: interrupted\n")
    os._exit(INTERRUPTED)


def take_over(handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Install the handler for the signals in `ENDING`; those that were there, by number.

    A signal that is ignored (`nohup`, a shell's background) stays so, and one that a caller handles stays the caller's.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL, end_at_once):
                before[number] = signal.signal(number, handler)
    return before


def give_back(before: dict[int, Any]) -> None:
    """Install handlers again that `take_over` gave."""
    for number, handler in before.items():
        signal.signal(number, handler)


class StopSignal:
    """The first signal of `ENDING` asks to stop once what has begun is measured; the second ends at once.

    `hint` is written to stderr when the first one comes ("": nothing is).
    """

    def __init__(self, hint: str = "") -> None:
        self._hint = f"\negrl: {hint}\n" if hint else ""  # a progress line may stand there
        self._stopping = self._ended = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Callable[[], bool]:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return lambda: self._stopping

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._stopping:
            self._ended = True
            raise KeyboardInterrupt
        self._stopping = True
        with contextlib.suppress(OSError):  # no print: the handler may have come in the midst of one
            os.write(STDERR, self._hint.encode())

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        give_back(self._before)
        if self._ended and isinstance(error, Exception):  # compiled code makes another error of an interrupt
            raise KeyboardInterrupt from error


@contextlib.contextmanager
def watch_interrupts() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether Ctrl-C, SIGTERM or SIGHUP interrupted what runs within.

    An interrupt that comes while numba compiles or calls machine code is swallowed or leaves it as another error.
    """
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    def unraisable(raised: Any) -> None:
        if not issubclass(raised.exc_type, KeyboardInterrupt):
            before(raised)

    before = sys.unraisablehook
    handlers = take_over(interrupt)
    if handlers:
        sys.unraisablehook = unraisable
    try:
        yield lambda: interrupted
    finally:
        give_back(handlers)
        sys.unraisablehook = before
