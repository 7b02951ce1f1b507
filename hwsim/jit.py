"""Compile a hot loop with numba, and keep the machine code on disk (`hwsim/kernel_cache.py`).

If the cache folder cannot be written, every process compiles for itself. If EGRL_COMPILE_TIMES names a folder, every
process writes there what it compiled and how long that took (`tools/compile_times.py` prints it).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from numba import njit
from numba.core import event, types

from hwsim import kernel_cache

F = TypeVar("F", bound=Callable[..., Any])

_LISTENERS: list[Callable[[bool], None]] = []
"""Functions to call before the next kernel is compiled."""


def kernel(function: F) -> F:
    """The function compiled in numba's strict floating-point mode on its first call, one thread, without Python's lock.

    Machine code on disk is loaded only if the function's file and all that it takes from others are as they were.
    """
    return _compiled(function)


def inlined(function: F) -> F:
    """A small kernel that is compiled into its callers, since a call would pass on each array of a tuple.

    A division by 0 gives what numpy gives and is no error: where an error may leave a loop, each array in it is counted
    as used and as free again, at every turn. Both together make such loops several times as fast.
    """
    return _compiled(function, forceinline=True, error_model="numpy")


def _compiled(function: F, **options: Any) -> F:
    compiled: Any = njit(nogil=True, **options)(function)
    _call_without_literals(compiled)
    cache = kernel_cache.attach(compiled)
    compiled._cache = _Forgiving(compiled._cache if cache is None else cache, keeps=cache is not None)
    _end_turn_at_failures(compiled)
    result: F = compiled
    return result


def _call_without_literals(compiled: Any) -> None:
    """Let calls of kernels with constants, `f(x, 0)` and `f(x, 1)`, take one kernel; numba compiles one for each."""
    template = compiled.get_call_template
    plain_kind: Callable[[Any], Any] = types.unliteral

    def plain(args: Any, kws: Any) -> Any:
        return template([plain_kind(kind) for kind in args], {k: plain_kind(kind) for k, kind in kws.items()})

    compiled.get_call_template = plain


def _end_turn_at_failures(compiled: Any) -> None:
    """What cannot be compiled is not kept, either; who waits for it may fail by itself."""
    compile_, cache = compiled._compiler.compile, compiled._cache

    def compile_or_end_turn(*arguments: Any) -> Any:
        try:
            return compile_(*arguments)
        except BaseException:
            cache.end_turn()
            raise

    compiled._compiler.compile = compile_or_end_turn


@contextlib.contextmanager
def before_compiling(listener: Callable[[bool], None]) -> Iterator[None]:
    """Within it, `listener` is called once, before the first kernel is compiled that cannot be loaded from disk.

    It is called with True if the machine code is kept on disk, so that later processes load it.
    """
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # it was called
            _LISTENERS.remove(listener)


def clock() -> float:
    """A clock in seconds that stands still while this process compiles kernels, which it does once."""
    return time.monotonic() - _COMPILING.seconds


class _Compiling(event.Listener):
    """Counts the seconds of compiling; a kernel that is compiled for another one counts within it.

    Numba compiles in one thread at a time.
    """

    def __init__(self) -> None:
        self._ended_s, self._begun_s, self._depth = 0.0, 0.0, 0

    @property
    def seconds(self) -> float:
        """Seconds of all compiling so far, including what is under way."""
        return self._ended_s + (time.monotonic() - self._begun_s if self._depth else 0.0)

    def on_start(self, event: Any) -> None:
        """A compilation begins."""
        if self._depth == 0:
            self._begun_s = time.monotonic()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """It has ended."""
        self._depth -= 1
        if self._depth == 0:
            self._ended_s += time.monotonic() - self._begun_s

    @contextlib.contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Within it another process may be compiling for this one."""
        self.on_start(None)
        try:
            yield
        finally:
            self.on_end(None)


_COMPILING = _Compiling()
event.register("numba:compile", _COMPILING)  # type: ignore[no-untyped-call]


class _Times(event.Listener):
    """Appends a line of JSON per compiled kernel to a file of this process in a folder.

    Seconds are the kernel's own: those of kernels that are compiled for it are in lines of their own.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._begun: list[list[float]] = []
        """Each compilation under way: when it began, and the seconds of those within it."""

    def on_start(self, event: Any) -> None:
        """A compilation begins."""
        self._begun.append([time.monotonic(), 0.0])

    def on_end(self, event: Any) -> None:
        """It has ended."""
        begun, within = self._begun.pop()
        seconds = time.monotonic() - begun
        if self._begun:
            self._begun[-1][1] += seconds
        function = event.data["dispatcher"].py_func
        line = {
            "kernel": f"{function.__module__}.{function.__qualname__}",
            "file": function.__code__.co_filename,
            "types": str(event.data["args"]),
            "seconds": seconds - within,
            "test": os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0],
        }
        with contextlib.suppress(OSError), (self._folder / f"{os.getpid()}.jsonl").open("a") as stream:
            stream.write(json.dumps(line) + "\n")


if _folder := os.environ.get("EGRL_COMPILE_TIMES"):
    event.register("numba:compile", _Times(_folder))  # type: ignore[no-untyped-call]


class _Forgiving:
    """Numba's cache of one function, for which a full or unreadable disk is no reason to stop.

    `keeps` says whether it is on disk at all.
    """

    def __init__(self, cache: Any, keeps: bool) -> None:
        self._wrapped, self._keeps = cache, keeps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def load_overload(self, *arguments: Any) -> Any:
        """Machine code from disk, or None; then numba compiles next, which listeners are told before.

        If another process is compiling it, this one waits.
        """
        code = self._loaded(arguments)
        while code is None and _LISTENERS:
            _LISTENERS.pop()(self._keeps)
        if code is None and self._keeps:
            with _COMPILING.elsewhere(), contextlib.suppress(OSError):
                self._wrapped.take_turn(*arguments)
            code = self._loaded(arguments)
            if code is not None:
                self.end_turn()
        return code

    def _loaded(self, arguments: tuple[Any, ...]) -> Any:
        with contextlib.suppress(OSError):
            return self._wrapped.load_overload(*arguments)

    def save_overload(self, *arguments: Any) -> None:
        """Keep machine code on disk where that is possible."""
        with contextlib.suppress(OSError):
            self._wrapped.save_overload(*arguments)
        self.end_turn()

    def end_turn(self) -> None:
        """What was not loaded is compiled, or cannot be."""
        if self._keeps:
            with contextlib.suppress(OSError):
                self._wrapped.end_turn()
