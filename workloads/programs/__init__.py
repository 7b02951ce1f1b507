"""Compiled programs: type, JSON, checks, programs of workloads, and those in `shipped/`; knows no chip."""

from importlib import resources

from workloads.files import PACKED

SHIPPED = "shipped"
"""Folder of package data: NAME.json.xz, one a shipped program."""


def program_names() -> tuple[str, ...]:
    """Names of the programs that ship with the package, sorted."""
    folder = resources.files("workloads.programs") / SHIPPED
    if not folder.is_dir():
        return ()
    found = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(PACKED) for name in found if name.endswith(PACKED)))


def read_shipped(name: str) -> bytes:
    """The packed file of a shipped program."""
    return (resources.files("workloads.programs") / SHIPPED / f"{name}{PACKED}").read_bytes()
