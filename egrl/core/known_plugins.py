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


def offered(kind: str) -> dict[str, str]:
    """The names of a kind that plug-ins of a clone offer -> what to install for each."""
    return {
        name: f"{distribution}: pip install ./{offers['folder']}"
        for distribution, offers in known().items()
        for name in offers.get(f"{kind}s", ())
    }


def check_installed(kind: str, name: str, flag: str) -> None:
    """InputError that says what to install if `name` is of a plug-in that comes with egrl; call it if it is not there.

    `kind` is the word of a `plugins.Kind`: "problem".
    """
    if name in (there := offered(kind)):
        distribution, _, command = there[name].partition(": ")
        raise InputError(
            f"{flag} {name}: expected the plug-in {distribution} to be installed, found it missing; in a clone of"
            f" egrl: {command}"
        )
