"""Compile a hot loop with numba, and keep the machine code on disk where a place can be written.

Numba looks for a cache folder beside the source, then in the user's cache folder. Where neither can be
written it refuses to define the function at all; then the function is compiled in every process instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """The function compiled in numba's strict floating-point mode on its first call, one thread, without Python's lock.

    Numba's cache looks only at the function's own file for changes: not at kernels of other files that it
    calls, which should therefore be as settled as `hwsim.keys`, nor at the field order of a NamedTuple that it
    takes. Delete the `*.nbi` and `*.nbc` files after changing either.
    """
    compiled: Any
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba: "no locator available"
        compiled = njit(nogil=True)(function)
    else:
        compiled._cache = _Forgiving(compiled._cache)
    result: F = compiled
    return result


class _Forgiving:
    """Numba's cache of one function, for which a full or unreadable disk is no reason to stop."""

    def __init__(self, cache: Any) -> None:
        self._wrapped = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def load_overload(self, *arguments: Any) -> Any:
        """Machine code from disk, or None."""
        try:
            return self._wrapped.load_overload(*arguments)
        except (OSError, EOFError):
            return None

    def save_overload(self, *arguments: Any) -> None:
        """Keep machine code on disk where that is possible."""
        with contextlib.suppress(OSError):
            self._wrapped.save_overload(*arguments)
