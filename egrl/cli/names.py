"""Lists of names on the command line."""

from __future__ import annotations

from workloads.errors import InputError
from workloads.sets import is_set, members


def several(text: str, flag: str) -> list[str]:
    """The names in "A,B,C". InputError naming the flag where one is empty or given twice."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(f"{flag}: expected names with single commas between, found {text!r}")
    if len(set(names)) < len(names):
        raise InputError(f"{flag}: expected different names, found {text!r}")
    return names


def several_workloads(text: str, flag: str) -> list[str]:
    """The workloads in "A,B,C", a set (`workloads.sets`) standing for its members.

    InputError as `several`, and where there is no such set or a workload is in it and given, too.
    """
    names = [
        name for given in several(text, flag) for name in (members(given) if is_set(given) else (given,))
    ]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{flag}: expected different workloads, found {twice} twice in {text!r}")
    return names
