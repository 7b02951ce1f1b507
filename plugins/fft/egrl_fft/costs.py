"""Measured costs that are kept between runs: a line of JSON a plan, in a file for each size that was searched for.

The first line says of which machine and library version they are; a file of another one is passed over, and gets
another name beside the new one when something is measured. A line that is cut off or says nothing is passed over.
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

from egrl_fft import cache
from egrl_fft.measured import LIBRARY_VERSION
from hwsim.kernel_cache import machine_name

KIND, VERSION = "fft-costs", 1


def _header() -> dict[str, Any]:
    return {"kind": KIND, "version": VERSION, "machine": machine_name(), "library": LIBRARY_VERSION}


def _document(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _lines(file: Path) -> list[str] | None:
    """The lines after the first; None if that is not this machine's."""
    try:
        first, *lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    return lines if _document(first) == _header() else None


def known(size: int) -> dict[str, float]:
    """Seconds of a DFT by the plans (text) that searches for `size` points have measured, the latest counting."""
    found: dict[str, float] = {}
    try:
        file = cache.costs_path(size)
    except OSError:
        return {}
    for line in _lines(file) or ():
        document = _document(line)
        if not isinstance(document, dict):
            continue
        plan, seconds = document.get("plan"), document.get("seconds")
        if isinstance(plan, str) and isinstance(seconds, float) and 0 < seconds < math.inf:
            found[plan] = seconds
    return found


def keep(size: int, plan: str, seconds: float) -> None:
    """Keep what a plan was measured to take; if that is not possible nothing happens."""
    line = json.dumps({"plan": plan, "seconds": seconds}) + "\n"
    with contextlib.suppress(OSError):
        file = cache.costs_path(size)
        if _first_is_ours(file):
            with open(file, "a", encoding="utf-8") as stream:
                stream.write(line)
        else:
            if file.exists():
                cache.set_aside(file)
            cache.write(file, (json.dumps(_header()) + "\n" + line).encode())


def _first_is_ours(file: Path) -> bool:
    try:
        with open(file, encoding="utf-8") as stream:
            return bool(_document(stream.readline()) == _header())
    except (OSError, ValueError):
        return False
