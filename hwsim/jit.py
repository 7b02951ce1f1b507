"""Compile a hot loop with numba, and keep the machine code on disk where a place can be written.

Numba looks for a cache folder beside the source, then in the user's cache folder. Where neither can be
written it refuses to define the function at all; then the function is compiled in every process instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """The function compiled in numba's strict floating-point mode on its first call, one thread.

    Numba's cache looks only at the function's own file for changes: not at kernels of other files that it
    calls, which should therefore be as settled as `hwsim.keys`, nor at the field order of a NamedTuple that it
    takes. Delete the `*.nbi` and `*.nbc` files after changing either.
    """
    compiled: Any
    try:
        compiled = njit(cache=True)(function)
    except RuntimeError:  # numba: "no locator available"
        compiled = njit(function)
    result: F = compiled
    return result
