"""Whether a run goes on with the settings that it was made with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workloads.errors import InputError


def check_settings(made: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """InputError naming the first key of which a run was `made` with another value than it has `now`.

    Both are dotted key -> value; a key without a value is missing. `where` is the file that says what is so now.
    """
    for key in dict.fromkeys([*now, *made]):
        if made.get(key) != now.get(key):
            raise InputError(
                f"{where}: {key}: expected {_told(made, key)}, with which the run was made, found {_told(now, key)};"
                " start another run for another value"
            )


def _told(settings: Mapping[str, Any], key: str) -> str:
    return repr(settings[key]) if key in settings else "none"
