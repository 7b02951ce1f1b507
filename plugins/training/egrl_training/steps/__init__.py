"""Training steps: their JSON, what each must satisfy, and those that ship with the package in `shipped/`."""

from importlib import resources

from workloads.files import PACKED

SHIPPED = "shipped"
"""Folder of package data: NAME.json.xz, one per shipped step."""


def step_names() -> tuple[str, ...]:
    """Names of the training steps that ship with the package, sorted."""
    folder = resources.files("egrl_training.steps") / SHIPPED
    if not folder.is_dir():
        return ()
    found = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(PACKED) for name in found if name.endswith(PACKED)))


def read_shipped(name: str) -> bytes:
    """The packed file of a shipped step."""
    return (resources.files("egrl_training.steps") / SHIPPED / f"{name}{PACKED}").read_bytes()
