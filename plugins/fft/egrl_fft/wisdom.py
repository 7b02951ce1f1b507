"""Wisdom: the best plans known on this machine, in a file of the user's, as FFTW keeps them.

`egrl_fft/cache.py` says where the file lies. Times of another machine or library version say nothing here: such a
file is passed over with a warning; when something is learned it gets another name beside the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egrl_fft.cache import set_aside, wisdom_path, write
from egrl_fft.grammar import Plan
from egrl_fft.measured import LIBRARY_VERSION
from egrl_fft.notation import parse
from hwsim.kernel_cache import machine_name
from workloads.errors import InputError, Notice
from workloads.files import read_text
from workloads.json_text import parse_document

KIND, VERSION = "fft-wisdom", 1


@dataclass(frozen=True)
class Known:
    """A plan, and the seconds that it was measured to take."""

    plan: Plan
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What became of a plan that was to be remembered.

    Attributes:
        kept: whether it was written.
        before: the plan that was known of its size until then; None if none was.
        aside: where the file now lies that was there and could not be used; None if there was none.
        reason: why that could not be used.
    """

    kept: bool
    before: Plan | None = None
    aside: Path | None = None
    reason: str = ""


def path() -> Path:
    """Where the user's wisdom lies."""
    return wisdom_path()


def read(file: Path) -> dict[int, Known]:
    """The best plan by size.

    Raises:
        InputError: it cannot be read, is no wisdom, or is of another machine or library version.
    """
    where = str(file)
    document = parse_document(read_text(where, "wisdom about FFTs (.json)"), where, KIND, VERSION)
    here = {"machine": machine_name(), "library": LIBRARY_VERSION}
    for key, expected in here.items():
        if document.get(key) != expected:
            raise InputError(f"{where}: {key}: expected {expected!r}, found {document.get(key)!r}")
    plans = document.get("plans")
    if not isinstance(plans, list):
        raise InputError(f"{where}: plans: expected a list, found {type(plans).__name__}")
    return dict(_entry(entry, f"{where}: plans[{number}]") for number, entry in enumerate(plans))


def _entry(entry: Any, where: str) -> tuple[int, Known]:
    if not isinstance(entry, dict) or not isinstance(entry.get("plan"), str):
        raise InputError(f"{where}: expected size, plan and seconds, found {str(entry)[:60]!r}")
    plan, seconds, size = parse(entry["plan"], f"{where}.plan"), entry.get("seconds"), entry.get("size")
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < float("inf"):
        raise InputError(f"{where}.seconds: expected a number above 0, found {seconds!r}")
    if plan.size != size or "?" in str(plan):
        raise InputError(
            f"{where}.plan: expected a complete plan for {size} points, found {entry['plan'][:60]!r}"
        )
    return plan.size, Known(plan, float(seconds))


def known() -> dict[int, Known]:
    """The user's wisdom; empty if there is none, with a warning if it is of no use here."""
    plans, reason = _known()
    if reason:
        warnings.warn(f"FFT wisdom is passed over: {reason}", Notice, stacklevel=3)
    return plans


def _known() -> tuple[dict[int, Known], str]:
    """The user's wisdom, and why it is of no use here ("" if it is of use, or there is none)."""
    try:
        file = path()
        return (read(file), "") if file.exists() else ({}, "")
    except (InputError, OSError) as error:
        return {}, str(error)


def remember(plan: Plan, seconds: float, raced: bool = False) -> Outcome:
    """Write a plan down unless one at least as fast is known for its size; a file that cannot be used is kept aside.

    Where it has `raced` against the one that is known, whose seconds are of another day, it is written in any case.

    Raises:
        InputError: the file cannot be written.
    """
    plans, reason = _known()
    before = plans.get(plan.size)
    if not raced and before is not None and before.seconds <= seconds:
        return Outcome(False, before.plan)
    plans[plan.size] = Known(plan, seconds)
    rows = [{"size": n, "plan": str(k.plan), "seconds": k.seconds} for n, k in sorted(plans.items())]
    document = {
        "kind": KIND,
        "version": VERSION,
        "machine": machine_name(),
        "library": LIBRARY_VERSION,
        "plans": rows,
    }
    try:
        file, aside = path(), None
    except OSError as error:
        raise InputError(f"cannot write FFT wisdom: {error}") from error
    try:
        if reason:
            aside = set_aside(file)
        write(file, (json.dumps(document, indent=1) + "\n").encode())
    except OSError as error:
        if aside is not None:
            with contextlib.suppress(OSError):
                os.replace(aside, file)
        raise InputError(f"{file}: cannot write FFT wisdom: {error.strerror or error}") from error
    return Outcome(True, None if before is None else before.plan, aside, reason)
