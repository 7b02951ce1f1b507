"""Check the state of a method that a checkpoint holds: is it built as that of a new instance of the method is?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def state_mismatch(new: Any, found: Any, where: str = "method") -> str | None:
    """The first place at which the state `found` differs in kind from that of a new method, in words; None: nowhere.

    The kinds of values and the shapes of arrays must be the same. Where the new state has None, anything may stand;
    tables may have further keys, lists another length, and arrays more rows.
    """
    if new is None:
        return None
    if found is None:
        return f"{where}: expected {type(new).__name__}, found none"
    if isinstance(new, Mapping):
        if not isinstance(found, Mapping) or not set(new) <= set(found):
            return f"{where}: expected a table with the keys {', '.join(map(str, new))}"
        pairs = [(f"{where}.{key}", value, found[key]) for key, value in new.items()]
        return next((fault for at, a, b in pairs if (fault := state_mismatch(a, b, at))), None)
    if isinstance(new, list | tuple):
        if not isinstance(found, list | tuple):
            return f"{where}: expected a list"
        if len(new) != len(found):
            return None
        parts = enumerate(zip(new, found, strict=True))
        return next((fault for i, (a, b) in parts if (fault := state_mismatch(a, b, f"{where}[{i}]"))), None)
    if getattr(new, "shape", ()):
        return _array_mismatch(new, found, where)
    plain = not hasattr(new, "shape") or isinstance(new, np.generic)
    if plain and isinstance(found, np.ndarray):
        return f"{where}: expected {_kind(new).__name__}, found an array"
    if _kind(new) is not _kind(found):
        return f"{where}: expected {_kind(new).__name__}, found {_kind(found).__name__}"
    return None


def _array_mismatch(new: Any, found: Any, where: str) -> str | None:
    shape, given = tuple(new.shape), tuple(getattr(found, "shape", ()))
    if not hasattr(found, "shape") or len(given) != len(shape) or given[1:] != shape[1:] or given < shape:
        return f"{where}: expected an array of shape {shape}, found {given or type(found).__name__}"
    kinds = [np.asarray(part).dtype.kind for part in (new, found)]
    if kinds[0] != kinds[1]:
        return f"{where}: expected an array of kind {kinds[0]}, found {kinds[1]}"
    return None


def _kind(value: object) -> type:
    """Numbers are of one kind, whole or not."""
    number = isinstance(value, bool | int | float | np.generic) or getattr(value, "shape", None) == ()
    return float if number else type(value)
