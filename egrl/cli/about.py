"""egrl --version --verbose: what the report of a bug should name."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from egrl.core.version import VERSION


def lines() -> Iterator[str]:
    """Versions, machine, GPU, plug-ins and caches, one line each: name, two spaces or more, value."""
    found = [
        ("egrl", f"{VERSION} ({Path(__file__).parents[2]})"),
        ("python", f"{platform.python_version()} ({sys.executable})"),
        ("system", platform.platform()),
        ("processor", f"{_processor()}, {_cores()}"),
        ("gpu", _gpu()),
        *_packages(),
        *_caches(),
    ]
    width = max(len(name) for name, _ in found)
    for name, value in found:
        yield f"{name:<{width}}  {value}"


def _processor() -> str:
    try:
        from hwsim.host import machine_name

        return machine_name()
    except ImportError:
        return platform.processor() or platform.machine()


def _cores() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{usable} of {os.cpu_count()} cores"


def _gpu() -> str:
    try:
        import torch
    except ImportError:
        return "unknown without PyTorch"
    if not torch.cuda.is_available():
        return "none that PyTorch can use"
    return ", ".join(torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count()))


def _packages() -> Iterator[tuple[str, str]]:
    """The requirements of the package, its extras and its plug-ins that are installed."""
    try:
        required = metadata.requires("egrl") or []
    except metadata.PackageNotFoundError:  # run from a folder that was not installed
        required = []
    for line in sorted(set(required), key=str.lower):
        name = re.split(r"[\s;<>=\[]", line)[0]
        extra = "extra ==" in line
        if name == "egrl":  # an extra of extras
            continue
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            if not extra:
                yield name, "not installed"
    groups = [group for group in metadata.entry_points().groups if group.startswith("egrl.")]
    plugged = {entry.dist for group in groups for entry in metadata.entry_points(group=group)}
    yield from sorted({(dist.name, dist.version) for dist in plugged if dist is not None})


def _caches() -> Iterator[tuple[str, str]]:
    """Where kernels are kept."""
    from hwsim import kernel_cache

    try:
        yield "kernels", f"compiled ones in {kernel_cache.folder()}"
    except FileNotFoundError as error:
        yield "kernels", f"compiled in every process: {error}"
