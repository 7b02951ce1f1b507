"""Compile a hot loop with numba, and keep the machine code on disk where a place can be written.

Numba looks for a cache folder beside the source, then in the user's cache folder. Where neither can be
written it refuses to define the function at all; then the function is compiled in every process instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

_DIGESTS: dict[Any, str] = {}
"""Kernel -> digest of its code and of what it takes from other files."""
_LISTENERS: list[Callable[[bool], None]] = []
"""Who is to be told before the next kernel is compiled."""


def kernel(function: F) -> F:
    """The function compiled in numba's strict floating-point mode on its first call, one thread, without Python's lock.

    The machine code on disk holds for the function's file as it was, and for what the function takes from others:
    kernels (and theirs), constants, the fields of NamedTuples.
    """
    compiled: Any
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba: "no locator available"
        compiled = njit(nogil=True)(function)
        compiled._cache = _Forgiving(compiled._cache, keeps=False)
    else:
        # Numba itself looks only at the function's own file; the digest joins what it compares.
        index = compiled._cache._cache_file
        digest = _digest(function)
        index._source_stamp = (index._source_stamp, digest)
        compiled._cache = _Forgiving(compiled._cache, keeps=True)
        _DIGESTS[compiled] = digest
    result: F = compiled
    return result


@contextlib.contextmanager
def before_compiling(listener: Callable[[bool], None]) -> Iterator[None]:
    """Within it, `listener` is called once, before the first kernel is compiled that cannot be loaded from disk.

    It is told whether the machine code is kept on disk, so that later processes load it.
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
        """Of all compiling so far, what is under way included."""
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


_COMPILING = _Compiling()
event.register("numba:compile", _COMPILING)  # type: ignore[no-untyped-call]


def _digest(function: Any) -> str:
    """Of a function's code and of all that it names, as far as machine code depends on it."""
    found = hashlib.sha256()
    for part in _parts(function):
        found.update(part.encode())
        found.update(b"\0")
    return found.hexdigest()


def _parts(function: FunctionType) -> Iterator[str]:
    names = list(_code_parts(function.__code__))
    yield from names
    scope = function.__globals__
    # Annotations are text: the types of arguments are among the names in them.
    words = re.findall(r"\w+", " ".join(str(part) for part in function.__annotations__.values()))
    for name in sorted({*names, *words}):
        value = scope.get(name)
        if isinstance(value, ModuleType):  # what the code takes of it is among its names, too
            for member in sorted(set(names)):
                yield from _value_parts(f"{name}.{member}", getattr(value, member, None))
        else:
            yield from _value_parts(name, value)


def _code_parts(code: CodeType) -> Iterator[str]:
    """Byte code, names and constants, of inner functions, too."""
    yield code.co_code.hex()
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        else:
            yield repr(constant)


def _value_parts(name: str, value: Any) -> Iterator[str]:
    """What machine code depends on of a value with this name; nothing where it is of no kind that kernels use."""
    if isinstance(value, bool | int | float | str | tuple | np.generic):
        yield f"{name} = {value!r}"
    elif isinstance(value, np.ndarray):
        yield f"{name} = {value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, type) and hasattr(value, "_fields"):
        yield f"{name}: {', '.join(value._fields)}"
        yield from (str(kind) for kind in value.__annotations__.values())
    elif (digest := _known(value)) is not None:
        yield f"{name}: {digest}"


def _known(value: Any) -> str | None:
    """The digest of a kernel; None of anything else."""
    try:
        return _DIGESTS.get(value)
    except TypeError:  # not hashable
        return None


class _Forgiving:
    """Numba's cache of one function, for which a full or unreadable disk is no reason to stop.

    `keeps` says whether it is on disk at all.
    """

    def __init__(self, cache: Any, keeps: bool) -> None:
        self._wrapped, self._keeps = cache, keeps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def load_overload(self, *arguments: Any) -> Any:
        """Machine code from disk, or None; then numba compiles next, and listeners are told."""
        found = None
        with contextlib.suppress(OSError, EOFError):
            found = self._wrapped.load_overload(*arguments)
        while found is None and _LISTENERS:
            _LISTENERS.pop()(self._keeps)
        return found

    def save_overload(self, *arguments: Any) -> None:
        """Keep machine code on disk where that is possible."""
        with contextlib.suppress(OSError):
            self._wrapped.save_overload(*arguments)
