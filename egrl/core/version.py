"""The version of the package, which `egrl --version` says and Ray workers compare, and those of what it runs with."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

VERSION = "0.2.0"

COUNTED = ("numpy", "numba", "scipy", "torch")
"""Packages whose versions may change a run's numbers."""


def versions() -> dict[str, str]:
    """Of egrl, Python and those of `COUNTED` that this process has loaded, by name."""
    found = {"egrl": VERSION, "python": platform.python_version()}
    for name in COUNTED:
        if name in sys.modules:
            try:
                found[name] = version(name)
            except PackageNotFoundError:  # loaded from a folder that was not installed
                found[name] = str(getattr(sys.modules[name], "__version__", "unknown"))
    return found
