"""Which distribution to install for a name that is not there: known_plugins.toml lists what comes with egrl."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from workloads.errors import InputError

FILE = Path(__file__).with_suffix(".toml")


@cache
def known() -> dict[str, dict[str, Any]]:
    """Distribution -> its `folder` in a clone, and the names of each group of its entry points."""
    import tomllib

    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def check_installed(kind: str, name: str, flag: str) -> None:
    """InputError that says what to install if `name` is of a plug-in that comes with egrl; call it if it is not there.

    `kind` is the word of a `plugins.Kind`: "problem".
    """
    for distribution, offers in known().items():
        if name in offers.get(f"{kind}s", ()):
            raise InputError(
                f"{flag} {name}: expected the plug-in {distribution} to be installed, found it missing; in a clone of"
                f" egrl: pip install ./{offers['folder']}"
            )
