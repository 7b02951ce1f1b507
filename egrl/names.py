"""Lists of names on the command line."""

from __future__ import annotations

from workloads.errors import InputError


def several(text: str, flag: str) -> list[str]:
    """The names in "A,B,C". InputError naming the flag where one is empty or given twice."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(f"{flag}: expected names with single commas between, found {text!r}")
    if len(set(names)) < len(names):
        raise InputError(f"{flag}: expected different names, found {text!r}")
    return names
